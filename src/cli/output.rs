//! What commands print: tables for people, JSON and YAML for programs.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::CommandError;
use crate::cloud::text::{has_unprintable, printable, printable_json};

/// The format of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// Aligned columns.
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Output {
    /// Prints `value` in this format. `table` renders the table.
    pub(super) fn print(self, value: &impl Serialize, table: impl FnOnce() -> String) -> Result<(), CommandError> {
        print(&match self {
            Self::Table => table(),
            Self::Json => as_json(value)?,
            Self::Yaml => as_yaml(value)?,
        })
    }
}

/// Writes to stdout. A reader that closes the pipe early (`| head`) is not an error.
pub(super) fn print(text: &str) -> Result<(), CommandError> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::Failed(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Lays out rows in aligned columns. The first row is the heading.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column).unwrap_or_default();
            line.push_str(&format!("{cell:width$}   "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn as_json(value: &impl Serialize) -> Result<String, CommandError> {
    serde_json::to_string_pretty(value)
        .map(|text| printable_json(&text).into_owned() + "\n")
        .map_err(|error| CommandError::Failed(format!("cannot write the output as JSON: {error}")))
}

/// JSON where a text is not printable: that is YAML, too, and can escape any character.
fn as_yaml(value: &impl Serialize) -> Result<String, CommandError> {
    let yaml = serde_saphyr::to_string(value)
        .map_err(|error| CommandError::Failed(format!("cannot write the output as YAML: {error}")))?;
    if has_unprintable(&yaml) { as_json(value) } else { Ok(printable_json(&yaml).into_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["ID".to_owned(), "MIN".to_owned()], vec!["web".to_owned(), "1".to_owned()]];
        assert_eq!(columns(&rows), "ID    MIN\nweb   1\n");
        assert_eq!(columns(&[vec!["a\nerror".to_owned(), "\u{1b}[2J".to_owned()]]), "a\\nerror   \\u001b[2J\n");
    }

    #[test]
    fn names_cannot_command_a_terminal_in_json_or_yaml() {
        let value = serde_json::json!({"id": "a\u{9b}2J\u{2028}\u{202e}b: c", "plain": "x"});
        for text in [as_json(&value), as_yaml(&value)] {
            let text = text.unwrap_or_else(|error| panic!("{error}"));
            assert!(!has_unprintable(&text), "{text:?}");
            assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&text).expect("YAML"), value);
        }
        let plain = as_yaml(&serde_json::json!({"id": "x"})).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plain.trim(), "id: x");
    }
}
