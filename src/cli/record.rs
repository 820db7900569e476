//! `headcount record`

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::output::print;
use super::{CommandError, server};

/// Save what happened to a node group lately and what was decided, from a running server.
///
/// Saves the last events of each node group to which something happened, 100 or more while there is room, with what was
/// known before them.
/// `headcount replay` makes the same decisions again and explains them. A recording contains names of groups and
/// instances and error texts of the cloud, and no credentials. Attach it to a bug report.
#[derive(Debug, clap::Args)]
pub(super) struct Record {
    /// The node group, as the Cluster Autoscaler names it; without it, all node groups.
    group: Option<String>,
    /// The admin port of the running server. Outside its pod: kubectl port-forward POD 8087.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8087")]
    server: String,
    /// The file to write, or - for stdout [default: headcount-GROUP-TIME.jsonl in this folder].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Record {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let Self { group, server, output } = self;
        let text = server::recording(&server, group.as_deref()).await.map_err(CommandError::Failed)?;
        let path = output.unwrap_or_else(|| default_path(group.as_deref(), SystemTime::now()));
        if path.as_os_str() == "-" {
            return print(&text);
        }
        let failed = |error| CommandError::Failed(format!("{}: {error}; name another file with -o", path.display()));
        std::fs::write(&path, &text).map_err(failed)?;
        let events = text.lines().filter(|line| line.starts_with("{\"event\"")).count();
        print(&saved(&path, events))
    }
}

/// What is printed once a recording is saved.
fn saved(path: &Path, events: usize) -> String {
    let path = path.display();
    match events {
        0 => format!("{path}: no events: nothing has happened lately\n"),
        _ => format!("{path}: {events} events; explain them with headcount replay\n"),
    }
}

/// A name that sorts by time.
fn default_path(group: Option<&str>, now: SystemTime) -> PathBuf {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let group = group.unwrap_or("all").replace(|letter| !is_plain(letter), "_");
    let time = humantime::format_rfc3339_seconds(now).to_string().replace([':', '-'], "");
    format!("headcount-{group}-{time}.jsonl").into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_name_of_the_file_names_the_group_and_leaves_the_folder_to_the_shell() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(default_path(None, now), PathBuf::from("headcount-all-20231114T221320Z.jsonl"));
        assert_eq!(default_path(Some("us/../w b"), now), PathBuf::from("headcount-us_.._w_b-20231114T221320Z.jsonl"));
    }

    #[test]
    fn a_recording_without_events_is_not_offered_for_replay() {
        assert_eq!(saved(Path::new("a.jsonl"), 0), "a.jsonl: no events: nothing has happened lately\n");
        assert_eq!(saved(Path::new("a.jsonl"), 7), "a.jsonl: 7 events; explain them with headcount replay\n");
    }
}
