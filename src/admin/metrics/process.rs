//! The usual metrics of a process, from `/proc`. Where that cannot be read, they are left out.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{FamilySpec, samples};

static CPU: FamilySpec =
    FamilySpec::counter("process_cpu_seconds", &[], "Total user and system CPU time spent in seconds");
static RESIDENT: FamilySpec = FamilySpec::gauge("process_resident_memory_bytes", &[], "Resident memory size in bytes");
static VIRTUAL: FamilySpec = FamilySpec::gauge("process_virtual_memory_bytes", &[], "Virtual memory size in bytes");
static OPEN_FILES: FamilySpec = FamilySpec::gauge("process_open_fds", &[], "Number of open file descriptors");
static FILES_MAX: FamilySpec = FamilySpec::gauge("process_max_fds", &[], "Maximum number of open file descriptors");
static THREADS: FamilySpec = FamilySpec::gauge("process_threads", &[], "Number of threads");
static STARTED: FamilySpec =
    FamilySpec::gauge("process_start_time_seconds", &[], "Start time of the process since the Unix epoch in seconds");

/// The families of this module.
pub(super) static FAMILIES: [&FamilySpec; 7] = [&CPU, &RESIDENT, &VIRTUAL, &OPEN_FILES, &FILES_MAX, &THREADS, &STARTED];

/// Linux reports times to user space in hundredths of a second on every architecture that Headcount runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc` at each scrape.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (stat, status) = (read("/proc/self/stat"), read("/proc/self/status"));
        let fields = stat_fields(&stat);
        // Fields 14, 15 and 22 of proc(5); the first here is number 3.
        let ticks = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<f64>().ok());
        let cpu = ticks(14).zip(ticks(15)).map(|(user, system)| (user + system) / TICKS_PER_SECOND);
        let kibibytes = |name| status_value(&status, name).map(|value| value * 1024.0);
        let boot = status_value(&read("/proc/stat"), "btime");
        let values: [(&'static FamilySpec, Option<f64>); 7] = [
            (&CPU, cpu),
            (&RESIDENT, kibibytes("VmRSS:")),
            (&VIRTUAL, kibibytes("VmSize:")),
            (&OPEN_FILES, fs::read_dir("/proc/self/fd").ok().map(|files| count(files.count()))),
            (&FILES_MAX, limit(&read("/proc/self/limits"), "Max open files")),
            (&THREADS, status_value(&status, "Threads:")),
            (&STARTED, boot.zip(ticks(22)).map(|(boot, since)| boot + since / TICKS_PER_SECOND)),
        ];
        for (spec, value) in values {
            let Some(value) = value else { continue };
            samples(&mut encoder, spec, &mut String::new())?.write(&[], value)?;
        }
        Ok(())
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// The fields after the name of the program, which may contain spaces and parentheses.
fn stat_fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default()
}

fn status_value(status: &str, name: &str) -> Option<f64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn limit(limits: &str, name: &str) -> Option<f64> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(f64::INFINITY),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_after_a_program_name_with_spaces() {
        let fields = stat_fields("7 (a b) c) S 1 2");
        assert_eq!(fields, ["S", "1", "2"]);
        assert_eq!(status_value("VmSize:\t 12 kB\nVmRSS:\t 8 kB\n", "VmRSS:"), Some(8.0));
        assert_eq!(limit("Max open files            1024     4096     files\n", "Max open files"), Some(1024.0));
        assert_eq!(
            limit("Max open files            unlimited     x     files\n", "Max open files"),
            Some(f64::INFINITY)
        );
    }
}
