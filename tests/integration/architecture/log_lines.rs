//! `docs/operations.md` explains every log line.

use std::fs;
use std::path::Path;

use super::rust_files;

/// The messages that a source file logs above debug level, up to the first semicolon, colon or placeholder.
fn messages(source: &str) -> Vec<String> {
    let begin = ["info!(", "warn!(", "error!(", ": FailureLog::of("];
    let calls = begin.iter().flat_map(|begin| source.match_indices(begin).map(|(at, _)| &source[at + begin.len()..]));
    calls.filter_map(message).collect()
}

/// The message of a logging call, which is its last string. `call` starts after the opening bracket.
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
fn operations_md_explains_every_log_line() {
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
    assert!(logged > 60, "found only {logged} log lines");
    assert!(unexplained.is_empty(), "docs/operations.md does not explain: {unexplained:#?}");
}

#[test]
fn the_message_of_a_call_is_its_last_string() {
    let source =
        r#"Err(error) => warn!(group = %id(), "not read (yet); later"), tracing::info!("{remark}"); ("other")"#;
    assert_eq!(messages(source), ["not read (yet)"]);
}
