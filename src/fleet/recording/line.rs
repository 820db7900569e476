//! What a recording consists of: one JSON value per line.
//!
//! ```text
//! {"headcount":{"version":"0.1.0","format":1}}           what wrote it; the first line
//! {"group":{"source":"us","name":"web"}}                 whose events follow
//! {"checkpoint":{…}}                                     all that was known of the group at that moment
//! {"event":{"now":…,"at":…,"what":…,"reading":…}}        what happened next, and when
//! {"decided":{"effects":"…"}}                            a digest of what was decided; missing if that panicked
//! ```
//!
//! An event follows another one or a checkpoint. A later checkpoint of the same group begins anew: what happened
//! between the two was not worth recording, or had no room.

use std::hash::{DefaultHasher, Hasher as _};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::change::ReadingChange;
use crate::cloud::text::printable_json;
use crate::fleet::snapshot::GroupKey;
use crate::group::{Effect, Event, Group, Time};

/// The shape of these lines, and of what they hold. Raise it when a recording would be read as something else.
pub(super) const FORMAT: u32 = 1;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// What wrote the recording.
    Headcount(Writer),
    /// Whose events follow.
    Group(Named),
    /// What was known of the group.
    Checkpoint(Box<Group>),
    /// Something happened.
    Event(Box<Happened>),
    /// What was decided about the event before.
    Decided(Decided),
    /// This many groups were left out, because the recording would have been too long.
    LeftOut(usize),
}

/// What wrote a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Writer {
    /// The version of Headcount.
    pub version: String,
    /// [`FORMAT`], there.
    pub format: u32,
}

impl Writer {
    /// This program.
    pub(super) fn own() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), format: FORMAT }
    }
}

/// Whose events follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Named {
    /// The source.
    pub source: String,
    /// The name in its cloud.
    pub name: String,
}

impl Named {
    pub(super) fn of(key: &GroupKey) -> Self {
        Self { source: key.source.to_string(), name: key.name.to_string() }
    }
}

/// An event, and when it happened.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Happened {
    /// The moment of the event.
    pub now: Time,
    /// The same moment by the cloud's clock.
    pub at: SystemTime,
    /// The event, without the group as it was read.
    pub what: Event,
    /// The group as it was read, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<ReadingChange>,
}

/// What was decided about an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Decided {
    /// A digest of the effects.
    pub effects: String,
}

impl Decided {
    /// What was decided; `None` where an effect holds what JSON cannot.
    pub(super) fn on(effects: &[Effect]) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        // Recordings are served without our secrets: a replay decides by what is left.
        hasher.write(printable_json(&serde_json::to_string(effects).ok()?).as_bytes());
        Some(Self { effects: format!("{:08x}", hasher.finish() >> 32) })
    }
}

/// A line with this value, with its line break; `None` where the value holds what JSON cannot, such as a time before
/// 1970.
pub(super) fn line(kind: &'static str, value: &impl Serialize) -> Option<String> {
    let mut text = format!("{{\"{kind}\":");
    text.push_str(&serde_json::to_string(value).ok()?);
    text.push_str("}\n");
    Some(text)
}
