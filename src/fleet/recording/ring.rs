//! The last events of one group, over checkpoints of its state, in little memory.
//!
//! A ring is a row of stretches. Each begins with a checkpoint, and ends when the group has been quiet for a while or
//! when it is long enough. The oldest one is dropped when the others hold enough events, or when all rings together
//! have no more room. So an idle group costs nothing, and what happened before it became idle is not displaced by reads
//! that show nothing new.

use std::collections::VecDeque;
use std::io::Write as _;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder};

/// The events that are kept of each group at least, if it had as many. A scale-up takes about ten.
pub(super) const EVENTS_MIN: usize = 100;
/// The events that are kept while there is room.
const EVENTS_ENOUGH: usize = 400;
/// A stretch ends after this many events.
const STRETCH_EVENTS: usize = 50;
/// A stretch ends after this many events in a row that showed nothing new. A checkpoint takes more room.
pub(super) const QUIET_EVENTS: usize = 20;
/// Lines are compressed once there are this many bytes of them.
const PACK_AT: usize = 2 * 1024;
/// Once a stretch has this many compressed parts, they become one, which is smaller.
const PARTS_MAX: usize = 5;
/// What the rings of all groups may take: at 1,000 groups, 15 KiB each, which holds [`EVENTS_MIN`] events of a group of
/// 100 instances.
pub(super) const ALL_BYTES_MAX: usize = 15 * 1024 * 1024;

/// The memory that the rings of all groups take, in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<AtomicUsize>);

impl Room {
    /// How much is taken.
    pub(super) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn change(&self, before: usize, after: usize) {
        self.0.fetch_add(after, Ordering::Relaxed);
        self.0.fetch_sub(before, Ordering::Relaxed);
    }

    /// Whether something has to be dropped.
    pub(super) fn is_full(&self) -> bool {
        self.taken() > ALL_BYTES_MAX
    }

    /// Whether more than what each group needs is too much.
    pub(super) fn is_scarce(&self) -> bool {
        self.taken() > ALL_BYTES_MAX / 2
    }
}

/// The last events of one group.
#[derive(Debug)]
pub(super) struct Ring {
    stretches: VecDeque<Stretch>,
    /// Whether the last stretch goes on.
    is_open: bool,
    /// The events at the end of it that changed nothing.
    quiet: usize,
    /// Whether the last event is still being decided on.
    is_pending: bool,
    /// When the last event happened.
    last: Option<SystemTime>,
    room: Room,
    bytes: usize,
}

/// A checkpoint, and the events after it.
#[derive(Debug)]
struct Stretch {
    /// The checkpoint, compressed; with all other lines, once the stretch has ended.
    checkpoint: Box<[u8]>,
    /// The lines after it, compressed in parts.
    parts: Vec<Box<[u8]>>,
    /// Lines that are not compressed yet.
    tail: String,
    events: usize,
}

impl Ring {
    /// A ring that shares this room with others.
    pub(super) fn new(room: Room) -> Self {
        let stretches = VecDeque::new();
        Self { stretches, is_open: false, quiet: 0, is_pending: false, last: None, room, bytes: 0 }
    }

    /// Whether an event can follow. If not, a checkpoint comes first.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// When the last event happened.
    pub(super) fn last(&self) -> Option<SystemTime> {
        self.last
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Begins a stretch with this checkpoint.
    pub(super) fn open(&mut self, checkpoint: &str) {
        self.close();
        self.stretches.push_back(Stretch::new(checkpoint));
        self.is_open = true;
    }

    /// Ends the current stretch.
    pub(super) fn close(&mut self) {
        if let Some(stretch) = self.stretches.back_mut().filter(|_| self.is_open) {
            stretch.end();
        }
        (self.is_open, self.is_pending, self.quiet) = (false, false, 0);
        self.make_room();
    }

    /// Adds an event. What was decided follows.
    pub(super) fn happen(&mut self, event: &str, at: SystemTime, is_quiet: bool) {
        let Some(stretch) = self.stretches.back_mut().filter(|_| self.is_open) else { return };
        stretch.push(event);
        stretch.events += 1;
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        (self.is_pending, self.last) = (true, Some(at));
    }

    /// Whether an event waits for what was decided about it.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Adds what was decided about the last event.
    pub(super) fn decide(&mut self, decided: &str) {
        let Some(stretch) = self.stretches.back_mut().filter(|_| self.is_pending) else { return };
        stretch.push(decided);
        self.is_pending = false;
        if stretch.events >= STRETCH_EVENTS || self.quiet >= QUIET_EVENTS {
            self.close();
        } else {
            self.make_room();
        }
    }

    /// All lines, oldest first, but for an event that is still being decided on.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for stretch in &self.stretches {
            let packed = std::iter::once(&stretch.checkpoint).chain(&stretch.parts);
            packed.for_each(|packed| text.push_str(&unpacked(packed)));
            text.push_str(&stretch.tail);
        }
        if self.is_pending {
            let decided = text.trim_end_matches('\n').rfind('\n').map_or(0, |end| end + 1);
            text.truncate(decided);
        }
        text
    }

    /// Drops the oldest stretches that are more than enough.
    fn make_room(&mut self) {
        let others = |stretches: &VecDeque<Stretch>| stretches.iter().skip(1).map(|one| one.events).sum::<usize>();
        self.note_bytes();
        while others(&self.stretches) >= if self.room.is_scarce() { EVENTS_MIN } else { EVENTS_ENOUGH } {
            self.drop_oldest();
        }
    }

    /// The memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops the oldest stretch.
    pub(super) fn drop_oldest(&mut self) {
        self.stretches.pop_front();
        if self.stretches.is_empty() {
            (self.is_open, self.is_pending, self.quiet) = (false, false, 0);
        }
        self.note_bytes();
    }

    fn note_bytes(&mut self) {
        let bytes = self.stretches.iter().map(Stretch::bytes).sum();
        self.room.change(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.room.change(self.bytes, 0);
    }
}

impl Stretch {
    fn new(checkpoint: &str) -> Self {
        Self { checkpoint: packed(checkpoint), parts: Vec::new(), tail: String::new(), events: 0 }
    }

    fn push(&mut self, line: &str) {
        if self.tail.len() + line.len() > PACK_AT {
            self.pack();
        }
        if line.len() > PACK_AT {
            self.parts.push(packed(line));
        } else {
            self.tail.reserve_exact(PACK_AT - self.tail.len());
            self.tail.push_str(line);
        }
        if self.parts.len() >= PARTS_MAX {
            self.join();
        }
    }

    fn pack(&mut self) {
        if !self.tail.is_empty() {
            self.parts.push(packed(&mem::take(&mut self.tail)));
        }
    }

    fn join(&mut self) {
        let lines: String = self.parts.iter().map(|part| unpacked(part)).collect();
        self.parts = vec![packed(&lines)];
    }

    /// It does not go on. Compressed as a whole, it is smallest: its events name instances of the checkpoint.
    fn end(&mut self) {
        self.pack();
        let lines: String = std::iter::once(&self.checkpoint).chain(&self.parts).map(|part| unpacked(part)).collect();
        (self.checkpoint, self.parts) = (packed(&lines), Vec::new());
    }

    fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.len() + size_of::<Box<[u8]>>()).sum();
        size_of::<Self>() + self.checkpoint.len() + parts + self.tail.capacity()
    }
}

fn packed(text: &str) -> Box<[u8]> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    // Writing to memory does not fail.
    written.unwrap_or_default().into_boxed_slice()
}

fn unpacked(packed: &[u8]) -> String {
    let mut decoder = DeflateDecoder::new(Vec::new());
    let written = decoder.write_all(packed).and_then(|()| decoder.finish());
    String::from_utf8(written.unwrap_or_default()).unwrap_or_default()
}
