//! Reads a recording, and makes its decisions again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use serde::Deserialize as _;
use serde_json::Value;
use thiserror::Error;

use super::change::ChangeError;
use super::line::{Decided, FORMAT, Happened, Line, Named, Writer};
use super::{reading_of, words};
use crate::cloud::CAPACITY_MAX;
use crate::group::Group;

/// Why a recording cannot be read or replayed.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// Something else.
    #[error("it is not a recording of Headcount")]
    NotARecording,
    /// A version of Headcount wrote it that wrote other recordings.
    #[error("Headcount {0} wrote it in a format that this version does not know; use that one")]
    OtherVersion(String),
    /// A line is damaged, or was written by another build.
    #[error("line {0}: {1}")]
    Line(usize, String),
}

/// A recording that was read.
#[derive(Debug)]
pub struct Recording {
    writer: Writer,
    stretches: Vec<Recorded>,
    left_out: usize,
}

/// A checkpoint of a group, and the events since.
#[derive(Debug)]
struct Recorded {
    group: Named,
    checkpoint: Box<Group>,
    events: Vec<(Happened, Option<Decided>)>,
}

/// The decisions of one group from one checkpoint on, made again.
#[derive(Debug)]
pub struct Stretch {
    /// The group, as `source/name`.
    pub group: String,
    /// The decisions, in their order.
    pub steps: Vec<Step>,
}

/// One event, and what is decided about it.
#[derive(Debug)]
pub struct Step {
    /// When it happened, by the cloud's clock.
    pub at: SystemTime,
    /// What happened, in words.
    pub event: String,
    /// The group's numbers, with what the event brought.
    pub known: Known,
    /// What is decided, in words, and by which rule.
    pub decided: Vec<Rule>,
    /// A digest of it, as a recording has it. Empty where the step is impossible.
    pub effects: String,
    /// Whether that is what was decided then.
    pub outcome: Outcome,
}

/// A decision in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What is decided.
    pub decision: String,
    /// The rule that it follows: a law of `docs/guarantees.md`, in words.
    pub rule: &'static str,
}

/// The numbers that a decision knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The capacity, with what our accepted writes made of it.
    pub capacity: u32,
    /// The instances that the capacity counts and that are not being deleted.
    pub live: u32,
    /// The target size.
    pub target: u32,
    /// The operations in flight.
    pub in_flight: usize,
}

/// How a decision compares with the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They are the same.
    Same,
    /// They differ.
    Differs,
    /// Nothing was recorded: the decision panicked, or somebody cut the recording short.
    NotRecorded,
    /// It panics, or the event does not fit what is known. The rest cannot be replayed.
    Impossible(String),
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    ///
    /// If it is none, or not one that this version can replay.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordingError> {
        let text = std::str::from_utf8(bytes).map_err(|_| RecordingError::NotARecording)?;
        let mut lines = text.lines().enumerate();
        let first = lines.next().and_then(|(_, first)| serde_json::from_str::<Line>(first).ok());
        let Some(Line::Headcount(writer)) = first else { return Err(RecordingError::NotARecording) };
        if writer.format != FORMAT {
            return Err(RecordingError::OtherVersion(writer.version));
        }
        let mut recording = Self { writer, stretches: Vec::new(), left_out: 0 };
        let mut group = None;
        for (number, text) in lines {
            let added = read_line(text).and_then(|line| recording.add(line, &mut group).map_err(str::to_owned));
            added.map_err(|why| RecordingError::Line(number + 1, why))?;
        }
        Ok(recording)
    }

    fn add(&mut self, line: Line, group: &mut Option<Named>) -> Result<(), &'static str> {
        match line {
            Line::Headcount(writer) if writer == self.writer => {}
            Line::Headcount(_) => return Err("another version wrote the rest"),
            Line::Group(named) => *group = Some(named),
            Line::Checkpoint(checkpoint) => {
                let group = group.clone().ok_or("no group before it")?;
                self.stretches.push(Recorded { group, checkpoint, events: Vec::new() });
            }
            Line::Event(event) => {
                let stretch = self.stretches.last_mut().ok_or("no checkpoint before it")?;
                stretch.events.push((*event, None));
            }
            Line::Decided(decided) => {
                let last = self.stretches.last_mut().and_then(|stretch| stretch.events.last_mut());
                last.ok_or("no event before it")?.1 = Some(decided);
            }
            Line::LeftOut(groups) => self.left_out += groups,
        }
        Ok(())
    }

    /// The version of Headcount that wrote it, if it is not this one.
    pub fn other_version(&self) -> Option<&str> {
        Some(self.writer.version.as_str()).filter(|version| *version != env!("CARGO_PKG_VERSION"))
    }

    /// How many groups it lacks because it would have been too long.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Makes its decisions again, stretch by stretch.
    pub fn replay(self) -> impl Iterator<Item = Stretch> {
        self.stretches.into_iter().map(Recorded::replay)
    }
}

/// Reads a line. It must not hold anything that this version does not know: what is ignored may decide.
fn read_line(text: &str) -> Result<Line, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let line = Line::deserialize(&value).map_err(|error| format!("another build of Headcount wrote it: {error}"))?;
    if let Line::Checkpoint(group) = &line
        && group.state().observation().reading.desired > CAPACITY_MAX
    {
        return Err(ChangeError::Capacity.to_string());
    }
    let again = serde_json::to_value(&line).map_err(|error| error.to_string())?;
    if again != value {
        return Err("another build of Headcount wrote it: it holds more than this one knows".to_owned());
    }
    Ok(line)
}

impl Recorded {
    fn replay(self) -> Stretch {
        let Self { group: Named { source, name }, checkpoint, events } = self;
        let mut group = *checkpoint;
        let mut stretch = Stretch { group: format!("{source}/{name}"), steps: Vec::new() };
        for (happened, decided) in events {
            let step = step(&mut group, &name, happened, decided.as_ref());
            let is_over = matches!(step.outcome, Outcome::Impossible(_));
            stretch.steps.push(step);
            if is_over {
                break;
            }
        }
        stretch
    }
}

fn step(group: &mut Group, name: &str, happened: Happened, recorded: Option<&Decided>) -> Step {
    let Happened { now, at, mut what, reading } = happened;
    let impossible = |event, why: String| {
        let outcome = Outcome::Impossible(why);
        Step { at: shown(at), event, known: Known::default(), decided: Vec::new(), effects: String::new(), outcome }
    };
    if let Some(change) = reading {
        let read = change.applied_to(group.state().observation());
        match (reading_of(&mut what), read) {
            (Some(place), Ok(read)) => *place = Some(Box::new(read)),
            (None, _) => return impossible(words::event(&what), "the event reads nothing".to_owned()),
            (_, Err(error)) => return impossible(words::event(&what), error.to_string()),
        }
    }
    let event = words::event(&what);
    let made = catch_unwind(AssertUnwindSafe(|| {
        let effects = group.step(now, at, what);
        (known(group), effects)
    }));
    let Ok((known, effects)) = made else { return impossible(event, "the decision panics".to_owned()) };
    let decided = words::decisions(name, &effects);
    let again = Decided::on(&effects);
    let outcome = match recorded {
        None => Outcome::NotRecorded,
        Some(recorded) if again.as_ref() == Some(recorded) => Outcome::Same,
        Some(_) => Outcome::Differs,
    };
    let effects = again.map(|again| again.effects).unwrap_or_default();
    Step { at: shown(at), event, known, decided, effects, outcome }
}

fn known(group: &Group) -> Known {
    let (state, census) = (group.state(), group.state().census());
    let in_flight = state.in_flight().operations().len();
    Known { capacity: census.capacity, live: census.live, target: state.status().target, in_flight }
}

/// A time that can be printed.
fn shown(at: SystemTime) -> SystemTime {
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    at.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + LAST)
}
