//! The layout rules, checked in the source: which module may import which, and how long files may be.
//!
//! Since a module may import only modules below it, there are no import cycles between top-level modules.
//!
//! The check reads text, not a syntax tree. It sees `crate::…`, `super::…` chains that leave their module, and the
//! first segment of any other path, in code and in tests, but not in comments and strings.

mod commands;
mod documents;
mod limits;
mod log_lines;
mod paths;
mod security;
mod source;
mod state;
mod supply_chain;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use paths::{UsedPath, used_paths};

/// The top-level modules, top to bottom. A module may import itself and the modules after it.
const ORDER: [&str; 20] = [
    "main",
    "cli",
    "demo",
    "parsers",
    "verify",
    "clouds",
    "config",
    "check",
    "grpc",
    "admin",
    "fleet",
    "group",
    "template",
    "prices",
    "instance_types",
    "kubernetes",
    "cloud",
    "tasks",
    "metrics",
    "limits",
];

/// A longer file is about more than one noun.
const FILE_LINES_MAX: usize = 500;

/// `main.rs` parses, runs and exits.
const MAIN_LINES_MAX: usize = 30;

/// A line that breaks a layout rule.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: PathBuf,
    line: usize,
    why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src/{}:{}: {}", self.file.display(), self.line, self.why)
    }
}

/// The violations in a file; `file` is relative to `src`.
fn violations(file: &Path, text: &str) -> Vec<Violation> {
    let violation = |line, why| Violation { file: file.to_owned(), line, why };
    let lines_max = if file == Path::new("main.rs") { MAIN_LINES_MAX } else { FILE_LINES_MAX };
    let mut violations = Vec::new();
    let lines = text.lines().count();
    if lines > lines_max {
        violations.push(violation(lines_max + 1, format!("the file has {lines} lines; the limit is {lines_max}")));
    }
    let module = module_of(file);
    let paths = used_paths(&source::code_only(text), &module);
    violations.extend(paths.into_iter().filter_map(|used| Some(violation(used.line, objection(&module, &used)?))));
    violations
}

/// Why a module must not use this path; `None` if it may.
fn objection(module: &[String], used: &UsedPath) -> Option<String> {
    // lib.rs is the root: it only declares modules.
    let home = module.first()?.as_str();
    let path = used.segments.iter().map(String::as_str).collect::<Vec<_>>();
    let Some(own) = used.in_crate.then_some(path.as_slice()) else {
        return foreign_objection(home, path.first()?);
    };
    let Some(target) = own.first().filter(|target| !matches!(**target, "*" | "self")) else {
        return Some(format!("`{home}` imports the whole crate"));
    };
    let rank = |name: &str| ORDER.iter().position(|module| *module == name);
    let Some(home_rank) = rank(home) else {
        return Some(format!("`{home}` is missing from the order of modules"));
    };
    match rank(target) {
        // An item of the root itself.
        None => None,
        Some(target_rank) if target_rank < home_rank => {
            Some(format!("`{home}` imports `{}`, which is above it", own.join("::")))
        }
        Some(_) if home == "clouds" && !clouds_may_import(own) => {
            Some(format!("`clouds` imports `{}`; a cloud may import only `cloud` and its own settings", own.join("::")))
        }
        Some(_) => None,
    }
}

/// What implementations of the trait may import: the trait's vocabulary, and their own settings.
fn clouds_may_import(path: &[&str]) -> bool {
    matches!(path, ["clouds" | "cloud" | "limits", ..] | ["config", "settings", ..])
}

/// Why a module must not use this crate; `None` if it may.
fn foreign_objection(home: &str, krate: &str) -> Option<String> {
    match home {
        "group" if matches!(krate, "tokio" | "futures_util" | "tracing" | "hyper" | "tonic" | "kube") => {
            Some(format!("`group` uses `{krate}`; what decides must be pure"))
        }
        "cloud" | "clouds" if krate == "tonic" || krate.starts_with("tonic_") => {
            Some(format!("`{home}` uses `{krate}`; clouds must not depend on gRPC"))
        }
        // The cryptography library under TLS; only its name comes from AWS.
        "grpc" | "fleet" if krate == "aws_lc_rs" => None,
        "grpc" | "fleet" if krate.starts_with("aws_") || krate.starts_with("azure_") => {
            Some(format!("`{home}` uses `{krate}`; it must use clouds only through the trait"))
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

/// Every file below `src`: its path from there, and its text.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = rust_files(&root);
    assert!(files.len() > ORDER.len(), "no source files in {}", root.display());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a readable file");
        (path.strip_prefix(&root).expect("a file below src").to_owned(), text)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn modules_import_only_what_is_below_them() {
    let found: Vec<_> =
        sources().iter().flat_map(|(file, text)| violations(file, text)).map(|found| found.to_string()).collect();
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

/// What decides about a node group takes everything that it knows from events: nothing in it waits, reads a clock,
/// logs, locks, or knows which cloud it is.
const NOT_IN_GROUP: [&str; 12] = [
    "async ",
    "Instant",
    "SystemTime::now",
    "Mutex",
    "RwLock",
    "Atomic",
    "std::fs",
    "std::net",
    "std::thread",
    "tracing::",
    "aws",
    "azure",
];

/// What of that a file of `group` contains, each with its line.
fn impurities(text: &str) -> Vec<(usize, &'static str)> {
    let code = source::code_only(text).to_string();
    let found = |(number, line): (usize, &str)| {
        let forbidden = NOT_IN_GROUP.into_iter().filter(|word| line.contains(word)).map(move |word| (number + 1, word));
        forbidden.collect::<Vec<_>>()
    };
    code.lines().enumerate().flat_map(found).collect()
}

#[test]
fn what_decides_about_a_group_is_pure() {
    let files = sources().into_iter().filter(|(file, _)| file.starts_with("group") && !file.starts_with("group/tests"));
    let found: Vec<_> =
        files.map(|(file, text)| (file, impurities(&text))).filter(|(_, found)| !found.is_empty()).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(impurities("fn f() {\n    tracing::info!(\"azure\"); // async\n}\n"), [(2, "tracing::")]);
}

#[test]
fn a_forbidden_import_is_found() {
    for (file, line, why) in [
        ("fleet/keeper.rs", "use crate::grpc::service::Service;", "`fleet` imports `grpc::service::Service`"),
        ("fleet/mod.rs", "use crate::{cloud::Cloud, grpc::{self, dialect}};", "`fleet` imports `grpc::self`"),
        ("fleet/mod.rs", "use crate::{cloud::Cloud, grpc::{self, dialect}};", "`fleet` imports `grpc::dialect`"),
        ("fleet/status/pure.rs", "use super::super::super::config::Config;", "`fleet` imports `config::Config`"),
        ("fleet/mod.rs", "fn f(_: super::admin::Readiness) {}", "`fleet` imports `admin::Readiness`"),
        ("fleet/mod.rs", "mod tests { use super::super::cli; }", "`fleet` imports `cli`"),
        ("admin/mod.rs", "pub(in crate::grpc) fn f() {}", "`admin` imports `grpc`"),
        ("cloud/mod.rs", "use crate::fleet::options::Options;", "`cloud` imports `fleet::options::Options`"),
        ("clouds/aws/mod.rs", "fn f() -> tonic::Status {}", "`clouds` uses `tonic`"),
        ("clouds/aws/mod.rs", "use tonic_health as health;", "`clouds` uses `tonic_health`"),
        ("fleet/mod.rs", "use crate::{clouds::aws::Aws, cloud::Cloud};", "`fleet` imports `clouds::aws::Aws`"),
        ("config/mod.rs", "use crate::clouds::aws::Aws;", "`config` imports `clouds::aws::Aws`"),
        ("clouds/aws/mod.rs", "use crate::fleet::Fleet;", "`clouds` imports `fleet::Fleet`"),
        ("clouds/aws/mod.rs", "use crate::config::Config;", "`clouds` imports `config::Config`"),
        ("grpc/mod.rs", "use crate::clouds::simulated;", "`grpc` imports `clouds::simulated`"),
        ("grpc/mod.rs", "#[cfg(test)] mod tests { use aws_sdk_ec2::Client; }", "`grpc` uses `aws_sdk_ec2`"),
        ("fleet/mod.rs", "use {std::io, azure_core as core};", "`fleet` uses `azure_core`"),
        ("template/node.rs", "use crate::*;", "imports the whole crate"),
        ("template/node.rs", "use crate::{self as root};", "imports the whole crate"),
        ("helpers/mod.rs", "use crate::cloud::Cloud;", "is missing from the order"),
    ] {
        let text = format!("//! A module.\n\n{line}\n");
        let found = violations(Path::new(file), &text);
        assert!(
            found.iter().any(|violation| violation.line == 3 && violation.why.contains(why)),
            "{file}: {line}: {found:?}"
        );
    }
}

#[test]
fn an_allowed_import_passes() {
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
        assert_eq!(violations(Path::new(file), line), [], "{file}: {line}");
    }
}

#[test]
fn a_file_that_is_too_long_is_found() {
    assert_eq!(violations(Path::new("fleet/mod.rs"), &"\n".repeat(FILE_LINES_MAX)), []);
    assert_eq!(violations(Path::new("fleet/mod.rs"), &"\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
    let found = violations(Path::new("main.rs"), &"\n".repeat(MAIN_LINES_MAX + 1));
    assert_eq!(found[0].to_string(), "src/main.rs:31: the file has 31 lines; the limit is 30");
}
