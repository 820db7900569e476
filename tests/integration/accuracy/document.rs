//! docs/templates.md: prose written by hand, then a part that this test writes.

use std::fs;
use std::path::PathBuf;

const BEGIN: &str =
    "<!-- Written by `HEADCOUNT_WRITE_DOCS=1 cargo test --test integration accuracy`; do not edit below. -->\n";

/// Fails if the document does not end in `generated`; with HEADCOUNT_WRITE_DOCS set, rewrites it instead.
pub(crate) fn check(generated: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/templates.md");
    let text = fs::read_to_string(&path).expect("docs/templates.md");
    let (prose, written) = text.split_once(BEGIN).expect("a line that marks the start of the generated part");
    let expected = format!("\n{generated}");
    if written == expected {
        return;
    }
    assert!(
        std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some(),
        "docs/templates.md is out of date; HEADCOUNT_WRITE_DOCS=1 cargo test --test integration accuracy rewrites it"
    );
    fs::write(&path, format!("{prose}{BEGIN}{expected}")).expect("docs/templates.md can be written");
}
