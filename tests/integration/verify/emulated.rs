//! The whole run through the real clients, against the emulators. What the probes wait for is skipped: the emulator's
//! time goes on at once.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use headcount::cloud::{CallMeter, GroupName, SET_ASIDE_TAG, SET_ASIDE_VALUE, VerifiableCloud};
use headcount::clouds::aws::Aws;
use headcount::clouds::azure::Azure;
use headcount::clouds::simulated::{Accounting, GroupPlan, Simulated, Sizing};
use headcount::config::{CloudSettings, Config};
use headcount::verify::{
    self, Bounds, Clock, Event, Finding, INSTANCES_MAX_DEFAULT, Outcome, Probe, Report, Setup, State, Verdict, Watch,
};

use crate::emulators::Emulator;
use crate::emulators::{arm, aws};
use crate::peers::moto::Moto;

const GROUP: &str = "quokka";
const SIZE: u32 = 1;

/// The emulator's time.
struct Skipping(Arc<Simulated>);

#[async_trait]
impl Clock for Skipping {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        self.0.skip(duration);
    }
}

/// What happened, for the message of a test that fails.
#[derive(Default)]
struct Log(Vec<String>);

impl Watch for Log {
    fn see(&mut self, event: Event<'_>) {
        self.0.push(match event {
            Event::Called(seen) => format!("{:>7.1} {} → {}", seen.at, seen.call, seen.response),
            other => format!("{other:?}"),
        });
    }
}

/// For a cloud that does everything at once.
#[derive(Default)]
struct Instantaneous(AtomicU64);

#[async_trait]
impl Clock for Instantaneous {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        self.0.fetch_add(u64::try_from(duration.as_millis()).expect("short"), Ordering::Relaxed);
    }
}

async fn connect(cloud: &str, settings: &[String]) -> Box<dyn VerifiableCloud> {
    let mut lines = vec![format!("sources:\n  - name: here\n    {cloud}:")];
    lines.extend(settings.iter().map(|line| format!("      {line}")));
    lines.push(format!("      nodeGroups: [\"0:10:{GROUP}\"]\n"));
    let config = Config::parse(&lines.join("\n"), "headcount.yaml".as_ref(), &|name| std::env::var(name).ok());
    match config.expect("a configuration").sources.remove(0).cloud {
        CloudSettings::Aws(settings) => {
            Box::new(Aws::connect(settings, CallMeter::default()).await.expect("connected"))
        }
        CloudSettings::Azure(settings) => {
            Box::new(Azure::connect(settings, CallMeter::default()).await.expect("connected"))
        }
        CloudSettings::Simulated(_) => unreachable!("an emulator"),
    }
}

/// Runs all probes, and returns the report and what happened.
async fn probe(cloud: &dyn VerifiableCloud, clock: &dyn Clock) -> (Report, String) {
    cloud.list().await.expect("listed");
    let group = GroupName(GROUP.into());
    let reading = cloud.observe_for_write(&group).await.expect("read").expect("a group");
    let plan = verify::plan(&reading, Bounds { instances_max: INSTANCES_MAX_DEFAULT }).expect("eligible");
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup {
        cloud,
        clock,
        reading,
        found: plan.found,
        is_continued: false,
        instances_max: plan.instances_max,
        declared: None,
        state: State::at(folder.path().join("state")),
    };
    let mut log = Log::default();
    let Outcome { report, left } = verify::run(setup, &mut log, std::future::pending()).await;
    let text = log.0.join("\n");
    assert_eq!(left, None, "{text}");
    (report, text)
}

/// Runs all probes. The emulator does as assumed, and its group has its size again at the end.
async fn run(emulator: &impl Emulator) -> Report {
    let cloud = connect(emulator.cloud(), &emulator.settings()).await;
    let (report, text) = probe(&*cloud, &Skipping(Arc::clone(emulator.simulated()))).await;
    let sizes = emulator.simulated().world(|world, _| {
        let group = world.group(GROUP).expect("the group");
        (group.capacity(), group.live())
    });
    assert_eq!(sizes, (SIZE, SIZE), "{text}");
    for finding in &report.findings {
        assert!(matches!(finding.verdict, Verdict::AsAssumed | Verdict::NotProbed), "{finding:?}\n{text}");
    }
    report
}

fn finding(report: &Report, probe: Probe) -> &Finding {
    report.findings.iter().find(|finding| finding.probe == probe).expect("one for each")
}

fn unseen(report: &Report) -> Vec<Probe> {
    let unseen = |finding: &&Finding| finding.verdict == Verdict::NotProbed && finding.probe.unprobed().is_none();
    report.findings.iter().filter(unseen).map(|finding| finding.probe).collect()
}

fn scale_set(sizing: Sizing) -> Arc<Simulated> {
    let plan = GroupPlan::azure(GROUP).sized(0, 10, SIZE).accounting(Accounting::WhenGone).sizing(sizing).set_aside();
    Arc::new(Simulated::with_groups(7, [plan]))
}

#[tokio::test]
async fn a_flexible_scale_set_shows_what_its_capacity_is_compared_with() {
    for (sizing, compared) in [(Sizing::Nominal, "the one before"), (Sizing::Actual, "what lives")] {
        let emulator = arm::Arm::start(scale_set(sizing));
        emulator.group_details(GROUP, |details| details.flexible = true);
        let report = run(&emulator).await;
        assert!(report.kind.contains("flexible"), "{}", report.kind);
        let seen = |probe| finding(&report, probe).seen.as_str();
        assert!(seen(Probe::CapacityIs).contains(compared), "{sizing:?}: {}", seen(Probe::CapacityIs));
        assert!(seen(Probe::Guard).starts_with("conflict"), "{}", seen(Probe::Guard));
        assert_eq!(seen(Probe::Deletions), "the capacity fell when the instance was gone");
        assert!(seen(Probe::Writes).contains("budgets"), "{}", seen(Probe::Writes));
    }
}

#[tokio::test]
async fn a_uniform_scale_set_is_probed_but_for_what_vanishes() {
    let emulator = arm::Arm::start(scale_set(Sizing::Actual));
    let report = run(&emulator).await;
    assert!(report.kind.contains("uniform"), "{}", report.kind);
    let mut expected = vec![Probe::Missing, Probe::CapacityIs, Probe::GrowsBy, Probe::LaunchBegins];
    expected.extend([Probe::TimeToScaleIn, Probe::ScaleInProtection]);
    assert_eq!(unseen(&report), expected);
}

/// Runs a test of this file in a process of its own: the SDK finds its credentials in the environment, which a test
/// cannot change for itself.
fn with_credentials(test: &str) {
    let run = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", &format!("verify::emulated::{test}"), "--ignored"])
        .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn an_auto_scaling_group_is_probed_in_a_process_with_credentials() {
    with_credentials("an_auto_scaling_group_is_probed");
}

#[test]
fn moto_is_probed_in_a_process_with_credentials() {
    with_credentials("moto_terminates_at_once_and_else_does_as_assumed");
}

#[tokio::test]
#[ignore = "another test runs it with credentials"]
async fn an_auto_scaling_group_is_probed() {
    let mut plan = GroupPlan::aws(GROUP).sized(0, 10, SIZE).set_aside();
    plan.zones.truncate(1);
    let report = run(&aws::Aws::start(Arc::new(Simulated::with_groups(7, [plan])))).await;
    assert_eq!(unseen(&report), [Probe::ScaleInProtection, Probe::OperationAddresses]);
    let seen = |probe| finding(&report, probe).seen.as_str();
    assert_eq!(seen(Probe::NamedTwice), "accepted again; the capacity fell by 2 in all");
    assert!(seen(Probe::Missing).starts_with("replaced"), "{}", seen(Probe::Missing));
    assert!(seen(Probe::GrowsBy).contains("the repeat returned the same"), "{}", seen(Probe::GrowsBy));
}

#[tokio::test]
#[ignore = "another test runs it with credentials"]
async fn moto_terminates_at_once_and_else_does_as_assumed() {
    let Some(moto) = Moto::start().await else { return };
    moto.group(GROUP, "m5.large", (0, 10, 1), &[(SET_ASIDE_TAG, SET_ASIDE_VALUE)]).await;
    let settings = ["region: us-east-1".to_owned(), format!("endpoint: {}", moto.url())];
    let cloud = connect("aws", &settings).await;
    let (report, text) = probe(&*cloud, &Instantaneous::default()).await;
    assert_eq!(moto.view(GROUP).await.0, 1, "{text}");
    let with = |verdict: Verdict| {
        let found = report.findings.iter().filter(move |finding| finding.verdict == verdict);
        found.map(|finding| finding.probe).collect::<Vec<_>>()
    };
    assert_eq!(with(Verdict::Broken), [Probe::TimeToScaleIn], "{:?}\n{text}", report.findings);
    assert_eq!(with(Verdict::Stricter), [], "{:?}\n{text}", report.findings);
}
