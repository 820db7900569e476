//! The queue of log lines, and the thread that writes them. Lines that do not fit are counted and dropped.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::CommandError;
use crate::cloud::text::printable;

/// Lines that wait for the thread that writes them.
const QUEUE_LINES: usize = 4096;
/// The longest line, in bytes. With the queue full of such lines, the process holds 32 MiB.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// The longest text of a field in a line that is too long, at first.
const FIELD_BYTES_MAX: usize = 4 * 1024;

/// The longest event that is held until it is cut.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// How often dropped lines are reported.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// How many lines wait, and how many were dropped.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) waiting: AtomicUsize,
    pub(super) dropped: Counter,
}

/// Where the log's lines wait.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    lines: SyncSender<String>,
    pub(super) counts: Arc<Counts>,
}

impl Queue {
    /// Starts the thread that writes.
    pub(super) fn start(target: impl Write + Send + 'static, counts: Arc<Counts>) -> Result<Self, CommandError> {
        let (lines, queued) = sync_channel(QUEUE_LINES);
        let shared = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(target, &queued, &shared))
            .map_err(|error| CommandError::Failed(format!("cannot start the thread of the log: {error}")))?;
        Ok(Self { lines, counts })
    }

    pub(super) fn put(&self, line: String) {
        self.counts.waiting.fetch_add(1, Ordering::AcqRel);
        if self.lines.try_send(line).is_err() {
            self.counts.waiting.fetch_sub(1, Ordering::AcqRel);
            self.counts.dropped.inc();
        }
    }
}

/// Writes lines until the process ends. A line that cannot be written is dropped.
fn write_all(mut target: impl Write, queued: &Receiver<String>, counts: &Counts) {
    let (mut reported, mut reported_at) = (0, None::<Instant>);
    while let Ok(line) = queued.recv() {
        if target.write_all(line.as_bytes()).is_err() {
            counts.dropped.inc();
        }
        counts.waiting.fetch_sub(1, Ordering::AcqRel);
        let dropped = counts.dropped.get();
        if dropped > reported && reported_at.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            tracing::warn!(
                lines = dropped - reported,
                "log lines were dropped because stderr could not be written in time"
            );
            (reported, reported_at) = (dropped, Some(Instant::now()));
        }
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { text: Vec::new(), queue: self.clone() }
    }
}

/// A line that is being written.
pub(super) struct Line {
    text: Vec<u8>,
    queue: Queue,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = EVENT_BYTES_MAX.saturating_sub(self.text.len());
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line of a limited length. A line of JSON stays one: its longest texts are cut, and not the line.
fn fitting(line: &str) -> Cow<'_, str> {
    if line.len() <= LINE_BYTES_MAX {
        return Cow::Borrowed(line);
    }
    let cut = |text: &str, bytes: usize| text[..text.floor_char_boundary(bytes)].to_owned();
    if !line.starts_with('{') {
        return Cow::Owned(cut(line, LINE_BYTES_MAX));
    }
    let fields = serde_json::from_str::<serde_json::Map<String, Value>>(line);
    // An event that is longer than any event may be has lost its end.
    let mut fields = fields.unwrap_or_else(|_| serde_json::Map::from_iter([("message".to_owned(), Value::from(line))]));
    let mut bytes = FIELD_BYTES_MAX;
    loop {
        for value in fields.values_mut() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if text.len() > bytes {
                *value = Value::from(cut(&text, bytes) + "…");
            }
        }
        let text = Value::Object(fields.clone()).to_string();
        if text.len() <= LINE_BYTES_MAX {
            return Cow::Owned(printable(&text).into_owned());
        }
        if bytes == 0 {
            return Cow::Borrowed("{\"message\":\"a line of the log has too many fields\"}");
        }
        bytes /= 2;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        if !line.is_empty() {
            self.queue.put(fitting(&printable(line)).into_owned() + "\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A stderr that writes nothing until it is released.
    struct Blocked {
        released: Receiver<()>,
        written: Arc<Mutex<String>>,
    }

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _released_for_good = self.released.recv();
            self.written.lock().expect("no panic").push_str(&String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn mk_blocked() -> (Queue, Sender<()>, Arc<Mutex<String>>) {
        let (release, released) = channel();
        let written = Arc::new(Mutex::new(String::new()));
        let target = Blocked { released, written: Arc::clone(&written) };
        let queue = Queue::start(target, Arc::default()).unwrap_or_else(|error| panic!("{error}"));
        (queue, release, written)
    }

    fn write(queue: &Queue, text: &str) {
        queue.make_writer().write_all(text.as_bytes()).expect("never fails");
    }

    fn drained(queue: &Queue) {
        while queue.counts.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_blocked_stderr_blocks_nobody_and_dropped_lines_are_counted() {
        let (queue, release, written) = mk_blocked();
        let lines = QUEUE_LINES + 100;
        (0..lines).for_each(|number| write(&queue, &format!("{number}\n")));
        let dropped = queue.counts.dropped.get();
        assert!((99..=100).contains(&dropped), "{dropped}: the thread holds one line, or none yet");
        drop(release);
        drained(&queue);
        assert_eq!(written.lock().expect("no panic").lines().count() as u64 + dropped, lines as u64);
    }

    #[test]
    fn a_long_line_of_json_is_cut_by_field() {
        let long = "ä\"\\\u{202e}\n".repeat(3_000);
        let many = Value::Object((0..2_000).map(|number| (format!("field-{number}"), Value::from("x"))).collect());
        let event = serde_json::json!({"level": "WARN", "message": "short", "a": long, "b": long, "c": [long]});
        for (event, keeps) in [(&event, true), (&many, false)] {
            let line = printable(&event.to_string()).into_owned();
            let fitted = fitting(&line);
            assert!(fitted.len() <= 2 * LINE_BYTES_MAX && printable(&fitted) == fitted, "{}", fitted.len());
            let read: Value = serde_json::from_str(&fitted).expect("JSON");
            assert_eq!(read["message"] == "short" && read["level"] == "WARN", keeps);
        }
        let endless = format!("{{\"message\":\"{}", "x".repeat(LINE_BYTES_MAX));
        assert!(serde_json::from_str::<Value>(&fitting(&endless)).is_ok());
        assert_eq!(fitting(&"x".repeat(2 * LINE_BYTES_MAX)).len(), LINE_BYTES_MAX);
    }

    #[test]
    fn an_event_is_one_line_of_a_limited_length() {
        let (queue, release, written) = mk_blocked();
        drop(release);
        write(&queue, "first\n");
        write(&queue, "a forged\nline \u{1b}[31m\u{202e}\n");
        write(&queue, &"x".repeat(2 * LINE_BYTES_MAX));
        drained(&queue);
        let written = written.lock().expect("no panic");
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(lines[..2], ["first", r"a forged\nline \u001b[31m\u202e"]);
        assert_eq!((lines[2].len(), lines.len()), (LINE_BYTES_MAX, 3));
    }

    #[test]
    fn a_closed_stderr_only_costs_lines() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let queue = Queue::start(Closed, Arc::default()).unwrap_or_else(|error| panic!("{error}"));
        (0..10).for_each(|_| write(&queue, "text\n"));
        drained(&queue);
        assert_eq!(queue.counts.dropped.get(), 10);
    }
}
