//! `docs/operations.md` and the log, held equal: whoever reads a line at 3 a.m. finds what it means.

use std::fs;
use std::path::Path;

use super::rust_files;

/// What is logged above debug level in a source file, up to the first semicolon, colon or placeholder.
fn messages(source: &str) -> Vec<String> {
    let begin = ["info!(", "warn!(", "error!(", ": Complaint::of("];
    let calls = begin.iter().flat_map(|begin| source.match_indices(begin).map(|(at, _)| &source[at + begin.len()..]));
    calls.filter_map(message).collect()
}

/// The message of a call, of which this is all after the opening bracket: its last string.
fn message(call: &str) -> Option<String> {
    let mut depth = 1_i32;
    let end = call.find(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    });
    let last = call[..end?].split('"').skip(1).step_by(2).last()?;
    let head = last.split([';', ':', '{']).next()?.trim();
    (!head.is_empty()).then(|| head.to_owned())
}

#[test]
fn every_line_of_the_log_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/operations.md")).expect("the page");
    let mut logged = 0;
    let mut unexplained = Vec::new();
    for file in rust_files(&root.join("src")) {
        let source = fs::read_to_string(&file).expect("a source file");
        let messages = messages(&source);
        logged += messages.len();
        unexplained.extend(messages.into_iter().filter(|message| !page.contains(&format!("`{message}"))));
    }
    assert!(logged > 60, "only {logged} lines were found");
    assert!(unexplained.is_empty(), "not in docs/operations.md: {unexplained:#?}");
}

#[test]
fn a_line_is_read_as_it_is_written() {
    let source =
        r#"Err(error) => warn!(group = %id(), "not read (yet); later"), tracing::info!("{remark}"); ("other")"#;
    assert_eq!(messages(source), ["not read (yet)"]);
}
