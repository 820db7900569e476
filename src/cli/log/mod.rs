//! The log. No task ever waits for stderr: lines go through a bounded queue to a thread of their own.

mod queue;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use clap::ValueEnum;
use prometheus_client::metrics::counter::Counter;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use queue::Queue;

use super::CommandError;
use crate::cloud::text::printable;
use crate::metrics::FamilySpec;

/// Lines of the log that are lost. A blocked stderr shows nowhere else.
pub const LOG_DROPPED_LINES: FamilySpec = FamilySpec::counter(
    "headcount_log_dropped_lines",
    &[],
    "Lines of the log that were dropped because stderr could not be written in time",
);

/// How long the process waits for the queue when it exits.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// The log format.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogFormat {
    /// One line for each event.
    Text,
    /// One JSON object per line.
    Json,
}

static QUEUE: OnceLock<Queue> = OnceLock::new();
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// How many lines have been dropped since the start.
pub(super) fn dropped_lines() -> Counter {
    QUEUE.get().map(|queue| queue.counts.dropped.clone()).unwrap_or_default()
}

/// Writes what the demo does, in the format of the log.
pub(super) fn print(line: &str) {
    let Some((queue, format)) = QUEUE.get().zip(FORMAT.get()) else { return };
    let line = printable(line);
    let line = match format {
        LogFormat::Text => line.into_owned(),
        LogFormat::Json => {
            let timestamp = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
            let target = "headcount::demo";
            serde_json::json!({"timestamp": timestamp, "level": "INFO", "message": line, "target": target}).to_string()
        }
    };
    queue.put(line + "\n");
}

/// Starts logging to stderr.
pub(super) fn start(filter: &str, format: LogFormat) -> Result<(), CommandError> {
    let bad = |error| CommandError::Usage(format!("--log {filter:?} is not a valid filter: {error}; try --log info"));
    if let Some(word) = filter.split(',').map(str::trim).find(|word| is_no_level(word)) {
        let message = format!("--log {filter:?}: {word:?} is not a level; use error, warn, info, debug, trace or off");
        return Err(CommandError::Usage(message));
    }
    // kube logs every failed request. src/fleet/learning.rs logs each outage once, so kube's own messages are off.
    let named = named_libraries(filter);
    let shows = move |event: &Metadata<'_>| shows(&named, event);
    let filter = EnvFilter::try_new(format!("kube_client=off,kube_runtime=off,{filter}")).map_err(bad)?;
    let queue = Queue::start(io::stderr(), Arc::default())?;
    let queue = QUEUE.get_or_init(|| queue).clone();
    FORMAT.get_or_init(|| format);
    // Colours are escape sequences, which the filter of untrusted text removes. An error while writing the log must not
    // be logged: the library would panic where stderr is closed.
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(queue)
        .with_ansi(false)
        .log_internal_errors(false);
    match format {
        LogFormat::Text => logs.finish().with(filter_fn(shows)).init(),
        LogFormat::Json => logs.json().flatten_event(true).finish().with(filter_fn(shows)).init(),
    }
    // The library's own report of a panic would wait for stderr.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, panic = panic.payload_as_str(), "Headcount panicked; this is a bug, please report it");
    }));
    Ok(())
}

/// The libraries that a filter names, each by the first part of its modules' paths.
fn named_libraries(filter: &str) -> Vec<String> {
    let names = filter.split(',').filter_map(|part| Some(part.split_once(['=', '['])?.0.trim()));
    names.filter_map(|name| name.split("::").next()).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Whether an event may be logged at all: those of libraries only if the filter names them. At `debug` and `trace`, they
/// log whole requests and responses, with tokens and keys that nobody knows yet. h2 logs only the kinds and the lengths
/// of frames.
fn shows(named: &[String], event: &Metadata<'_>) -> bool {
    let library = event.target().split("::").next().unwrap_or_default();
    let shows_no_secret = library == "h2" || *event.level() <= Level::INFO;
    library == "headcount" || (shows_no_secret && named.iter().any(|name| name == library))
}

/// Whether a part of a filter is a bare word that is no level. The library takes it for the name of a module, and logs
/// nothing else.
fn is_no_level(part: &str) -> bool {
    const WORDS: [&str; 7] = ["error", "warn", "info", "debug", "trace", "off", "headcount"];
    let is_word = !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric());
    is_word && part.parse::<u8>().is_err() && !WORDS.iter().any(|word| part.eq_ignore_ascii_case(word))
}

/// Waits until all lines are written, but not for long: stderr may be blocked.
pub(super) fn flush() {
    let Some(Queue { counts, .. }) = QUEUE.get() else { return };
    let until = Instant::now() + FLUSH_LIMIT;
    while counts.waiting.load(Ordering::Acquire) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_logged_only_where_the_filter_names_it() {
        assert_eq!(named_libraries("debug"), Vec::<String>::new());
        assert_eq!(named_libraries("info, h2=trace,aws_config::profile=warn,headcount"), ["h2", "aws_config"]);
        assert_eq!(named_libraries("hyper[connection]=debug,=debug"), ["hyper"]);
    }
}
