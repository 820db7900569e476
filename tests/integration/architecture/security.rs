//! The tables of attacks in `docs/security.md` and beside their tests: every finding has a test, and every test they
//! name exists.

use std::fs;
use std::path::{Path, PathBuf};

use super::rust_files;

/// The findings that the table must have.
const FINDINGS: [&str; 47] = [
    "H1", "H2", "H3", "H4", "M1", "M2", "M3", "M4", "M5", "M6", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9",
    "L10", "D1", "D2", "D3", "N1", "N2", "N3", "N4", "N5", "N6", "N7", "N8", "N9", "N10", "N11", "N12", "N13", "N14",
    "N15", "N16", "N17", "N18", "N19", "N20", "N21", "N22", "N23", "N24",
];

/// Whether a test of this path exists.
fn is_test(path: &str, sources: &[(PathBuf, String)]) -> bool {
    let Some((module, name)) = path.rsplit_once("::") else { return false };
    // The last file or folder of the path; `tests` may be within its file.
    let place = module.trim_end_matches("::tests").replace("::", "/");
    let function = format!("fn {name}(");
    sources.iter().any(|(file, text)| {
        // The attribute is in the lines above, without an empty one between.
        let is_tainted = || {
            text.match_indices(&function).any(|(at, _)| {
                let above = &text[..at];
                let attributes = &above[above.trim_end().rfind("\n\n").unwrap_or_default()..];
                attributes.contains("test]") || attributes.contains("::test(")
            })
        };
        file.with_extension("").to_string_lossy().contains(&place) && is_tainted()
    })
}

#[test]
fn every_finding_has_a_test_and_every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = ["docs/security.md", "tests/integration/attacks/README.md"];
    let page = pages.map(|page| fs::read_to_string(root.join(page)).expect("the page")).concat();
    let mut files = rust_files(&root.join("src"));
    files.extend(rust_files(&root.join("tests/integration")));
    let sources: Vec<_> =
        files.into_iter().map(|file| (file.clone(), fs::read_to_string(&file).expect("a source file"))).collect();
    let rows = page.lines().filter(|line| line.starts_with('|') && line.contains("::"));
    let rows = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let mut found = Vec::new();
    for row in rows {
        let tests = row[row.len() - 1].split('`').skip(1).step_by(2);
        let tests: Vec<_> = tests.filter(|span| span.contains("::")).collect();
        assert!(!tests.is_empty() && row[1..].iter().all(|cell| !cell.is_empty()), "{row:?}");
        for test in tests {
            assert!(is_test(test, &sources), "no test {test}");
        }
        let [finding, _, _, _, _] = row[..] else { panic!("a row of an attack has five cells: {row:?}") };
        found.push(finding);
    }
    for finding in FINDINGS {
        assert!(found.contains(&finding), "{finding} has no row");
    }
    assert!(!is_test("attacks::grpc::http2", &sources) && !is_test("attacks::grpc::none", &sources));
}
