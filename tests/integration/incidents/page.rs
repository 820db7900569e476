//! Every incident test has a row in `tests/integration/incidents/README.md`, and every row has a test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The incidents that have a row.
fn documented(page: &str) -> Vec<String> {
    let name = |line: &str| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned());
    page.lines().filter_map(name).collect()
}

/// The tests in a source file.
fn tests(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let is_test = |line: &str| line.starts_with("#[test") || line.starts_with("#[tokio::test");
    let name = |line: &str| {
        let (_, rest) = line.split_once("fn ")?;
        rest.split_once('(').map(|(name, _)| name.to_owned())
    };
    lines.windows(2).filter(|pair| is_test(pair[0])).filter_map(|pair| name(pair[1])).collect()
}

/// Whether a test replays an incident. The other tests check what the incidents rely on.
fn is_incident(file: &Path, test: &str) -> bool {
    ["vmss_", "asg_", "aks_", "killed_", "unreachable_", "two_sources_"].iter().any(|start| test.starts_with(start))
        || file.components().any(|part| part.as_os_str() == "protocol" || part.as_os_str() == "itself")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_incident_has_a_row_and_every_row_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = documented(&fs::read_to_string(root.join("tests/integration/incidents/README.md")).expect("the page"));
    let mut tested = BTreeSet::new();
    for file in files(&root.join("tests/integration/incidents")) {
        let names = tests(&fs::read_to_string(&file).expect("a source file"));
        tested.extend(names.into_iter().filter(|name| is_incident(&file, name)));
    }
    assert!(!rows.is_empty());
    let documented: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(documented.len(), rows.len(), "an incident has two rows");
    let untested: Vec<_> = documented.difference(&tested).collect();
    let undocumented: Vec<_> = tested.difference(&documented).collect();
    assert!(
        untested.is_empty() && undocumented.is_empty(),
        "rows without a test: {untested:?}; tests without a row: {undocumented:?}"
    );
}

#[test]
fn tests_and_rows_are_found() {
    let source = "#[tokio::test(start_paused = true)]\nasync fn one() {}\nfn no_test() {}\n#[test]\nfn two() {}\n";
    assert_eq!(tests(source), ["one", "two"]);
    assert_eq!(documented("| test | elsewhere |\n| --- | --- |\n| `one` | `two` |\ntext\n"), ["one"]);
}
