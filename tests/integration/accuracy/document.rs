//! docs/templates.md: prose by hand, and a part that a command writes.

use std::fs;
use std::path::PathBuf;

const BEGIN: &str =
    "<!-- Written by `HEADCOUNT_WRITE_DOCS=1 cargo test --test integration accuracy`; do not edit below. -->\n";

/// Fails where the document does not end in this, or rewrites it where the environment says so.
pub(crate) fn check(generated: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/templates.md");
    let text = fs::read_to_string(&path).expect("docs/templates.md");
    let (prose, written) = text.split_once(BEGIN).expect("a line that says where the generated part begins");
    let expected = format!("\n{generated}");
    if written == expected {
        return;
    }
    assert!(
        std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some(),
        "docs/templates.md is not what is measured; HEADCOUNT_WRITE_DOCS=1 cargo test --test integration accuracy writes it"
    );
    fs::write(&path, format!("{prose}{BEGIN}{expected}")).expect("docs/templates.md can be written");
}
