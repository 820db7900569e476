//! Documents with prose written by hand, then a part that a test writes.

use std::fs;
use std::path::PathBuf;

/// Fails if docs/`name` does not end in `generated`; with HEADCOUNT_WRITE_DOCS set, rewrites it instead. `tests` is the filter of
/// the tests that write it.
pub(crate) fn check(name: &str, tests: &str, generated: &str) {
    let command = format!("HEADCOUNT_WRITE_DOCS=1 cargo test --test integration {tests}");
    let begin = format!("<!-- Written by `{command}`; do not edit below. -->\n");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    let text = fs::read_to_string(&path).expect("a document");
    let (prose, written) = text.split_once(&begin).expect("a line that marks the start of the generated part");
    let expected = format!("\n{generated}");
    if written == expected {
        return;
    }
    assert!(std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some(), "docs/{name} is out of date; {command} rewrites it");
    fs::write(&path, format!("{prose}{begin}{expected}")).expect("the document can be written");
}
