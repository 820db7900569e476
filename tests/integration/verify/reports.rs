//! tests/reports/: what clouds were seen to do. The probes run in a simulated cloud that behaves as a report shows, and
//! find the same again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::{Cloud as _, GroupName};
use headcount::clouds::simulated::{Accounting, GroupPlan, Raise, Simulated, Sizing, seconds};
use headcount::verify::{
    self, Bounds, Event, INSTANCES_MAX_DEFAULT, Outcome, Probe, Report, Setup, State, TokioClock, Verdict, Watch,
};

const GROUP: &str = "quokka";

struct Silent;

impl Watch for Silent {
    fn see(&mut self, _: Event<'_>) {}
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports")
}

fn seen(report: &Report, probe: Probe) -> (Verdict, &str) {
    let finding = report.findings.iter().find(|finding| finding.probe == probe).expect("one for each");
    (finding.verdict, &finding.seen)
}

/// A simulated group that does what a report shows.
fn world_of(report: &Report) -> GroupPlan {
    let size = report.size;
    let is_scale_set = report.kind.contains("scale set");
    let plan = if is_scale_set { GroupPlan::azure(GROUP) } else { GroupPlan::aws(GROUP) };
    let mut plan = plan.sized(0, 10, size).set_aside();
    let falls_later = seen(report, Probe::Deletions).1.ends_with("gone");
    plan.accounting = if falls_later { Accounting::WhenGone } else { Accounting::OnAccept };
    let is_nominal = seen(report, Probe::CapacityIs).1.contains("the one before");
    plan.sizing = if is_nominal { Sizing::Nominal } else { Sizing::Actual };
    plan.is_protected = seen(report, Probe::ScaleInProtection).0 == Verdict::AsAssumed;
    if let Some(lag) = seen(report, Probe::TimeToScaleIn).1.strip_suffix(" s").and_then(|text| text.parse().ok()) {
        let lag = Duration::from_secs_f64(lag);
        plan.scale_in_lag = lag..=lag;
    }
    let (launches, how) = seen(report, Probe::GrowsBy);
    if launches != Verdict::NotProbed {
        plan.zones.truncate(1);
        let after = Raise::After(Duration::from_secs(2));
        let raise = if how.starts_with("the capacity rose before") { Raise::BeforeResponse } else { after };
        plan = plan.launch_calls(seconds(1, 1), raise);
    }
    plan
}

async fn probe(plan: GroupPlan) -> Report {
    let simulated = Arc::new(Simulated::with_groups(7, [plan]));
    simulated.faults(|faults| {
        faults.rates.latency = Duration::from_millis(40)..=Duration::from_millis(60);
    });
    let reading = simulated.observe(&GroupName(GROUP.into())).await.expect("read").expect("a group");
    let plan = verify::plan(&reading, Bounds { instances_max: INSTANCES_MAX_DEFAULT }).expect("eligible");
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup {
        cloud: &*simulated,
        clock: &TokioClock::default(),
        reading,
        found: plan.found,
        is_continued: false,
        instances_max: plan.instances_max,
        declared: None,
        state: State::at(folder.path().join("state")),
    };
    let Outcome { report, left } = verify::run(setup, &mut Silent, std::future::pending()).await;
    assert_eq!(left, None);
    report
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
    vec![
        ("simulated-auto-scaling.yaml", aws()),
        ("simulated-auto-scaling-protected.yaml", protected),
        ("simulated-auto-scaling-one-zone.yaml", by_call),
        ("simulated-scale-set-nominal.yaml", azure(Accounting::WhenGone, Sizing::Nominal)),
        ("simulated-scale-set-nominal-on-accept.yaml", azure(Accounting::OnAccept, Sizing::Nominal)),
        ("simulated-scale-set-actual.yaml", azure(Accounting::WhenGone, Sizing::Actual)),
        ("simulated-scale-set-actual-on-accept.yaml", azure(Accounting::OnAccept, Sizing::Actual)),
    ]
}

/// The reports of the simulated cloud are up to date. They have no evidence, which the same command shows again.
#[tokio::test(start_paused = true)]
async fn each_kind_of_simulated_group_has_its_report() {
    for (name, plan) in kinds() {
        // A new version alone makes no report old.
        let headcount = "any".to_owned();
        let report = Report { headcount, evidence: Vec::new(), ..probe(plan).await };
        let path = folder().join(name);
        let written = fs::read_to_string(&path).ok().and_then(|text| serde_saphyr::from_str::<Report>(&text).ok());
        if written.as_ref() == Some(&report) {
            continue;
        }
        let command = "HEADCOUNT_WRITE_DOCS=1 cargo test --test integration verify::reports";
        let may_write = std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some();
        assert!(may_write, "tests/reports/{name} is out of date; {command} rewrites it");
        fs::create_dir_all(folder()).expect("the folder");
        fs::write(&path, serde_saphyr::to_string(&report).expect("YAML")).expect("written");
    }
}

#[tokio::test(start_paused = true)]
async fn a_world_that_is_made_from_a_report_shows_the_same() {
    let mut reports = 0;
    for entry in fs::read_dir(folder()).expect("tests/reports") {
        let path = entry.expect("an entry").path();
        let Ok(report) = serde_saphyr::from_str::<Report>(&fs::read_to_string(&path).expect("a report")) else {
            panic!("{} is no report", path.display());
        };
        let again = probe(world_of(&report)).await;
        for probe in Probe::ALL {
            assert_eq!(seen(&again, probe).0, seen(&report, probe).0, "{}: {}", path.display(), probe.name());
        }
        for probe in [Probe::Deletions, Probe::CapacityIs, Probe::NamedTwice, Probe::GrowsBy, Probe::Guard] {
            assert_eq!(seen(&again, probe).1, seen(&report, probe).1, "{}: {}", path.display(), probe.name());
        }
        reports += 1;
    }
    assert!(reports >= kinds().len(), "only {reports} reports");
}
