//! `headcount replay`

use std::fmt::Write as _;
use std::path::PathBuf;

use super::CommandError;
use super::output::print;
use crate::cloud::text::printable;
use crate::fleet::recording::{Outcome, Recording, Step};
use crate::limits::{RECORDING, read_file};

/// Make the decisions of a recording again, and explain them.
///
/// Prints for each event what was known, what is decided, and which law, setting or response of the cloud decides it.
/// docs/guarantees.md has the laws. Needs no cloud and no server. Exits with 1 if a decision differs from the recorded
/// one.
#[derive(Debug, clap::Args)]
pub(super) struct Replay {
    /// The recording, as `headcount record` saved it.
    file: PathBuf,
}

impl Replay {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let refused = |error: &dyn std::fmt::Display| CommandError::Failed(format!("{}: {error}", self.file.display()));
        let bytes = read_file(&self.file, RECORDING).map_err(|error| refused(&error))?;
        let recording = Recording::parse(&bytes).map_err(|error| refused(&error))?;
        let other = recording.other_version().map(str::to_owned);
        if let Some(version) = &other {
            print(&format!(
                "Headcount {version} wrote this recording; these are the decisions of {}\n",
                env!("CARGO_PKG_VERSION")
            ))?;
        }
        if recording.left_out() > 0 {
            print(&format!("{} node groups were left out; record them one by one\n", recording.left_out()))?;
        }
        let (mut number, mut same, mut differing) = (0, 0, Vec::new());
        for stretch in recording.replay() {
            let mut text = format!("\nnode group {}\n", stretch.group);
            for step in stretch.steps {
                number += 1;
                write_step(&mut text, number, &step);
                match step.outcome {
                    Outcome::Same => same += 1,
                    Outcome::NotRecorded => {}
                    Outcome::Differs | Outcome::Impossible(_) => differing.push(number.to_string()),
                }
            }
            print(&text.lines().map(|line| format!("{}\n", printable(line))).collect::<String>())?;
        }
        print(&format!("\n{number} decisions, {same} of them the same as recorded\n"))?;
        match differing.is_empty() {
            true => Ok(()),
            false => Err(CommandError::Failed(format!(
                "these decisions differ from the recorded ones: {}",
                differing.join(", ")
            ))),
        }
    }
}

fn write_step(text: &mut String, number: usize, step: &Step) {
    let (at, known) = (humantime::format_rfc3339_millis(step.at), step.known);
    let one_line = |part: &str| part.replace('\n', " ");
    let mut add = |line: String| _ = writeln!(text, "{line}");
    add(format!("{number:>4}  {at}  {}", one_line(&step.event)));
    add(format!(
        "      known: capacity {}, live {}, target {}, in flight {}",
        known.capacity, known.live, known.target, known.in_flight
    ));
    for rule in &step.decided {
        add(format!("      decided: {} [{}]", one_line(&rule.decision), rule.rule));
    }
    if step.decided.is_empty() {
        add("      decided: nothing".to_owned());
    }
    match &step.outcome {
        Outcome::Same => {}
        Outcome::Differs => add("      DIFFERS from what was decided then".to_owned()),
        Outcome::NotRecorded => add("      what was decided then is not recorded".to_owned()),
        Outcome::Impossible(why) => add(format!("      CANNOT BE REPLAYED: {}", one_line(why))),
    }
}
