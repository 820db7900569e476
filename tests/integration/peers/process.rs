//! A command that runs to its end, and the memory that it needs.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use super::headcount::PATIENCE;

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// What it printed on both outputs, with one space in place of any white space: tables wrap.
    pub(crate) output: String,
    /// The most memory it had, in MiB.
    pub(crate) peak_mib: u64,
}

impl Finished {
    /// Runs a command.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let reading = [read(process.stdout.take().expect("piped")), read(process.stderr.take().expect("piped"))];
        let (began, mut peak_kib) = (std::time::Instant::now(), 0);
        let status = loop {
            // The figure is gone with the process, so the last one counts.
            let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
            peak_kib = peak.trim().trim_end_matches(" kB").parse().unwrap_or(peak_kib);
            if let Some(status) = process.try_wait().expect("it can be waited for") {
                break status;
            }
            if began.elapsed() > PATIENCE {
                let _killed = process.kill();
                panic!("it does not end: {command:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let texts = reading.map(|reader| reader.join().expect("no panic"));
        let output = texts.iter().flat_map(|text| text.split_whitespace()).collect::<Vec<_>>().join(" ");
        Self { status, output, peak_mib: peak_kib / 1024 }
    }
}

fn read(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ended = from.read_to_string(&mut text);
        text
    })
}
