//! The list of dependencies that cargo-auditable puts into the binary of a release: `deploy/release/build` compares
//! it with the bill of materials. cargo-auditable itself is not needed here: objcopy puts a list into a program in
//! its place.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// A small program that accepts any arguments.
const PROGRAM: &str = "/bin/true";

/// Runs `deploy/release/build` with these arguments, into this folder, with the stand-ins in `programs`.
fn build(folder: &Path, arguments: &[&str]) -> Output {
    let path = format!("{}:{}", folder.join("programs").display(), std::env::var("PATH").expect("set"));
    let mut command = Command::new(Path::new(ROOT).join("deploy/release/build"));
    command.args(arguments).current_dir(folder).env("PATH", path).env("CARGO_TARGET_DIR", folder.join("target"));
    command.output().expect("Python runs")
}

/// Puts this list into a copy of the program, as cargo-auditable does.
fn put_inside(folder: &Path, packages: &[Value]) {
    fs::write(folder.join("list.json"), json!({"packages": packages}).to_string()).expect("written");
    let script = "python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.compress(open(\"list.json\", \"rb\").read()))' > list \
                  && objcopy --add-section .dep-v0=list \"$0\" with-list";
    let done = Command::new("sh").args(["-ec", script, PROGRAM]).current_dir(folder).output().expect("a shell runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A cargo with cargo-auditable, whose build takes no time.
fn stand_in_for_cargo(folder: &Path) {
    let programs = folder.join("programs");
    fs::create_dir(&programs).expect("made");
    let cargo = format!(
        "case \"$*\" in\n\
         metadata*) exec '{}' \"$@\" ;;\n\
         'auditable build --locked --release --target '*) ;;\n\
         *) echo \"unexpected: cargo $*\" >&2; exit 1 ;;\n\
         esac\n\
         for last; do :; done\n\
         mkdir -p \"$CARGO_TARGET_DIR/$last/release\" && cp '{}/with-list' \"$CARGO_TARGET_DIR/$last/release/headcount\"",
        env!("CARGO"),
        folder.display(),
    );
    for (name, script) in [("cargo", cargo.as_str()), ("cargo-auditable", "exit 1")] {
        fs::write(programs.join(name), format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).expect("executable");
    }
}

#[test]
fn the_list_of_dependencies_inside_the_binary_agrees_with_the_bill_of_materials() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let without = build(folder, &["--binary", PROGRAM, "without"]);
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(without.status.success() && said.contains("does not carry its list of dependencies"), "{said}");
    let bill = fs::read_dir(folder.join("without")).expect("made").map(|file| file.expect("a file").path());
    let bill = bill.into_iter().find(|file| file.to_string_lossy().ends_with(".cdx.json")).expect("a bill");
    let bill: Value = serde_json::from_str(&fs::read_to_string(bill).expect("read")).expect("JSON");
    let crates = bill["components"].as_array().expect("a list");
    let mut packages: Vec<Value> = crates
        .iter()
        .map(|one| json!({"name": one["name"], "version": one["version"], "source": "crates.io"}))
        .collect();
    assert!(packages.len() > 100, "{}", packages.len());

    packages.push(json!({"name": "headcount", "version": env!("CARGO_PKG_VERSION"), "source": "local", "root": true}));
    put_inside(folder, &packages);
    stand_in_for_cargo(folder);
    let with = build(folder, &["with"]);
    let said = String::from_utf8_lossy(&with.stderr).into_owned();
    assert!(with.status.success(), "{said}");
    assert!(said.contains(&format!("carries its list of {} dependencies", packages.len())), "{said}");

    let forgotten = packages.remove(0);
    let old = json!({"name": "tokio", "version": "0.1.0", "source": "crates.io", "kind": "build"});
    put_inside(folder, &[packages, vec![old]].concat());
    let wrong = build(folder, &["--binary", "with-list", "wrong"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("tokio 0.1.0"), "{said}");
    assert!(said.contains(forgotten["name"].as_str().expect("a name")), "{said}");
    assert!(!folder.join("wrong/SHA256SUMS").exists());
}

/// The output of a command of a shell in this folder.
fn output(folder: &Path, script: &str) -> String {
    let done = Command::new("sh").args(["-ec", script]).current_dir(folder).output().expect("a shell runs");
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

#[test]
fn the_archive_and_the_image_have_the_notice() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let built = build(folder, &["--binary", PROGRAM, "made"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let notice = fs::read_to_string(Path::new(ROOT).join("NOTICE")).expect("read");
    assert!(notice.contains("imbl-sized-chunks") && notice.contains("https://"), "it names the sources: {notice}");
    assert_eq!(output(folder, "tar -xzOf made/*.tar.gz --wildcards '*/NOTICE'"), notice);
    let licence = fs::read_to_string(Path::new(ROOT).join("LICENSE")).expect("read");
    assert_eq!(output(folder, "tar -xzOf made/*.tar.gz --wildcards '*/LICENSE'"), licence);
    // The layers of the image are archives, too; other blobs are not.
    let layers = "mkdir image && tar -xf made/*-image.oci.tar -C image && cd image/blobs/sha256 && \
                  for blob in *; do tar -xzOf $blob --wildcards '*NOTICE' 2> /dev/null || true; done";
    assert_eq!(output(folder, layers), notice);
}
