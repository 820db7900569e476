//! Tracks unfinished frames. HTTP/2 libraries wait for the rest of a frame without a limit, so this follows the
//! boundaries of frames in the bytes that arrive.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::CALL_WITH_NODES;

/// The connection preface: `PRI * HTTP/2.0`, an empty line, `SM`, an empty line.
const PREFACE_BYTES: usize = 24;
/// The length (3 bytes), type, flags (1 each) and stream (4) of a frame.
const FRAME_HEAD_BYTES: usize = 9;

/// The longest that the preface may take, and the head of a request: a few packets.
pub(super) const HEAD_LIMIT: Duration = Duration::from_secs(5);
/// The longest that a frame of a request's body may take.
pub(super) const BODY_LIMIT: Duration = CALL_WITH_NODES.time();

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The unfinished part of what a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    /// The preface.
    Preface,
    /// A frame, or the block of headers of one request.
    Head,
    /// A frame of a request's body.
    Body,
}

/// Follows the frames of one connection.
#[derive(Debug)]
pub(super) struct FrameWatch {
    preface_left: usize,
    head: [u8; FRAME_HEAD_BYTES],
    head_bytes: usize,
    payload_left: usize,
    in_header_block: bool,
    unfinished: Option<(Unfinished, Instant)>,
}

impl FrameWatch {
    /// Waits for the preface from now on.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            preface_left: PREFACE_BYTES,
            head: [0; FRAME_HEAD_BYTES],
            head_bytes: 0,
            payload_left: 0,
            in_header_block: false,
            unfinished: Some((Unfinished::Preface, now)),
        }
    }

    /// Whether the preface has arrived.
    pub(super) fn has_preface(&self) -> bool {
        self.preface_left == 0
    }

    /// Whether something has been unfinished for too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.unfinished.is_some_and(|(what, since)| {
            let limit = if what == Unfinished::Body { BODY_LIMIT } else { HEAD_LIMIT };
            now.saturating_duration_since(since) > limit
        })
    }

    /// Takes in bytes that have arrived.
    pub(super) fn receive(&mut self, mut bytes: &[u8], now: Instant) {
        let taken = self.preface_left.min(bytes.len());
        self.preface_left -= taken;
        bytes = &bytes[taken..];
        if self.preface_left > 0 {
            return;
        }
        if taken > 0 {
            self.unfinished = None;
        }
        while !bytes.is_empty() {
            bytes =
                if self.head_bytes < FRAME_HEAD_BYTES { self.see_head(bytes, now) } else { self.see_payload(bytes) };
            if self.head_bytes == FRAME_HEAD_BYTES && self.payload_left == 0 {
                self.end_frame();
            }
        }
    }

    fn see_head<'a>(&mut self, bytes: &'a [u8], now: Instant) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(FRAME_HEAD_BYTES - self.head_bytes));
        self.head[self.head_bytes..self.head_bytes + taken.len()].copy_from_slice(taken);
        self.head_bytes += taken.len();
        // A block of headers has one limit, even if it is spread over several frames.
        let (_, since) = *self.unfinished.get_or_insert((Unfinished::Head, now));
        if self.head_bytes == FRAME_HEAD_BYTES {
            let [high, middle, low, kind, ..] = self.head;
            self.payload_left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if kind == DATA {
                self.unfinished = Some((Unfinished::Body, since));
            }
        }
        rest
    }

    fn see_payload<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(self.payload_left));
        self.payload_left -= taken.len();
        rest
    }

    fn end_frame(&mut self) {
        let (kind, flags) = (self.head[3], self.head[4]);
        match kind {
            HEADERS | CONTINUATION => self.in_header_block = flags & END_HEADERS == 0,
            _ => {}
        }
        self.head_bytes = 0;
        if !self.in_header_block {
            self.unfinished = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Whether a client that sends this and then nothing is overdue after 4, 6 and 11 seconds.
    fn overdue(bytes: &[u8]) -> [bool; 3] {
        let now = Instant::now();
        let mut watch = FrameWatch::new(now);
        watch.receive(bytes, now);
        [4, 6, 11].map(|seconds| watch.is_overdue(now + Duration::from_secs(seconds)))
    }

    #[tokio::test]
    async fn what_a_client_begins_must_be_finished_in_time() {
        let settings = frame(4, 0, &[]);
        let open_headers = frame(HEADERS, 0, b"abc");
        let closed = frame(CONTINUATION, END_HEADERS, b"def");
        let data = frame(DATA, 0, &[7; 100]);
        let head = [false, true, true];
        let body = [false, false, true];
        let never = [false; 3];
        for (rest, expected) in [
            (&[][..], never),
            (&settings[..4], head),
            (&settings, never),
            (&open_headers, head),
            (&[open_headers.clone(), closed[..8].to_vec()].concat(), head),
            (&[open_headers.clone(), closed].concat(), never),
            (&data[..50], body),
            (&data, never),
        ] {
            assert_eq!(overdue(&[PREFACE, rest].concat()), expected, "{rest:?}");
        }
        assert_eq!(overdue(&[]), head);
        assert_eq!(overdue(&PREFACE[..23]), head);
    }

    #[tokio::test]
    async fn a_block_of_headers_has_one_limit_however_many_frames_it_takes() {
        let now = Instant::now();
        let mut watch = FrameWatch::new(now);
        watch.receive(PREFACE, now);
        watch.receive(&frame(HEADERS, 0, b"a"), now);
        for second in 1..=5 {
            watch.receive(&frame(CONTINUATION, 0, b"a"), now + Duration::from_secs(second));
        }
        assert!(watch.is_overdue(now + Duration::from_secs(6)));
    }

    proptest! {
        #![proptest_config(crate::properties::config())]

        /// How the bytes are split into packets changes nothing.
        #[test]
        fn the_split_into_packets_does_not_matter(
            bytes in vec(any::<u8>(), 0..300),
            sizes in vec(1..40_usize, 1..60),
            whole in any::<bool>(),
        ) {
            let bytes = if whole { [PREFACE.to_vec(), bytes].concat() } else { bytes };
            let now = tokio::runtime::Runtime::new().expect("a runtime").block_on(async { Instant::now() });
            let (mut at_once, mut split) = (FrameWatch::new(now), FrameWatch::new(now));
            at_once.receive(&bytes, now);
            let mut rest = &bytes[..];
            for size in sizes.into_iter().cycle() {
                let (packet, after) = rest.split_at(size.min(rest.len()));
                split.receive(packet, now);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(at_once.unfinished, split.unfinished);
            prop_assert_eq!(at_once.payload_left, split.payload_left);
        }
    }
}
