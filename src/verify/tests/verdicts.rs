//! What the probes find.

use std::sync::atomic::Ordering;

use super::odd::{Odd, Oddity};
use super::*;
use crate::cloud::Permit;
use crate::clouds::simulated::{
    CallFault, CallKind, DeleteOutcome, LaunchOutcome, Pick, PlannedFailure, Raise, seconds,
};

/// A run over a cloud that does as assumed.
async fn as_assumed(plan: GroupPlan, declared: Option<CapacityIs>) -> Outcome {
    let bench = Bench { declared, ..Bench::of(plan) };
    let mut witness = Witness::default();
    let outcome = bench.run(&*bench.simulated, &mut witness).await;
    bench.assert_restored(&outcome, &witness);
    let log = witness.lines.join("\n");
    for finding in &outcome.report.findings {
        let is_expected = matches!(finding.verdict, Verdict::AsAssumed | Verdict::NotProbed);
        assert!(is_expected, "{finding:?}\n{log}");
    }
    outcome
}

/// What is not probed although it could be, and why.
fn unseen(report: &Report) -> Vec<Probe> {
    let unseen = |finding: &&Finding| finding.verdict == Verdict::NotProbed && finding.probe.unprobed().is_none();
    report.findings.iter().filter(unseen).map(|finding| finding.probe).collect()
}

#[tokio::test(start_paused = true)]
async fn an_auto_scaling_group_does_as_assumed() {
    let Outcome { report, .. } = as_assumed(aws(), None).await;
    let unprobed = [Probe::GrowsBy, Probe::ScaleInProtection, Probe::OperationAddresses, Probe::FailedAllocation];
    assert_eq!(unseen(&report), unprobed);
    let seen = |probe| finding(&report, probe).seen.as_str();
    assert_eq!(seen(Probe::NamedTwice), "gone already; the capacity fell by 2 in all");
    assert_eq!(seen(Probe::Deletions), "the capacity fell when the deletion was accepted");
    assert_eq!(seen(Probe::CapacityIs), "one instance beyond the capacity: 1 terminated");
    assert!(seen(Probe::Missing).starts_with("replaced after "), "{}", seen(Probe::Missing));
}

const RAISES: [(Raise, &str); 2] = [
    (Raise::BeforeResponse, "the capacity rose before the response"),
    (Raise::After(Duration::from_secs(2)), "the capacity rose after the response"),
];

fn in_one_zone(raise: Raise) -> GroupPlan {
    let mut plan = aws().launch_calls(seconds(2, 3), raise);
    plan.zones.truncate(1);
    plan
}

#[tokio::test(start_paused = true)]
async fn a_launch_by_a_call_raises_the_capacity_before_or_after_its_response() {
    for (raise, when) in RAISES {
        let Outcome { report, .. } = as_assumed(in_one_zone(raise), None).await;
        let found = finding(&report, Probe::GrowsBy);
        assert_eq!(found.verdict, Verdict::AsAssumed, "{found:?}");
        assert!(found.seen.starts_with(when), "{raise:?}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn protected_instances_are_kept_by_an_auto_scaling_group() {
    let mut plan = aws();
    plan.is_protected = true;
    let Outcome { report, .. } = as_assumed(plan, None).await;
    assert_eq!(finding(&report, Probe::ScaleInProtection).verdict, Verdict::AsAssumed);
    assert_eq!(finding(&report, Probe::TimeToScaleIn).verdict, Verdict::NotProbed);
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_scale_set_shows_what_it_is() {
    for (accounting, falls) in [(Accounting::OnAccept, "was accepted"), (Accounting::WhenGone, "was gone")] {
        for (sizing, compared) in [(Sizing::Nominal, "the one before"), (Sizing::Actual, "what lives")] {
            let Outcome { report, .. } = as_assumed(azure(accounting, sizing), None).await;
            let mut elsewhere = vec![Probe::GrowsBy, Probe::LaunchBegins, Probe::TimeToScaleIn];
            elsewhere.extend([Probe::ScaleInProtection, Probe::FailedAllocation]);
            assert_eq!(unseen(&report), elsewhere);
            let seen = |probe| finding(&report, probe).seen.as_str();
            assert!(seen(Probe::Deletions).ends_with(falls), "{accounting:?}: {}", seen(Probe::Deletions));
            assert!(seen(Probe::CapacityIs).contains(compared), "{sizing:?}: {}", seen(Probe::CapacityIs));
            assert_eq!(seen(Probe::Guard), "conflict (PreconditionFailed)");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_declared_capacity_is_compared_with_what_is_seen() {
    as_assumed(azure(Accounting::WhenGone, Sizing::Actual), Some(CapacityIs::Actual)).await;
    let bench = Bench { declared: Some(CapacityIs::Actual), ..Bench::of(scale_set()) };
    let outcome = bench.run(&*bench.simulated, &mut Witness::default()).await;
    let finding = finding(&outcome.report, Probe::CapacityIs);
    assert_eq!(finding.verdict, Verdict::Broken);
    assert_eq!(finding.laws_at_risk.as_deref(), Some("1"));
    assert!(finding.safe_meanwhile.as_deref().is_some_and(|setting| setting.contains("capacityIs")), "{finding:?}");
}

/// A run over a cloud that does one thing otherwise. `react` gets each line of what happens.
async fn odd(
    plan: GroupPlan,
    oddity: Oddity,
    react: impl Fn(&Odd, &str) + Send + Sync + 'static,
) -> (Outcome, Bench, Witness) {
    let bench = Bench::of(plan);
    let cloud = Arc::new(Odd::new(&bench.simulated, oddity));
    let reacting = Arc::clone(&cloud);
    let react: React = Box::new(move |line| react(&reacting, line));
    let mut witness = Witness { react: Some(react), ..Witness::default() };
    let outcome = bench.run(&*cloud, &mut witness).await;
    (outcome, bench, witness)
}

/// It is broken, and the finding says what is at risk and what to do; the group has its size again.
async fn breaks(plan: GroupPlan, oddity: Oddity, probe: Probe, react: impl Fn(&Odd, &str) + Send + Sync + 'static) {
    let (outcome, bench, witness) = odd(plan, oddity, react).await;
    let log = witness.lines.join("\n");
    let found = finding(&outcome.report, probe);
    assert_eq!(found.verdict, Verdict::Broken, "{oddity:?}: {found:?}\n{log}");
    assert!(found.laws_at_risk.is_some() && found.safe_meanwhile.is_some(), "{found:?}");
    bench.assert_restored(&outcome, &witness);
}

fn nothing(_: &Odd, _: &str) {}

#[tokio::test(start_paused = true)]
async fn a_precondition_that_is_not_checked_is_broken() {
    breaks(scale_set(), Oddity::IgnoresEtags, Probe::Guard, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn an_etag_that_does_not_change_or_is_missing_is_broken() {
    breaks(scale_set(), Oddity::SameEtag, Probe::Etag, nothing).await;
    breaks(scale_set(), Oddity::NoEtags, Probe::Etag, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn reads_that_lag_too_far_are_broken() {
    for plan in [aws(), scale_set()] {
        breaks(plan, Oddity::Nothing, Probe::ReadLags, |odd, line| {
            odd.cloud.faults(|faults| {
                if line == "stage: one instance more" {
                    faults.read_lags.insert(GROUP.to_owned(), Duration::from_secs(40));
                } else if line.starts_with("stage: ") {
                    faults.read_lags.clear();
                }
            });
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_begins_late_is_broken() {
    let mut plan = aws();
    plan.acts_after = seconds(9, 10);
    breaks(plan, Oddity::Nothing, Probe::LaunchBegins, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_contradicts_itself_is_broken() {
    let (outcome, ..) = odd(aws(), Oddity::OldInstances, nothing).await;
    assert_eq!(finding(&outcome.report, Probe::Reads).verdict, Verdict::Broken, "{:?}", outcome.report.findings);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_leaves_the_capacity_or_the_instance_is_broken() {
    let (outcome, ..) = odd(aws(), Oddity::KeepsCapacity, nothing).await;
    assert_eq!(finding(&outcome.report, Probe::Deletions).verdict, Verdict::Broken, "{:?}", outcome.report.findings);
    assert_eq!(finding(&outcome.report, Probe::WhileLaunching).verdict, Verdict::Broken);
    let fails = |odd: &Odd, line: &str| {
        if line == "stage: a deletion" {
            let failure = DeleteOutcome::FailsLater(PlannedFailure::other("Stuck", "It does not end."));
            odd.cloud.replan(GROUP, |plan| plan.deletions_now(Pick::First(1), failure)).expect("the group");
        }
    };
    breaks(aws(), Oddity::Nothing, Probe::Deletions, fails).await;
    // A scale set's deletions may fail.
    let (outcome, bench, witness) = odd(scale_set(), Oddity::Nothing, fails).await;
    assert_eq!(finding(&outcome.report, Probe::Deletions).verdict, Verdict::AsAssumed, "{}", witness.lines.join("\n"));
    bench.assert_restored(&outcome, &witness);
}

#[tokio::test(start_paused = true)]
async fn an_instance_being_created_that_cannot_be_deleted_is_broken() {
    for plan in [aws(), scale_set()] {
        breaks(plan, Oddity::KeepsCreating, Probe::WhileLaunching, nothing).await;
    }
}

#[tokio::test(start_paused = true)]
async fn naming_an_instance_twice_costs_what_is_assumed_or_less() {
    breaks(scale_set(), Oddity::LowersTwice, Probe::NamedTwice, nothing).await;
    let (outcome, bench, witness) = odd(aws(), Oddity::LowersOnce, nothing).await;
    assert_eq!(finding(&outcome.report, Probe::NamedTwice).verdict, Verdict::Stricter);
    bench.assert_restored(&outcome, &witness);
}

#[tokio::test(start_paused = true)]
async fn a_missing_instance_that_is_treated_otherwise_is_broken() {
    let is_vanishing = |line: &str| line.contains("without telling");
    breaks(aws(), Oddity::Nothing, Probe::Missing, move |odd, line| {
        if is_vanishing(line) {
            let reason = "suspended".to_owned();
            odd.cloud.replan(GROUP, |plan| plan.growth = Permit::Withheld(reason)).expect("the group");
        } else if line.starts_with("stage: ") {
            odd.cloud.replan(GROUP, |plan| plan.growth = Permit::Granted).expect("the group");
        }
    })
    .await;
    breaks(scale_set(), Oddity::Nothing, Probe::Missing, move |odd, line| {
        if is_vanishing(line) {
            odd.cloud.add_instances(GROUP, 1).expect("the group");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lower_capacity_that_terminates_more_sooner_or_the_protected_is_broken() {
    breaks(aws(), Oddity::TerminatesMore, Probe::CapacityIs, nothing).await;
    breaks(aws(), Oddity::FalseProtection, Probe::ScaleInProtection, nothing).await;
    let mut plan = aws();
    plan.scale_in_lag = seconds(1, 2);
    breaks(plan, Oddity::Nothing, Probe::TimeToScaleIn, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_launched_twice_is_broken() {
    breaks(in_one_zone(RAISES[0].0), Oddity::LaunchesTwice, Probe::GrowsBy, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_throttled_are_broken_and_sent_again() {
    for plan in [aws(), scale_set()] {
        breaks(plan, Oddity::Nothing, Probe::Writes, |odd, line| {
            if line == "stage: a deletion during a launch" {
                let throttled = CallFault::Throttled { retry_after: Some(Duration::from_secs(20)) };
                odd.cloud.faults(|faults| faults.script(Some(CallKind::SetCapacity), Some(GROUP), 2, throttled));
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_is_forgotten_is_broken() {
    breaks(scale_set(), Oddity::ForgetsOperations, Probe::OperationAddresses, nothing).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_without_a_response_is_late_or_not() {
    let arm = |odd: &Odd, line: &str| {
        if line.starts_with("stage: a write without") {
            odd.is_armed.store(true, Ordering::Relaxed);
        }
    };
    for plan in [aws(), scale_set()] {
        breaks(plan.clone(), Oddity::Late(Duration::from_secs(40)), Probe::Late, arm).await;
        let (outcome, bench, witness) = odd(plan, Oddity::Late(Duration::from_secs(5)), arm).await;
        let found = finding(&outcome.report, Probe::Late);
        assert_eq!(found.verdict, Verdict::AsAssumed, "{found:?}\n{}", witness.lines.join("\n"));
        assert!(found.seen.contains("after 5.") || found.seen.contains("after 6."), "{found:?}");
        bench.assert_restored(&outcome, &witness);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_gets_no_instance_is_restored_and_the_rest_is_probed() {
    // A scale set whose capacity is nominal loses its instance, too, and needs another one to have its size again.
    for (plan, failing) in [(aws(), Pick::Always), (scale_set(), Pick::First(1))] {
        let failure = PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "There is none.");
        let plan = plan.launches(failing, LaunchOutcome::fails(failure, seconds(9, 11)));
        let (outcome, bench, witness) = odd(plan, Oddity::Nothing, nothing).await;
        bench.assert_restored(&outcome, &witness);
        assert_eq!(finding(&outcome.report, Probe::ReadLags).verdict, Verdict::AsAssumed);
        assert_eq!(finding(&outcome.report, Probe::Deletions).seen, "no instance could be launched");
        let found = finding(&outcome.report, Probe::FailedAllocation);
        assert_eq!(found.verdict, Verdict::AsAssumed, "{found:?}");
        let seen = "failed (InsufficientInstanceCapacity); 90 s later, a capacity of 2, 1 running";
        assert!(found.seen.starts_with(seen), "{found:?}");
        let texts = outcome.report.evidence.iter().flat_map(|seen| &seen.texts);
        assert!(texts.into_iter().any(|text| text == "There is none."), "{:?}", outcome.report.evidence);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_launch_that_takes_the_capacity_with_it_is_broken_where_that_is_not_assumed() {
    let failure = || PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "There is none.");
    let rolls_back =
        |plan: GroupPlan| plan.launches(Pick::First(1), LaunchOutcome::rolls_back(failure(), seconds(9, 11)));
    breaks(rolls_back(aws()), Oddity::Nothing, Probe::FailedAllocation, nothing).await;
    let (outcome, bench, witness) = odd(rolls_back(scale_set()), Oddity::Nothing, nothing).await;
    bench.assert_restored(&outcome, &witness);
    assert_eq!(finding(&outcome.report, Probe::FailedAllocation).verdict, Verdict::AsAssumed);
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_refused_at_once_is_seen_as_that() {
    let failure = PlannedFailure::out_of_resources("OperationNotAllowed", "The quota of quokka is exceeded.");
    let plan = scale_set().launches(Pick::Always, LaunchOutcome::Refused(failure));
    let (outcome, bench, witness) = odd(plan, Oddity::Nothing, nothing).await;
    let found = finding(&outcome.report, Probe::FailedAllocation);
    assert_eq!(found.verdict, Verdict::AsAssumed, "{found:?}");
    assert_eq!(found.seen, "refused at once: out of resources (OperationNotAllowed); then a capacity of 1");
    let texts: Vec<&String> = outcome.report.evidence.iter().flat_map(|seen| &seen.texts).collect();
    assert!(texts.iter().any(|text| *text == "The quota of [name] is exceeded."), "{texts:?}");
    bench.assert_restored(&outcome, &witness);
}
