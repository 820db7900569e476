//! The documents name files that exist.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of this repository; a code span that begins with one of them is a path.
const FOLDERS: [&str; 6] = ["src/", "tests/", "docs/", "deploy/", "instance-types/", "benches/"];

/// The relative targets of the links in a document, without their anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// The code spans of a document that are paths. Patterns and whole commands are not.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        let is_path = FOLDERS.iter().any(|folder| span.starts_with(folder));
        is_path && !span.contains(|letter: char| letter.is_whitespace() || letter == '*')
    })
}

/// The documents: those in docs/, those at the root, and those that stand beside tests.
pub(super) fn pages(root: &Path) -> Vec<PathBuf> {
    let pages = fs::read_dir(root.join("docs")).expect("docs").map(|page| page.expect("a page").path());
    let pages = pages.filter(|page| page.extension().is_some_and(|kind| kind == "md"));
    let roots =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"];
    let beside = ["incidents", "simulation"].map(|tests| root.join("tests/integration").join(tests).join("README.md"));
    pages.chain(roots.map(|page| root.join(page))).chain(beside).collect()
}

#[test]
fn documents_name_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = Vec::new();
    let mut named = 0;
    for page in pages(root) {
        let text = fs::read_to_string(&page).expect("a page");
        let folder = page.parent().expect("a folder");
        let files = links(&text).map(|link| folder.join(link)).chain(paths(&text).map(|path| root.join(path)));
        for file in files {
            named += 1;
            if !file.exists() {
                missing.push(format!("{} names {}", page.display(), file.display()));
            }
        }
    }
    assert!(named > 40, "only {named} names were found");
    assert!(missing.is_empty(), "no such files: {missing:#?}");
}

#[test]
fn links_and_paths_are_found() {
    let text =
        "See [a](docs/a.md#part), [b](https://example.com/b), `src/c.rs`, `tests/d --all`, `cargo test`, [e](#e).";
    assert_eq!(links(text).collect::<Vec<_>>(), ["docs/a.md"]);
    assert_eq!(paths(text).collect::<Vec<_>>(), ["src/c.rs"]);
}
