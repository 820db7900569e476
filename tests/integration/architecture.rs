//! The order of the house, checked in its source: what may import what, and how long a file may be.
//!
//! The check reads text, not a syntax tree. It sees `crate::…`, `super::…` chains that leave their module, and the
//! first segment of any other path, in code and in tests, but not in comments and strings.

mod log_lines;
mod paths;
mod source;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use paths::{UsedPath, used_paths};

/// The modules, top to bottom. A module may name those after it, and itself.
const ORDER: [&str; 12] = [
    "main",
    "cli",
    "clouds",
    "config",
    "check",
    "grpc",
    "admin",
    "fleet",
    "template",
    "instance_types",
    "kubernetes",
    "cloud",
];

/// A longer file has more than one noun in it.
const FILE_LINES_MAX: usize = 500;

/// `main.rs` parses, runs and exits.
const MAIN_LINES_MAX: usize = 30;

/// Something in the source that breaks the order.
#[derive(Debug, PartialEq, Eq)]
struct Offence {
    file: PathBuf,
    line: usize,
    why: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src/{}:{}: {}", self.file.display(), self.line, self.why)
    }
}

/// What is wrong with a file; `file` is relative to `src`.
fn offences(file: &Path, text: &str) -> Vec<Offence> {
    let offence = |line, why| Offence { file: file.to_owned(), line, why };
    let lines_max = if file == Path::new("main.rs") { MAIN_LINES_MAX } else { FILE_LINES_MAX };
    let mut offences = Vec::new();
    let lines = text.lines().count();
    if lines > lines_max {
        offences.push(offence(lines_max + 1, format!("the file has {lines} lines, of {lines_max} at most")));
    }
    let module = module_of(file);
    let paths = used_paths(&source::code_only(text), &module);
    offences.extend(paths.into_iter().filter_map(|used| Some(offence(used.line, complaint(&module, &used)?))));
    offences
}

/// Why a module must not name this path; `None` if it may.
fn complaint(module: &[String], used: &UsedPath) -> Option<String> {
    // lib.rs is the root, and names no module but to declare it.
    let home = module.first()?.as_str();
    let path = used.segments.iter().map(String::as_str).collect::<Vec<_>>();
    let Some(own) = used.in_crate.then_some(path.as_slice()) else {
        return foreign_complaint(home, path.first()?);
    };
    let Some(target) = own.first().filter(|target| !matches!(**target, "*" | "self")) else {
        return Some(format!("`{home}` reaches for everything in the crate"));
    };
    let rank = |name: &str| ORDER.iter().position(|module| *module == name);
    let Some(home_rank) = rank(home) else {
        return Some(format!("`{home}` has no place in the order of modules"));
    };
    match rank(target) {
        // Something that the root itself holds: nothing above it.
        None => None,
        Some(target_rank) if target_rank < home_rank => {
            Some(format!("`{home}` names `{}`, which is above it", own.join("::")))
        }
        Some(_) if home == "clouds" && !may_be_named_by_clouds(own) => Some(format!(
            "`clouds` names `{}`; a cloud knows its settings and `cloud`, and decides nothing",
            own.join("::")
        )),
        Some(_) => None,
    }
}

/// What implementations of the trait may name: the trait's own words, and the settings they are made from.
fn may_be_named_by_clouds(path: &[&str]) -> bool {
    matches!(path, ["clouds" | "cloud", ..] | ["config", "settings", ..])
}

/// Why a module must not name this crate; `None` if it may.
fn foreign_complaint(home: &str, krate: &str) -> Option<String> {
    match home {
        "cloud" | "clouds" if krate == "tonic" || krate.starts_with("tonic_") => {
            Some(format!("`{home}` names `{krate}`; it knows nothing of the protocol"))
        }
        // The cryptography under TLS is AWS's by name only.
        "grpc" | "fleet" if krate == "aws_lc_rs" => None,
        "grpc" | "fleet" if krate.starts_with("aws_") || krate.starts_with("azure_") => {
            Some(format!("`{home}` names `{krate}`; it sees clouds only through the trait"))
        }
        _ => None,
    }
}

/// The path of the module that a file holds: `grpc/tls/files.rs` is `grpc::tls::files`; empty for the root.
fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<_> =
        file.with_extension("").iter().map(|segment| segment.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}

/// Every Rust file below a directory.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory of the source") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn the_source_keeps_to_the_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = rust_files(&root);
    assert!(files.len() > ORDER.len(), "no source found in {}", root.display());
    let found: Vec<_> = files
        .iter()
        .flat_map(|path| {
            let file = path.strip_prefix(&root).expect("a file below src");
            offences(file, &fs::read_to_string(path).expect("a readable file"))
        })
        .map(|offence| offence.to_string())
        .collect();
    assert!(found.is_empty(), "{} offences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_line_that_breaks_the_order_is_found() {
    for (file, line, why) in [
        ("fleet/keeper.rs", "use crate::grpc::service::Service;", "`fleet` names `grpc::service::Service`"),
        ("fleet/mod.rs", "use crate::{cloud::Cloud, grpc::{self, dialect}};", "`fleet` names `grpc::self`"),
        ("fleet/mod.rs", "use crate::{cloud::Cloud, grpc::{self, dialect}};", "`fleet` names `grpc::dialect`"),
        ("fleet/status/pure.rs", "use super::super::super::config::Config;", "`fleet` names `config::Config`"),
        ("fleet/mod.rs", "fn f(_: super::admin::Readiness) {}", "`fleet` names `admin::Readiness`"),
        ("fleet/mod.rs", "mod tests { use super::super::cli; }", "`fleet` names `cli`"),
        ("admin/mod.rs", "pub(in crate::grpc) fn f() {}", "`admin` names `grpc`"),
        ("cloud/mod.rs", "use crate::fleet::options::Options;", "`cloud` names `fleet::options::Options`"),
        ("clouds/aws/mod.rs", "fn f() -> tonic::Status {}", "`clouds` names `tonic`"),
        ("clouds/aws/mod.rs", "use tonic_health as health;", "`clouds` names `tonic_health`"),
        ("fleet/mod.rs", "use crate::{clouds::aws::Aws, cloud::Cloud};", "`fleet` names `clouds::aws::Aws`"),
        ("config/mod.rs", "use crate::clouds::aws::Aws;", "`config` names `clouds::aws::Aws`"),
        ("clouds/aws/mod.rs", "use crate::fleet::Fleet;", "`clouds` names `fleet::Fleet`"),
        ("clouds/aws/mod.rs", "use crate::config::Config;", "`clouds` names `config::Config`"),
        ("grpc/mod.rs", "use crate::clouds::simulated;", "`grpc` names `clouds::simulated`"),
        ("grpc/mod.rs", "#[cfg(test)] mod tests { use aws_sdk_ec2::Client; }", "`grpc` names `aws_sdk_ec2`"),
        ("fleet/mod.rs", "use {std::io, azure_core as core};", "`fleet` names `azure_core`"),
        ("template/node.rs", "use crate::*;", "reaches for everything"),
        ("template/node.rs", "use crate::{self as root};", "reaches for everything"),
        ("helpers/mod.rs", "use crate::cloud::Cloud;", "has no place in the order"),
    ] {
        let text = format!("//! A module.\n\n{line}\n");
        let found = offences(Path::new(file), &text);
        assert!(
            found.iter().any(|offence| offence.line == 3 && offence.why.contains(why)),
            "{file}: {line}: {found:?}"
        );
    }
}

#[test]
fn a_line_that_keeps_to_the_order_is_let_pass() {
    for (file, line) in [
        ("grpc/service.rs", "use crate::{cloud::{Cloud, CloudError}, fleet::options::Options};"),
        ("grpc/tls/files.rs", "use super::super::peer; use crate::grpc::deadline::Deadline;"),
        ("fleet/mod.rs", "mod tests { use super::*; mod deeper { use super::super::options; } }"),
        ("fleet/keeper.rs", "/// Called by [`crate::grpc`].\n// crate::cli\nconst A: &str = \"crate::cli\";"),
        ("fleet/keeper.rs", "fn f<'a>(aws_type: &'a str) -> char { let _ = r#\"use crate::grpc;\"#; '{' }"),
        ("fleet/keeper.rs", "pub(crate) fn f() {}\npub(super) fn g() {}"),
        ("config/mod.rs", "use crate::cloud::NodeGroupSpec; use tonic::Status;"),
        (
            "clouds/aws/mod.rs",
            "use crate::config::settings::aws::Settings; use super::bounds; use crate::cloud::Cloud;",
        ),
        ("main.rs", "use headcount::cli; use crate::cli;"),
        ("lib.rs", "pub mod cli; pub use crate::cli::Cli;"),
    ] {
        assert_eq!(offences(Path::new(file), line), [], "{file}: {line}");
    }
}

#[test]
fn a_file_that_is_too_long_is_found() {
    assert_eq!(offences(Path::new("fleet/mod.rs"), &"\n".repeat(FILE_LINES_MAX)), []);
    assert_eq!(offences(Path::new("fleet/mod.rs"), &"\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
    let found = offences(Path::new("main.rs"), &"\n".repeat(MAIN_LINES_MAX + 1));
    assert_eq!(found[0].to_string(), "src/main.rs:31: the file has 31 lines, of 30 at most");
}
