//! What a read of a group returned, as what changed against the last observation of the group. Most reads return the
//! same again, and one with 100 instances has 10 KiB.

use std::collections::HashMap;
use std::mem;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::cloud::{CAPACITY_MAX, GroupReading, Instance, ProviderId};
use crate::group::Observation;

/// The group as it was read, against its last observation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReadingChange {
    /// The fields that changed.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    set: Map<String, Value>,
    /// Its instances.
    #[serde(default, skip_serializing_if = "Listed::is_same")]
    instances: Listed,
}

/// The instances of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Listed {
    /// Those of the last observation.
    #[default]
    Same,
    /// The read did not include them.
    Unread,
    /// Others, in their order.
    Changed(Vec<Piece>),
}

/// A part of a list of instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Piece {
    /// The next instances of the last observation.
    Keep(usize),
    /// The next instances of the last observation are missing.
    Skip(usize),
    /// Another instance.
    Add(Instance),
}

/// Why a recorded reading makes no sense.
#[derive(Debug, Error)]
pub(super) enum ChangeError {
    /// Its values are not those of a group.
    #[error("it is not a reading of a node group: {0}")]
    Value(#[from] serde_json::Error),
    /// It keeps more instances than there were.
    #[error("it keeps instances that the last observation does not have")]
    Instances,
    /// No group is as large.
    #[error("its capacity is more than {CAPACITY_MAX}")]
    Capacity,
}

impl Listed {
    fn is_same(&self) -> bool {
        *self == Self::Same
    }
}

impl ReadingChange {
    /// What a reading changes. `None` where it holds what JSON cannot.
    pub(super) fn between(before: &Observation, reading: &mut GroupReading) -> Option<Self> {
        let listed = reading.instances.take();
        let set = if *reading == before.reading { Some(Map::new()) } else { changed_fields(&before.reading, reading) };
        let instances = match &listed {
            None => Listed::Unread,
            Some(instances) if *instances == before.instances => Listed::Same,
            Some(instances) => Listed::Changed(pieces(&before.instances, instances)),
        };
        reading.instances = listed;
        Some(Self { set: set?, instances })
    }

    /// Whether the read showed nothing new.
    pub(super) fn is_nothing(&self) -> bool {
        self.set.is_empty() && !matches!(self.instances, Listed::Changed(_))
    }

    /// The reading.
    pub(super) fn applied_to(self, before: &Observation) -> Result<GroupReading, ChangeError> {
        let mut reading = before.reading.clone();
        if !self.set.is_empty() {
            let mut fields = fields_of(&reading)?;
            fields.extend(self.set);
            reading = serde_json::from_value(Value::Object(fields))?;
        }
        if reading.desired > CAPACITY_MAX {
            return Err(ChangeError::Capacity);
        }
        reading.instances = match self.instances {
            Listed::Same => Some(before.instances.clone()),
            Listed::Unread => None,
            Listed::Changed(pieces) => Some(joined(&before.instances, pieces)?),
        };
        Ok(reading)
    }
}

fn fields_of(reading: &GroupReading) -> Result<Map<String, Value>, serde_json::Error> {
    match serde_json::to_value(reading)? {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}

fn changed_fields(before: &GroupReading, after: &GroupReading) -> Option<Map<String, Value>> {
    let (before, after) = (fields_of(before).ok()?, fields_of(after).ok()?);
    Some(after.into_iter().filter(|(name, value)| before.get(name) != Some(value)).collect())
}

/// Instances as pieces of others. What is in another order than before counts as new.
fn pieces(before: &[Instance], after: &[Instance]) -> Vec<Piece> {
    let places: HashMap<&ProviderId, usize> = before.iter().enumerate().map(|(at, one)| (&one.id, at)).collect();
    let (mut pieces, mut next) = (Vec::new(), 0);
    for instance in after {
        match places.get(&instance.id).copied().filter(|at| *at >= next && is_same(&before[*at], instance)) {
            Some(at) => {
                if at > next {
                    pieces.push(Piece::Skip(at - next));
                }
                match pieces.last_mut() {
                    Some(Piece::Keep(length)) => *length += 1,
                    _ => pieces.push(Piece::Keep(1)),
                }
                next = at + 1;
            }
            None => pieces.push(Piece::Add(instance.clone())),
        }
    }
    pieces
}

/// Two IDs are equal in any case, but a recording keeps how each was spelled.
fn is_same(before: &Instance, after: &Instance) -> bool {
    before == after && before.id.as_str() == after.id.as_str()
}

fn joined(before: &[Instance], pieces: Vec<Piece>) -> Result<Vec<Instance>, ChangeError> {
    let (mut rest, mut instances) = (before, Vec::new());
    for piece in pieces {
        match piece {
            Piece::Add(instance) => instances.push(instance),
            Piece::Keep(length) => instances.extend_from_slice(next(&mut rest, length)?),
            Piece::Skip(length) => drop(next(&mut rest, length)?),
        }
    }
    Ok(instances)
}

/// Takes the next instances.
fn next<'a>(rest: &mut &'a [Instance], length: usize) -> Result<&'a [Instance], ChangeError> {
    let (taken, after) = mem::take(rest).split_at_checked(length).ok_or(ChangeError::Instances)?;
    *rest = after;
    Ok(taken)
}
