//! The table of attacks in `docs/security.md`: every finding has a test, and every test it names exists.

use std::fs;
use std::path::Path;

use super::rust_files;

/// The findings that the table must have.
const FINDINGS: [&str; 23] = [
    "H1", "H2", "H3", "H4", "M1", "M2", "M3", "M4", "M5", "M6", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9",
    "L10", "D1", "D2", "D3",
];

#[test]
fn every_finding_has_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/security.md")).expect("the page");
    let rows = page.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let rows: Vec<_> = rows.filter(|row| row.len() == 5 && row[4].contains("::")).collect();
    for finding in FINDINGS {
        assert!(rows.iter().any(|row| row[0] == finding), "{finding} has no row");
    }
    let mut files = rust_files(&root.join("src"));
    files.extend(rust_files(&root.join("tests/integration")));
    let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).expect("a source file")).collect();
    for row in rows {
        assert!(row[1..4].iter().all(|cell| !cell.is_empty()), "{row:?}");
        let path = row[4].trim_matches('`');
        let (module, name) = path.rsplit_once("::").expect("a path");
        // The last file or folder of the path; `tests` may be within its file.
        let place = module.trim_end_matches("::tests").replace("::", "/");
        let is_there = files.iter().zip(&texts).any(|(file, text)| {
            file.with_extension("").to_string_lossy().contains(&place) && text.contains(&format!("fn {name}("))
        });
        assert!(is_there, "no test {path}");
    }
}
