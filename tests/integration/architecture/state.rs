//! ARCHITECTURE.md has a row for each field of a group's state and for each constant that a decision depends on.
//!
//! `HEADCOUNT_WRITE_DOCS=1 cargo test --test integration architecture::state` writes the rows anew.

use std::fs;
use std::path::Path;

use super::rust_files;

/// The structs that hold what is known of a group, and where they are.
const OWNERS: [(&str, &str); 7] = [
    ("Group", "mod.rs"),
    ("GroupState", "state/mod.rs"),
    ("RecentWrites", "state/undo.rs"),
    ("LostWrite", "state/undo.rs"),
    ("InFlight", "in_flight/mod.rs"),
    ("Launch", "in_flight/launches.rs"),
    ("Known", "in_flight/launches.rs"),
];
/// Each of them is a reason why the machine is hard to hold in mind, so these numbers only fall. 45 is the aim.
const FIELDS_MAX: usize = 66;
/// 18 is the aim, and reached. What is assumed of the clouds is part of the consistency model, and no decision's own.
const CONSTANTS_MAX: usize = 17;

const BEGIN: &str = "<!-- Written by `HEADCOUNT_WRITE_DOCS=1 cargo test --test integration architecture::state`. -->\n";
const END: &str = "<!-- The end of what is written. -->\n";

/// Something with the comment above it.
struct Documented {
    text: String,
    doc: String,
}

/// The first sentence of a comment, as the cell of a table.
fn first_sentence(doc: &str) -> String {
    let end = doc.find(". ").unwrap_or(doc.len());
    doc[..end].trim_end_matches('.').replace('|', "\\|").replace("[`", "`").replace("`]", "`")
}

/// The lines of a text that a pattern matches, each with its comment.
fn documented(text: &str, matches: impl Fn(&str) -> Option<String>) -> Vec<Documented> {
    let (mut found, mut doc) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            doc.push(comment.trim());
        } else if let Some(text) = matches(line) {
            found.push(Documented { text, doc: doc.join(" ") });
            doc.clear();
        } else if !line.starts_with("#[") {
            doc.clear();
        }
    }
    found
}

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fields of a struct.
fn fields(owner: &str, file: &str) -> Vec<Documented> {
    let text = source(&format!("group/{file}"));
    let begin = text.find(&format!("struct {owner} {{")).unwrap_or_else(|| panic!("{file} has no struct {owner}"));
    let body = text[begin..].split("\n}").next().unwrap_or_default();
    let body = body.split_once('\n').map_or("", |(_, body)| body);
    documented(body, |line| {
        let line = ["pub(crate) ", "pub(super) ", "pub "].iter().find_map(|p| line.strip_prefix(p)).unwrap_or(line);
        let (name, _) = line.split_once(": ").filter(|_| line.ends_with(','))?;
        name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_').then(|| name.to_owned())
    })
}

/// The constants of a file: name and value.
fn constants(text: &str) -> Vec<Documented> {
    documented(text, |line| {
        let (_, constant) = line.split_once("const ").filter(|(before, _)| !before.contains("fn"))?;
        let (name, rest) = constant.split_once(": ")?;
        let (_, value) = rest.split_once(" = ")?;
        let value = value.trim_end_matches(';');
        let unit = |name: &str| value.strip_prefix(&format!("Duration::from_{name}("))?.strip_suffix(')');
        let value = unit("secs").map(|n| format!("{n} s")).or_else(|| unit("millis").map(|n| format!("{n} ms")));
        Some(format!(
            "{name}` | {}",
            value.unwrap_or_else(|| rest.split_once(" = ").expect("it has").1.replace(';', ""))
        ))
    })
}

/// Whether a constant is a number, and not the model of a cloud.
fn is_figure(constant: &Documented) -> bool {
    constant.text.ends_with(|last: char| last.is_ascii_digit() || last == 's')
}

/// A table of constants: name, value and comment.
fn table(head: &str, constants: &[Documented]) -> String {
    let mut rows = format!("\n| {head} |\n| --- | --- | --- |\n");
    for Documented { text, doc } in constants {
        assert!(!doc.is_empty(), "{text} has no comment that says why");
        rows += &format!("| `{text} | {} |\n", first_sentence(doc));
    }
    rows
}

#[test]
fn each_field_and_each_constant_has_a_row_and_there_are_no_more_than_before() {
    let mut rows = "| field of a group's state | what it is |\n| --- | --- |\n".to_owned();
    let mut number = 0;
    for (owner, file) in OWNERS {
        for Documented { text, doc } in fields(owner, file) {
            assert!(!doc.is_empty(), "{owner}::{text} in src/group/{file} has no comment that says what it is");
            rows += &format!("| `{owner}::{text}` | {} |\n", first_sentence(&doc));
            number += 1;
        }
    }
    assert!(number <= FIELDS_MAX, "{number} fields: find the one that covers the new one and its neighbours");
    let limits = constants(&source("group/limits.rs"));
    assert!(limits.len() <= CONSTANTS_MAX, "{} constants: is one of them enough for two?", limits.len());
    rows += &table("constant of a decision | value | why", &limits);
    let assumed: Vec<_> = constants(&source("cloud/consistency.rs")).into_iter().filter(is_figure).collect();
    rows += &table("assumed of the clouds | value | what it is", &assumed);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let page = fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("the beginning of the tables");
    let (written, after) = rest.split_once(END).expect("the end of the tables");
    if written.trim() == rows.trim() {
        return;
    }
    let may_write = std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some();
    assert!(may_write, "the tables of ARCHITECTURE.md are out of date; the comment above them has the command");
    fs::write(&path, format!("{before}{BEGIN}\n{rows}\n{END}{after}")).expect("written");
}

#[test]
fn the_constants_of_decisions_are_in_one_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/group");
    for file in rust_files(&root) {
        let name = file.strip_prefix(&root).expect("below it").display().to_string();
        if name == "limits.rs" || name.starts_with("tests") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a file");
        // One within a function concerns no other.
        let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default().lines();
        let code: Vec<&str> = code.filter(|line| !line.starts_with(' ')).collect();
        let found: Vec<_> = constants(&code.join("\n")).into_iter().map(|constant| constant.text).collect();
        assert!(found.is_empty(), "src/group/{name}: {found:?} belongs into src/group/limits.rs");
    }
}
