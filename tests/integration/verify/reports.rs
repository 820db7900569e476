//! tests/reports/: what clouds were seen to do. The probes run in a simulated cloud that does what a report shows, and
//! find the same again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headcount::cloud::{OWN_ENDPOINT, ResponseLog};
use headcount::clouds::simulated::{
    Accounting, GroupPlan, LaunchOutcome, Pick, PlannedFailure, Raise, Simulated, Sizing, seconds,
};
use headcount::verify::{Probe, Report, TokioClock};

use super::probing::probe;

const GROUP: &str = "quokka";
const REWRITE: &str = "HEADCOUNT_WRITE_DOCS=1 cargo test --test integration verify";
/// How the names of reports begin that are of no real cloud.
const IMITATIONS: [&str; 3] = ["simulated-", "emulated-", "moto-"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports")
}

/// All reports, by the names of their files.
pub(crate) fn all() -> Vec<(String, Report)> {
    let entries = fs::read_dir(folder()).expect("tests/reports").map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let report = Report::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, report)
    };
    let mut reports: Vec<_> = entries.map(read).collect();
    reports.sort_by(|(one, _), (other, _)| one.cmp(other));
    reports
}

/// Whether a report is of a real cloud.
pub(super) fn is_real(name: &str) -> bool {
    !IMITATIONS.iter().any(|imitation| name.starts_with(imitation))
}

/// Fails unless the report of this name is what `is_same` says; with HEADCOUNT_WRITE_DOCS set, writes it instead.
fn keep(name: &str, report: &Report, is_same: impl Fn(&Report) -> bool) {
    let path = folder().join(name);
    if Report::read(&path).is_ok_and(|written| is_same(&written)) {
        return;
    }
    let may_write = std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some();
    assert!(may_write, "tests/reports/{name} is out of date; {REWRITE} rewrites it");
    fs::create_dir_all(folder()).expect("the folder");
    report.write(&path).expect("written");
}

/// The report of an emulator is up to date if each verdict is the same. Times and evidence differ each time.
pub(super) fn keep_verdicts(name: &str, report: &Report) {
    let report = Report { headcount: "any".to_owned(), ..report.clone() };
    keep(name, &report, |written| Probe::ALL.into_iter().all(|probe| written.verdict(probe) == report.verdict(probe)));
}

/// The kinds of the simulated cloud, by the names of their files.
fn kinds() -> Vec<(&'static str, GroupPlan)> {
    let aws = || GroupPlan::aws(GROUP).sized(0, 10, 1).set_aside();
    let azure =
        |accounting, sizing| GroupPlan::azure(GROUP).sized(0, 10, 1).accounting(accounting).sizing(sizing).set_aside();
    let mut protected = aws();
    protected.is_protected = true;
    let mut by_call = aws().launch_calls(seconds(1, 1), Raise::After(Duration::from_secs(2)));
    by_call.zones.truncate(1);
    let failure = PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "There is none.");
    let failing = LaunchOutcome::fails(failure, seconds(9, 9));
    vec![
        ("simulated-auto-scaling.yaml", aws()),
        ("simulated-auto-scaling-protected.yaml", protected),
        ("simulated-auto-scaling-one-zone.yaml", by_call),
        ("simulated-auto-scaling-without-capacity.yaml", aws().launches(Pick::Always, failing)),
        ("simulated-scale-set-nominal.yaml", azure(Accounting::WhenGone, Sizing::Nominal)),
        ("simulated-scale-set-nominal-on-accept.yaml", azure(Accounting::OnAccept, Sizing::Nominal)),
        ("simulated-scale-set-actual.yaml", azure(Accounting::WhenGone, Sizing::Actual)),
        ("simulated-scale-set-actual-on-accept.yaml", azure(Accounting::OnAccept, Sizing::Actual)),
    ]
}

async fn probe_simulated(simulated: Simulated, group: &str) -> (Report, String) {
    probe(&simulated, ResponseLog::default(), &TokioClock::default(), group).await
}

/// The reports of the simulated cloud are up to date. They have no evidence, which the same command shows again.
#[tokio::test(start_paused = true)]
async fn each_kind_of_simulated_group_has_its_report() {
    for (name, plan) in kinds() {
        let simulated = Simulated::with_groups(7, [plan]);
        simulated.faults(|faults| {
            faults.rates.latency = Duration::from_millis(40)..=Duration::from_millis(60);
        });
        let (report, _) = probe_simulated(simulated, GROUP).await;
        // A new version alone makes no report old.
        let report = Report { headcount: "any".to_owned(), evidence: Vec::new(), ..report };
        keep(name, &report, |written| *written == report);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_made_from_a_report_shows_the_same() {
    let reports = all();
    assert!(reports.len() >= kinds().len(), "only {} reports", reports.len());
    for (name, report) in reports {
        let simulated = Simulated::as_seen(7, report.size, report.assumed, &report.behavior);
        let (again, text) = probe_simulated(simulated, Simulated::AS_SEEN).await;
        assert_eq!(report.differences(&again), [], "{name}\n{text}");
        let (seen, found) = (&report.behavior, &again.behavior);
        let is_other = [
            seen.falls.is_some() && seen.falls != found.falls,
            seen.capacity_is.is_some() && seen.capacity_is != found.capacity_is,
            seen.raises.is_some() && seen.raises != found.raises,
            seen.is_protected.is_some() && seen.is_protected != found.is_protected,
            seen.launch_failure != found.launch_failure,
        ];
        assert_eq!(is_other, [false; 5], "{name}: {seen:?} {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_made_from_figures_shows_them() {
    let (_, report) = all().into_iter().find(|(name, _)| name == "simulated-auto-scaling.yaml").expect("a report");
    let mut seen = report.behavior.clone();
    (seen.read_lag, seen.launch_begins_after, seen.scale_in_after) = (Some(8.0), Some(12.0), Some(40.0));
    let simulated = Simulated::as_seen(7, report.size, report.assumed, &seen);
    let (again, text) = probe_simulated(simulated, Simulated::AS_SEEN).await;
    let is_near =
        |found: Option<f64>, asked: f64| found.is_some_and(|found| (asked - 2.0..asked + 12.0).contains(&found));
    assert!(is_near(again.behavior.read_lag, 8.0), "{:?}\n{text}", again.behavior);
    assert!(is_near(again.behavior.launch_begins_after, 12.0), "{:?}\n{text}", again.behavior);
    assert!(is_near(again.behavior.scale_in_after, 40.0), "{:?}\n{text}", again.behavior);
}

#[test]
fn a_report_of_an_imitation_has_a_name_that_says_so() {
    for (name, report) in all() {
        let is_imitation = report.kind.contains("simulated") || report.kind.ends_with(OWN_ENDPOINT);
        assert_eq!(is_imitation, !is_real(&name), "{name}: {}", report.kind);
    }
}

#[test]
fn the_first_screen_of_the_readme_says_that_no_real_cloud_was_seen_until_one_was() {
    let readme = include_str!("../../../README.md");
    let first: String = readme.lines().take(15).collect::<Vec<_>>().join(" ");
    let is_said = first.contains("never run against a real cloud account yet");
    assert_eq!(is_said, !all().iter().any(|(name, _)| is_real(name)), "{first}");
}

#[test]
fn no_report_names_anyone() {
    for (name, _) in all() {
        let text = fs::read_to_string(folder().join(&name)).expect("a report");
        for secret in [GROUP, "i-0", "arn:", "/subscriptions/", "123456789012", "http://", "127.0.0.1"] {
            assert!(!text.contains(secret), "{name}: {secret}");
        }
    }
}
