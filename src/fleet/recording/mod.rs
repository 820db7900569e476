//! The flight recorder: what happened to each group lately, so that its decisions can be made again.
//!
//! All that a group decides on are its events, so a checkpoint of its state and the events since are enough. `line.rs`
//! has the format, `change.rs` how a reading is written down, `ring.rs` what is kept and for how long, and `replay.rs`
//! makes the decisions again, and `words.rs` says what they are and which rule they follow.

mod change;
mod line;
mod replay;
mod ring;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::snapshot::GroupKey;
use crate::cloud::GroupReading;
use crate::cloud::text::printable_json;
use crate::group::{Effect, Event, Group, Time};
use crate::limits::RECORDING;
use change::ReadingChange;
use line::{Decided, Named, Writer, line};
pub use replay::{Known, Outcome, Recording, RecordingError, Rule, Step, Stretch};
use ring::{Ring, Room};

/// The rings of this many groups are kept whose keepers have ended.
const ENDED_MAX: usize = 64;

/// The recordings of all groups.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    rings: Mutex<BTreeMap<GroupKey, Arc<Mutex<Ring>>>>,
    room: Room,
    is_stopped: AtomicBool,
}

/// Records one group. Its keeper has it.
#[derive(Debug)]
pub(super) struct Recorder {
    ring: Arc<Mutex<Ring>>,
    all: Arc<Recordings>,
}

impl Recordings {
    /// What records this group. What an earlier keeper recorded of it stays: it may have panicked.
    pub(super) fn recorder(self: &Arc<Self>, key: &GroupKey) -> Recorder {
        let mut rings = lock(&self.rings);
        let ring = rings.entry(key.clone()).or_insert_with(|| Arc::new(Mutex::new(Ring::new(self.room.clone()))));
        let ring = Arc::clone(ring);
        lock(&ring).close();
        forget_ended(&mut rings);
        Recorder { ring, all: Arc::clone(self) }
    }

    /// The recording of the groups of this ID or `source/name`, or of all groups: those first to which something
    /// happened last. `None` where there is no such group.
    pub(super) fn text(&self, group: Option<&str>) -> Option<String> {
        let is_asked = |key: &GroupKey| group.is_none_or(|id| key.name.as_str() == id || key.to_string() == id);
        let rings = lock(&self.rings).clone();
        let mut asked: Vec<_> = rings.into_iter().filter(|(key, _)| is_asked(key)).collect();
        if asked.is_empty() && group.is_some() {
            return None;
        }
        // Once for each: events go on meanwhile.
        asked.sort_by_cached_key(|(_, ring)| std::cmp::Reverse(lock(ring).last()));
        let mut text = line("headcount", &Writer::own())?;
        let mut left_out = 0;
        for (key, ring) in asked {
            let lines = lock(&ring).text();
            let lines = line("group", &Named::of(&key))? + &lines;
            let lines = printable_json(&lines);
            if text.len() + lines.len() + LEFT_OUT_BYTES > RECORDING.bytes {
                left_out += 1;
            } else if group.is_some() || !lock(&ring).is_empty() {
                text.push_str(&lines);
            }
        }
        if left_out > 0 {
            text.push_str(&line("left_out", &left_out)?);
        }
        Some(text)
    }

    /// Drops the oldest stretches of the largest recordings until there is room for all.
    fn make_room(&self) {
        while self.room.is_full() {
            let rings = lock(&self.rings);
            let used = rings.values().filter(|ring| lock(ring).bytes() > 0);
            let Some(largest) = used.max_by_key(|ring| lock(ring).bytes()) else { return };
            lock(largest).drop_oldest();
        }
    }

    /// The memory that the recordings take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.room.taken()
    }

    /// Ends all recordings, to measure what they cost.
    #[cfg(feature = "faults")]
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        lock(&self.rings).values().for_each(|ring| *lock(ring) = Ring::new(self.room.clone()));
    }
}

/// The longest line that says how many groups were left out.
const LEFT_OUT_BYTES: usize = 64;

/// Drops the rings of keepers that have ended, but for the last ones.
fn forget_ended(rings: &mut BTreeMap<GroupKey, Arc<Mutex<Ring>>>) {
    let ended = rings.iter().filter(|(_, ring)| Arc::strong_count(ring) == 1);
    let mut ended: Vec<_> = ended.map(|(key, ring)| (lock(ring).last(), key.clone())).collect();
    ended.sort();
    for (_, key) in ended.iter().rev().skip(ENDED_MAX) {
        rings.remove(key);
    }
}

impl Recorder {
    /// Records an event that the group is about to take.
    pub(super) fn happen(&self, group: &Group, now: Time, at: SystemTime, event: &mut Event) {
        if self.all.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let mut ring = lock(&self.ring);
        let Some((text, is_quiet)) = written(group, (now, at), event) else { return ring.close() };
        if !ring.is_open() {
            if is_quiet {
                return;
            }
            let Some(checkpoint) = line("checkpoint", group) else { return };
            ring.open(&checkpoint);
        }
        ring.happen(&text, at, is_quiet);
    }

    /// Records what was decided about it.
    pub(super) fn decide(&self, effects: &[Effect]) {
        let mut ring = lock(&self.ring);
        if !ring.is_pending() {
            return;
        }
        match Decided::on(effects).and_then(|decided| line("decided", &decided)) {
            Some(text) => ring.decide(&text),
            None => ring.close(),
        }
        drop(ring);
        self.all.make_room();
    }
}

/// The line of an event, and whether it changes nothing. `None` where it holds what JSON cannot.
fn written(group: &Group, (now, at): (Time, SystemTime), event: &mut Event) -> Option<(String, bool)> {
    /// As [`line::Happened`], without owning anything.
    #[derive(serde::Serialize)]
    struct Happens<'a> {
        now: Time,
        at: SystemTime,
        what: &'a Event,
        #[serde(skip_serializing_if = "Option::is_none")]
        reading: &'a Option<ReadingChange>,
    }

    let mut read = reading_of(event).and_then(Option::take);
    let reading = read.as_mut().map(|read| ReadingChange::between(group.state().observation(), read));
    let is_writable = !matches!(reading, Some(None));
    let reading = reading.flatten();
    let text = line("event", &Happens { now, at, what: event, reading: &reading }).filter(|_| is_writable);
    if let Some(place) = reading_of(event) {
        *place = read;
    }
    let is_same = matches!(event, Event::Started) || reading.is_some_and(|reading| reading.is_nothing());
    let is_quiet = is_same && group.is_idle() && !group.is_restless() && group.wake_at().is_none();
    Some((text?, is_quiet))
}

/// Where an event has the group as it was read, if it may have.
fn reading_of(event: &mut Event) -> Option<&mut Option<Box<GroupReading>>> {
    match event {
        Event::Listed(read, _) | Event::Read(read) | Event::ReadBeside(read, _) => read.reading.as_mut().ok(),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
