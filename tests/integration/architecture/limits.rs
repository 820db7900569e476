//! Every reader of foreign bytes has a row in the table of limits, and `docs/limits.md` shows the table.

use std::fs;
use std::path::Path;

use headcount::limits::{Limit, TABLE};

use super::{rust_files, source};

/// What reads bytes that others sent: a file, a body or a pipe as a whole.
const READS: [&str; 8] = [
    "fs::read(",
    "fs::read_to_string(",
    "File::open(",
    ".read_to_end(",
    ".read_to_string(",
    "Limited::new(",
    "to_bytes(",
    ".read_line(",
];

/// Files that read something else, and what.
const EXEMPT: [(&str, &str); 6] = [
    ("admin/metrics/process.rs", "files of /proc about this process"),
    ("clouds/azure/http/loopback.rs", "a server for tests"),
    ("grpc/listener/exchange.rs", "our own responses; requests are read within `grpc/message.rs`"),
    ("grpc/listener/socket_file.rs", "opens a folder to lock it"),
    ("limits/file.rs", "the reader itself"),
    ("properties.rs", "only for tests"),
];

const INTRODUCTION: &str = "\
Everything that others send is read within one table of limits, `src/limits.rs`. A file that reads without a row of it fails a test.
A row without a time is a file on this machine, or a part of a call that has a time limit of its own.

| what is read | bytes | time | where |
| --- | --- | --- | --- |";

fn row(limit: &Limit) -> String {
    let bytes = match limit.bytes {
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    };
    let time = limit.time.map_or_else(|| "–".to_owned(), |time| format!("{} s", time.as_secs()));
    format!("| {} | {bytes} | {time} | `{}` |", limit.what, limit.reader)
}

#[test]
fn the_page_shows_the_table_of_limits() {
    let rows: Vec<String> = TABLE.iter().map(|(_, limit)| row(limit)).collect();
    let text = format!("{INTRODUCTION}\n{}\n", rows.join("\n"));
    crate::document::check("limits.md", "How much is read of what others send", "architecture::limits", &text);
}

#[test]
fn every_limit_is_used_by_the_file_that_its_row_names() {
    for (name, limit) in TABLE {
        let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join(limit.reader);
        let text = fs::read_to_string(reader).expect(limit.reader);
        assert!(source::code_only(&text).contains(name), "{} does not use {name}", limit.reader);
    }
}

#[test]
fn whoever_reads_has_a_limit() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut without = Vec::new();
    for file in rust_files(&src) {
        let name = file.strip_prefix(&src).expect("within").to_string_lossy().into_owned();
        let is_test =
            name.contains("/tests") || name.contains("fake") || EXEMPT.iter().any(|(exempt, _)| *exempt == name);
        if is_test {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file");
        let code = source::code_only(text.split("#[cfg(test)]").next().unwrap_or_default());
        let reads: Vec<_> = READS.iter().filter(|read| code.contains(**read)).collect();
        if !reads.is_empty() && !code.contains("limits::") {
            without.push(format!("src/{name}: {reads:?}"));
        }
    }
    assert!(without.is_empty(), "these read without a row of src/limits.rs:\n{}", without.join("\n"));
}
