//! `docs/log.md` explains every log line. It is made of the logging calls in `src/` and of `log_lines.yaml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::rust_files;

const MEANINGS: &str = include_str!("log_lines.yaml");

const INTRODUCTION: &str = "\
Every message above debug level is here, and one of debug level, each with its level and its fields. `group` is the ID that the Cluster Autoscaler (\"CA\") sees, or the
cloud's own name in messages about a response of the cloud. `operation` numbers the writes to a group since this process began. Before a group
is first served, `group` is SOURCE/NAME. If the last column is empty, there is nothing to do. The meanings are those of \
`tests/integration/architecture/log_lines.yaml`.
";

/// A part of the page.
#[derive(Deserialize)]
struct Section {
    title: String,
    rows: Vec<Meaning>,
}

/// What some messages mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meaning {
    /// The messages, as the source has them.
    #[serde(default)]
    lines: Vec<String>,
    /// What describes messages that are not constant.
    text: Option<String>,
    means: String,
    #[serde(default, rename = "do")]
    to_do: String,
}

/// A logging call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Logged {
    level: &'static str,
    message: String,
    fields: Vec<String>,
}

/// What begins a logging call, and its level. `FailureLog` warns of a failure, and says when it is over.
const CALLS: [(&str, &str); 6] = [
    ("error!(", "error"),
    ("warn!(", "warn"),
    ("info!(", "info"),
    ("debug!(", "debug"),
    ("FailureLog::of(", "warn"),
    ("FailureLog::in_source(", "warn"),
];

/// The logging calls of a source file.
fn logged(source: &str) -> Vec<Logged> {
    let calls = CALLS.iter().flat_map(|(begin, level)| {
        source.match_indices(begin).map(move |(at, _)| (*begin, *level, arguments(&source[at + begin.len()..])))
    });
    let mut found = Vec::new();
    for (begin, level, arguments) in calls {
        let (texts, fields): (Vec<&str>, Vec<&str>) =
            arguments.iter().copied().partition(|argument| argument.starts_with('"'));
        if begin.starts_with("FailureLog") {
            let fields: Vec<String> = fields.into_iter().map(field).filter(|field| !field.is_empty()).collect();
            let levels = [("warn", [&fields[..], &["error".to_owned()]].concat()), ("info", fields)];
            let both = texts.iter().zip(levels);
            found.extend(both.map(|(text, (level, fields))| Logged { level, message: literal(text), fields }));
        } else if let Some(text) = texts.last() {
            let fields = fields.into_iter().map(field).filter(|field| !field.is_empty());
            found.push(Logged { level, message: literal(text), fields: fields.collect() });
        }
    }
    // Neither what is only a placeholder nor what a test of the log makes up.
    found.retain(|logged| !logged.message.starts_with('{') && !logged.message.contains("something failed"));
    found.retain(|logged| logged.message != "it works again");
    found
}

/// The arguments of a call, split at its own commas. `call` starts after the opening bracket.
fn arguments(call: &str) -> Vec<&str> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_u32);
    let (mut in_text, mut is_escaped) = (false, false);
    for (at, letter) in call.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if in_text => is_escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                found.push(call[start..at].trim());
                return found;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(call[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The text of a literal: its quotes and escapes removed, its lines joined.
fn literal(text: &str) -> String {
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let lines: Vec<&str> = text.split("\\\n").collect();
    let rest = lines.iter().skip(1).map(|line| line.trim_start());
    std::iter::once(lines[0]).chain(rest).collect::<String>().replace("\\\"", "\"")
}

/// The name of a field, as the log has it: `a = %b.c` is `a`, `%b` is `b`.
fn field(argument: &str) -> String {
    let name = argument.split('=').next().unwrap_or_default().trim().trim_start_matches(['%', '?']);
    if name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter)) {
        name.to_owned()
    } else {
        String::new()
    }
}

/// All logging calls, by message.
fn all_logged() -> BTreeMap<String, BTreeSet<Logged>> {
    let mut all: BTreeMap<String, BTreeSet<Logged>> = BTreeMap::new();
    for file in rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        for logged in logged(&fs::read_to_string(&file).expect("a source file")) {
            all.entry(logged.message.clone()).or_default().insert(logged);
        }
    }
    all
}

fn sections() -> Vec<Section> {
    serde_saphyr::from_str(MEANINGS).expect("log_lines.yaml")
}

/// A message with its level and fields, which several calls may share.
fn shown(message: &str, calls: &BTreeSet<Logged>) -> String {
    let levels: BTreeSet<&str> = calls.iter().map(|call| call.level).collect();
    let mut fields: Vec<&str> = Vec::new();
    for field in calls.iter().flat_map(|call| &call.fields) {
        if !fields.contains(&field.as_str()) {
            fields.push(field);
        }
    }
    let levels = levels.into_iter().collect::<Vec<_>>().join(", ");
    let fields = if fields.is_empty() { String::new() } else { format!(": {}", fields.join(", ")) };
    format!("`{message}` ({levels}{fields})")
}

fn page(sections: &[Section], all: &BTreeMap<String, BTreeSet<Logged>>) -> String {
    let mut page = INTRODUCTION.to_owned();
    for section in sections {
        let heading = "| line | what happened | what to do |\n| --- | --- | --- |";
        write!(page, "\n## {}\n\n{heading}\n", section.title).expect("text");
        for row in &section.rows {
            let known = row.lines.iter().filter_map(|line| Some(shown(line, all.get(line)?)));
            let lines: Vec<String> = known.chain(row.text.clone()).collect();
            writeln!(page, "| {} | {} | {} |", lines.join("<br>"), row.means, row.to_do).expect("text");
        }
    }
    page
}

#[test]
fn every_log_line_is_explained_and_every_explanation_has_its_line() {
    let all = all_logged();
    assert!(all.len() > 60, "found only {} log lines", all.len());
    // A line of JSON has these already, and a second one would hide the first.
    let taken = |field: &String| ["message", "level", "target", "timestamp", "span", "spans"].contains(&field.as_str());
    let twice: Vec<_> = all.values().flatten().filter(|logged| logged.fields.iter().any(taken)).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let sections = sections();
    let explained: BTreeSet<&str> =
        sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.lines).map(String::as_str).collect();
    let is_above_debug = |calls: &BTreeSet<Logged>| calls.iter().any(|call| call.level != "debug");
    let unexplained: Vec<_> = all
        .iter()
        .filter(|(message, calls)| is_above_debug(calls) && !explained.contains(message.as_str()))
        .map(|(message, _)| message)
        .collect();
    let gone: Vec<_> = explained.iter().filter(|message| !all.contains_key(**message)).collect();
    let file = "tests/integration/architecture/log_lines.yaml";
    assert!(unexplained.is_empty(), "{file} does not explain: {unexplained:#?}");
    assert!(gone.is_empty(), "{file} explains what is no longer logged: {gone:#?}");
}

#[test]
fn the_page_of_log_lines_is_up_to_date() {
    crate::document::check("log.md", "What a log line means", "log_lines", &page(&sections(), &all_logged()));
}

#[test]
fn a_logging_call_has_a_level_a_message_and_fields() {
    let source = r#"Err(error) => warn!(group = %id(a, b), %error, "not read (yet); later"), tracing::info!("{remark}"); ("other")
        FailureLog::of("it fails", "it works"); FailureLog::in_source(source, "it failed", "it worked"); debug!(limit.seconds = 1, "a \"quoted\" \
            text")"#;
    let found: Vec<_> = logged(source).into_iter().map(|one| (one.level, one.message, one.fields.join(" "))).collect();
    let expected = [
        ("warn", "not read (yet); later", "group error"),
        ("debug", "a \"quoted\" text", "limit.seconds"),
        ("warn", "it fails", "error"),
        ("info", "it works", ""),
        ("warn", "it failed", "source error"),
        ("info", "it worked", "source"),
    ];
    assert_eq!(found, expected.map(|(level, message, fields)| (level, message.to_owned(), fields.to_owned())));
}
