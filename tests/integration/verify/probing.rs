//! One run of all probes, in this process.

use headcount::cloud::{GroupName, ResponseLog, VerifiableCloud};
use headcount::verify::{
    self, Bounds, Clock, Event, Finding, INSTANCES_MAX_DEFAULT, Outcome, Probe, Report, Setup, State, Watch,
};

/// What happened, for the message of a test that fails.
#[derive(Default)]
struct Log(Vec<String>);

impl Watch for Log {
    fn happened(&mut self, event: Event<'_>) {
        self.0.push(match event {
            Event::Called(seen) => format!("{:>7.1} {} → {}", seen.at, seen.call, seen.response),
            other => format!("{other:?}"),
        });
    }
}

/// Runs all probes on this group, and returns the report and what happened. The size is restored.
pub(super) async fn probe(
    cloud: &dyn VerifiableCloud,
    responses: ResponseLog,
    clock: &dyn Clock,
    group: &str,
) -> (Report, String) {
    cloud.list().await.expect("listed");
    let reading = cloud.observe_for_write(&GroupName(group.into())).await.expect("read").expect("a group");
    let plan = verify::plan(&reading, Bounds { instances_max: INSTANCES_MAX_DEFAULT }).expect("eligible");
    let folder = tempfile::tempdir().expect("a folder");
    let setup = Setup {
        cloud,
        responses,
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

pub(super) fn finding(report: &Report, probe: Probe) -> &Finding {
    report.findings.iter().find(|finding| finding.probe == probe).expect("one for each")
}
