//! The whole run through the real clients, against the emulators. What the probes wait for is skipped: the emulator's
//! time goes on at once.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use headcount::cloud::{CallMeter, ResponseLog, SET_ASIDE_TAG, SET_ASIDE_VALUE, VerifiableCloud};
use headcount::clouds::aws::Aws;
use headcount::clouds::azure::Azure;
use headcount::clouds::simulated::{Accounting, GroupPlan, Simulated, Sizing};
use headcount::config::{CloudSettings, Config};
use headcount::verify::{Clock, Finding, HttpEvidence, Probe, Report, Verdict};

use super::probing::{finding, probe};
use super::reports;
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

async fn connect(cloud: &str, settings: &[String]) -> (Box<dyn VerifiableCloud>, ResponseLog) {
    let mut lines = vec![format!("sources:\n  - name: here\n    {cloud}:")];
    lines.extend(settings.iter().map(|line| format!("      {line}")));
    lines.push(format!("      nodeGroups: [\"0:10:{GROUP}\"]\n"));
    let config = Config::parse(&lines.join("\n"), "headcount.yaml".as_ref(), &|name| std::env::var(name).ok());
    let responses = ResponseLog::default();
    let meter = CallMeter::default().logging(responses.clone());
    let cloud: Box<dyn VerifiableCloud> = match config.expect("a configuration").sources.remove(0).cloud {
        CloudSettings::Aws(settings) => Box::new(Aws::connect(settings, meter).await.expect("connected")),
        CloudSettings::Azure(settings) => Box::new(Azure::connect(settings, meter).await.expect("connected")),
        CloudSettings::Simulated(_) => unreachable!("an emulator"),
    };
    (cloud, responses)
}

/// A new user waits no longer for all of it.
const MINUTES_MAX: f64 = 10.0;

/// Runs all probes. The emulator does as assumed, and its group has its size again at the end. The report of this
/// name is up to date.
async fn run(emulator: &impl Emulator, name: &str) -> Report {
    let (cloud, responses) = connect(emulator.cloud(), &emulator.settings()).await;
    let (report, text) = probe(&*cloud, responses, &Skipping(Arc::clone(emulator.simulated())), GROUP).await;
    reports::keep_verdicts(name, &report);
    let seconds: f64 = report.steps.iter().map(|step| step.seconds).sum();
    println!("{name}: {seconds:.0} s of the emulator's time");
    assert!(seconds < MINUTES_MAX * 60.0, "{seconds} s\n{text}");
    has_raw_evidence(&report);
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

/// Each call has what HTTP said of its responses: statuses, times, and the forms of the IDs of requests.
fn has_raw_evidence(report: &Report) {
    let http: Vec<&HttpEvidence> = report.evidence.iter().flat_map(|seen| &seen.http).collect();
    let has = |name: &str| http.iter().any(|response| response.headers.contains_key(name));
    assert!(http.iter().any(|response| response.status == 200) && has("date"), "{http:?}");
    let ids = http.iter().flat_map(|response| &response.headers).filter(|(name, _)| name.ends_with("requestid"));
    assert!(ids.clone().all(|(_, shape)| shape.chars().all(|one| "x-".contains(one))), "{http:?}");
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
    for (sizing, compared, name) in [
        (Sizing::Nominal, "the one before", "emulated-flexible-scale-set-nominal.yaml"),
        (Sizing::Actual, "what lives", "emulated-flexible-scale-set-actual.yaml"),
    ] {
        let emulator = arm::Arm::start(scale_set(sizing));
        emulator.group_details(GROUP, |details| details.flexible = true);
        let report = run(&emulator, name).await;
        assert!(report.kind.contains("flexible"), "{}", report.kind);
        let seen = |probe| finding(&report, probe).seen.as_str();
        assert!(seen(Probe::CapacityIs).contains(compared), "{sizing:?}: {}", seen(Probe::CapacityIs));
        assert!(seen(Probe::Guard).starts_with("conflict"), "{}", seen(Probe::Guard));
        assert_eq!(seen(Probe::Deletions), "the capacity fell when the instance was gone");
        assert!(seen(Probe::Writes).contains("budgets"), "{}", seen(Probe::Writes));
        let http = report.evidence.iter().flat_map(|seen| &seen.http);
        let refused = http.clone().find(|response| response.status == 412).expect("a precondition that failed");
        assert!(refused.headers.contains_key("date"), "{refused:?}");
        let has = |part: &str| http.clone().any(|response| response.headers.keys().any(|name| name.starts_with(part)));
        assert!(has("x-ms-ratelimit-remaining") && has("etag") && has("azure-asyncoperation"));
        let texts: Vec<&String> = report.evidence.iter().flat_map(|seen| &seen.texts).collect();
        assert!(texts.iter().any(|text| text.contains("if-match header")), "{texts:?}");
    }
}

#[tokio::test]
async fn a_uniform_scale_set_is_probed_but_for_what_vanishes() {
    let emulator = arm::Arm::start(scale_set(Sizing::Actual));
    let report = run(&emulator, "emulated-uniform-scale-set.yaml").await;
    assert!(report.kind.contains("uniform"), "{}", report.kind);
    let mut expected = vec![Probe::Missing, Probe::CapacityIs, Probe::GrowsBy, Probe::LaunchBegins];
    expected.extend([Probe::TimeToScaleIn, Probe::ScaleInProtection, Probe::FailedAllocation]);
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
    let emulator = aws::Aws::start(Arc::new(Simulated::with_groups(7, [plan])));
    let report = run(&emulator, "emulated-auto-scaling.yaml").await;
    assert_eq!(unseen(&report), [Probe::ScaleInProtection, Probe::OperationAddresses, Probe::FailedAllocation]);
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
    let (cloud, responses) = connect("aws", &settings).await;
    let (report, text) = probe(&*cloud, responses, &Instantaneous::default(), GROUP).await;
    reports::keep_verdicts("moto-auto-scaling.yaml", &report);
    has_raw_evidence(&report);
    assert_eq!(moto.view(GROUP).await.0, 1, "{text}");
    let with = |verdict: Verdict| {
        let found = report.findings.iter().filter(move |finding| finding.verdict == verdict);
        found.map(|finding| finding.probe).collect::<Vec<_>>()
    };
    assert_eq!(with(Verdict::Broken), [Probe::TimeToScaleIn], "{:?}\n{text}", report.findings);
    assert_eq!(with(Verdict::Stricter), [], "{:?}\n{text}", report.findings);
}
