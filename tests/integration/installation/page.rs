//! The commands of docs/install.md: those that need no cluster, cloud or registry run as written. All others are listed
//! here with the reason.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use crate::emulators::Emulator as _;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, command};

const PAGE: &str = include_str!("../../../docs/install.md");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// How a command of the page is tried, by its beginning.
enum Trial {
    /// As written, in a folder with the page's files. A stand-in replaces the static binary, whose build takes ten
    /// minutes.
    Runs,
    /// Without `kubectl exec`: the command that it would run in the container, with the configuration of an emulator.
    InContainer,
    /// It is not tried, for this reason.
    Not(&'static str),
}

const TRIALS: [(&str, Trial); 12] = [
    (
        "podman build",
        Trial::Not("a container engine; tests/image/run compares its Containerfile with the image made without one"),
    ),
    ("deploy/image/build image", Trial::Runs),
    ("skopeo copy", Trial::Not("a registry")),
    ("aws eks create-pod-identity-association", Trial::Not("an EKS cluster")),
    ("helm upgrade --install", Trial::Not("a cluster with nodes; tests/deploy/run renders the chart with helm")),
    ("kubectl --namespace kube-system get pods", Trial::Not("a cluster with nodes; its selector is checked below")),
    (
        "kubectl --namespace kube-system logs",
        Trial::Not("a cluster with nodes; its selector and container are checked below"),
    ),
    ("kubectl --namespace kube-system exec", Trial::InContainer),
    ("deploy/release/build dist", Trial::Runs),
    ("sha256sum --check SHA256SUMS", Trial::Runs),
    ("cargo audit bin headcount", Trial::Not("cargo-audit, and the database of advisories")),
    ("cargo install --locked --path .", Trial::Not("a release build of ten minutes; the tests build the same package")),
];

/// The commands of a page, each on one line without its comment: its indented blocks and the installation with cargo.
fn commands_of(page: &str) -> Vec<String> {
    let joined = page.replace("\\\n", " ");
    let indented = joined.lines().filter_map(|line| line.strip_prefix("    "));
    let inline = page.split('`').filter(|code| code.starts_with("cargo install"));
    let words =
        |line: &str| line.split(" # ").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    indented.chain(inline).map(words).filter(|line| !line.is_empty()).collect()
}

/// A program that stands in for another one.
fn stand_in(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// The folder in which the commands run: the scripts of the repository, and a cargo that has the static binary at once.
fn workplace(folder: &Path) -> impl Fn(&str) -> Output {
    symlink(Path::new(ROOT).join("deploy"), folder.join("deploy")).expect("linked");
    let (programs, target) = (folder.join("programs"), folder.join("target"));
    fs::create_dir(&programs).expect("made");
    stand_in(&programs, "static-headcount", &format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_headcount")));
    let build = format!(
        "case \"$*\" in\n\
         metadata*) exec '{}' \"$@\" ;;\n\
         *'build --locked --release --target '*) ;;\n\
         *) echo \"unexpected: cargo $*\" >&2; exit 1 ;;\n\
         esac\n\
         [ \"$RUSTFLAGS\" = '-C target-feature=+crt-static' ] || exit 1\n\
         for last; do :; done\n\
         into={}/$last/release\n\
         mkdir -p \"$into\" && cp {}/static-headcount \"$into/headcount\"",
        env!("CARGO"),
        target.display(),
        programs.display(),
    );
    stand_in(&programs, "cargo", &build);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("set"));
    let folder = folder.to_owned();
    move |line| {
        // The page does not fix the folder for the downloads.
        let place = if line.starts_with("sha256sum") { folder.join("dist") } else { folder.clone() };
        let mut shell = Command::new("sh");
        shell.args(["-ec", line]).current_dir(place).env("PATH", &path).env("CARGO_TARGET_DIR", &target);
        shell.output().expect("a shell runs")
    }
}

/// What `kubectl exec` runs in the container, run here with this configuration.
fn in_container(line: &str, config: &ConfigFile) -> Output {
    let (_, inside) = line.split_once(" -- /headcount ").expect("the image's entrypoint");
    let inside = inside.replace("/etc/headcount/headcount.yaml", &config.path());
    assert!(inside.contains(&config.path()), "the path of the manifests: {line}");
    command(&inside.split_whitespace().collect::<Vec<_>>()).output().expect("the binary runs")
}

#[tokio::test]
async fn the_commands_of_the_installation_page_work_as_written() {
    let aws = Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("my-asg").sized(0, 10, 2)])));
    let settings: String = aws.settings().iter().map(|line| format!("      {line}\n")).collect();
    let config = format!("sources:\n  - name: here\n    aws:\n{settings}      nodeGroups: [\"1:10:my-asg\"]\n");
    let config = ConfigFile::new(&config);
    let folder = tempfile::tempdir().expect("a folder");
    let run = workplace(folder.path());

    let (mut tried, mut left) = (Vec::new(), TRIALS.iter().map(|(beginning, _)| *beginning).collect::<Vec<_>>());
    for line in commands_of(PAGE) {
        let found = TRIALS.iter().find(|(beginning, _)| line.starts_with(beginning));
        let (beginning, trial) = found.unwrap_or_else(|| panic!("neither tried nor listed here with a reason: {line}"));
        left.retain(|one| one != beginning);
        let output = match trial {
            Trial::Runs => run(&line),
            Trial::InContainer => in_container(&line, &config),
            Trial::Not(reason) => {
                println!("not run, it needs {reason}: {line}");
                continue;
            }
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !output.stdout.is_empty(), "{line}: {stderr}");
        tried.push(line);
    }
    assert!(left.is_empty(), "no longer on the page: {left:?}");
    assert_eq!(tried.len(), 4, "{tried:?}");

    // The files that the commands have made, which the page names.
    assert!(folder.path().join("image/index.json").is_file());
    let made: Vec<String> = fs::read_to_string(folder.path().join("dist/SHA256SUMS"))
        .expect("written")
        .lines()
        .filter_map(|line| Some(line.split_whitespace().nth(1)?.to_owned()))
        .collect();
    for suffix in [".tar.gz", "-image.oci.tar", ".cdx.json"] {
        assert!(made.iter().any(|name| name.ends_with(suffix)), "{suffix}: {made:?}");
    }
}

#[test]
fn the_kubectl_commands_of_the_installation_page_use_the_names_of_the_manifests() {
    let manifest =
        fs::read_to_string(Path::new(ROOT).join("deploy/kubernetes/base/deployment.yaml")).expect("it exists");
    let commands: Vec<String> =
        commands_of(PAGE).into_iter().filter(|line| line.starts_with("kubectl --namespace kube-system ")).collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    for line in commands {
        let after = |word: &str| line.split_whitespace().skip_while(|one| *one != word).nth(1);
        if let Some(selector) = after("--selector") {
            assert!(manifest.contains(&selector.replace('=', ": ")), "{line}");
        }
        if let Some(container) = after("--container") {
            assert!(manifest.contains(&format!("- name: {container}\n")), "{line}");
        }
        assert!(after("--selector").is_some() || manifest.contains("name: cluster-autoscaler\n"), "{line}");
    }
}
