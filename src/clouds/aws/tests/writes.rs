//! Setting capacities and terminating instances.

use std::time::Duration;

use aws_sdk_autoscaling::operation::launch_instances::LaunchInstancesOutput;
use aws_sdk_autoscaling::types::InstanceCollection;

use super::*;
use crate::cloud::LaunchRequest;

#[tokio::test]
async fn the_capacity_is_set_in_one_call_and_in_units() {
    let over = LaunchTemplateOverrides::builder().instance_type("m5.large").weighted_capacity("3").build();
    let policy = |overrides| {
        let template = LaunchTemplate::builder().set_overrides(Some(overrides)).build();
        MixedInstancesPolicy::builder().launch_template(template).build()
    };
    let unequal = LaunchTemplateOverrides::builder().instance_type("m5.xlarge").weighted_capacity("6").build();
    let fake = Fake::with(vec![
        group("plain").build(),
        group("weighted").mixed_instances_policy(policy(vec![over.clone()])).build(),
        group("unequal").mixed_instances_policy(policy(vec![over, unequal])).build(),
    ]);
    let aws = fake.aws(Settings::default());
    aws.set_capacity(&observed(&aws, "plain").await, 3).await.expect("accepted");
    aws.set_capacity(&observed(&aws, "weighted").await, 3).await.expect("accepted");
    let refused = aws.set_capacity(&observed(&aws, "unequal").await, 3).await;
    assert!(matches!(refused, Err(CloudError::Refused(_))), "{refused:?}");
    assert_eq!(fake.calls("SetDesiredCapacity"), ["plain=3", "weighted=9"]);
}

#[tokio::test]
async fn a_launch_is_one_call_in_units_with_its_token() {
    let over = LaunchTemplateOverrides::builder().instance_type("m5.large").weighted_capacity("3").build();
    let template = LaunchTemplate::builder().overrides(over).build();
    let policy = MixedInstancesPolicy::builder().launch_template(template).build();
    let fake = Fake::with(vec![group("weighted").mixed_instances_policy(policy).build()]);
    let instances = InstanceCollection::builder().instance_ids("i-1").instance_ids("i-2").build();
    fake.state(|state| state.launched = Some(LaunchInstancesOutput::builder().instances(instances).build()));
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "weighted").await;
    let launch = LaunchRequest { number: 2, token: "t-1".to_owned(), zone: None };
    assert_eq!(aws.launch(&basis, &launch).await.expect("launched").instances, ["i-1", "i-2"]);
    assert_eq!(fake.calls("LaunchInstances"), ["weighted+6 t-1"]);
    let fails = async |code, status| {
        fake.fail("LaunchInstances", code, "not now", status);
        aws.launch(&basis, &launch).await.expect_err(code)
    };
    assert!(fails("IdempotentCallInProgress", 400).await.outcome_unknown());
    assert!(matches!(fails("ResourceContention", 500).await, CloudError::Conflict(_)));
    assert!(matches!(fails("UnsupportedOperation", 400).await, CloudError::Unsupported(_)));
    assert!(matches!(fails("AccessDenied", 403).await, CloudError::Denied(_)));
    assert!(fails("ExpiredToken", 403).await.may_be_repeated(), "nothing was launched, and other credentials may work");
    assert!(matches!(fails("IdempotentParameterMismatch", 400).await, CloudError::Refused(_)));
}

#[tokio::test]
async fn a_failed_write_is_not_sent_again() {
    let fake = Fake::with(vec![group("asg").build()]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    fake.fail("SetDesiredCapacity", "ScalingActivityInProgress", "busy", 400);
    assert!(matches!(aws.set_capacity(&basis, 3).await, Err(CloudError::Conflict(_))));
    fake.fail("SetDesiredCapacity", "ValidationError", "AutoScalingGroup name not found", 400);
    assert!(matches!(aws.set_capacity(&basis, 3).await, Err(CloudError::NotFound(_))));
    assert_eq!(fake.calls("SetDesiredCapacity").len(), 2);
}

#[tokio::test]
async fn one_instance_is_terminated_in_the_single_form_and_several_in_one_batch() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 150])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let deletion = aws.delete_instances(&basis, &[id(0)]).await.expect("accepted");
    assert_eq!(deletion.accepted, [id(0)]);
    let ids: Vec<_> = (0..120).map(id).collect();
    let deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
    assert_eq!(deletion.accepted, ids);
    assert_eq!(fake.calls("TerminateInstance"), ["i-0"]);
    let batches: Vec<_> = fake.calls("TerminateInstances").iter().map(|call| call.split(',').count()).collect();
    assert_eq!(batches, [100, 20]);
}

#[tokio::test]
async fn instances_that_are_gone_terminating_or_not_in_the_group_cause_no_call() {
    let fake = Fake::with(vec![with_instances("asg", &["InService", "Terminating:Wait", "Terminated"])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let foreign: ProviderId = "eks-hybrid:///x".into();
    let ids = [id(1), id(2), id(99), id(0), id(0), "AWS:///us-east-1a/I-0".into(), foreign.clone()];
    let deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
    assert_eq!(deletion.accepted, [id(0)]);
    assert_eq!(deletion.already_gone, [id(1), id(2), id(99)]);
    assert_eq!(deletion.refused.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&foreign]);
    assert_eq!(fake.calls("TerminateInstance"), ["i-0"]);
}

#[tokio::test(start_paused = true)]
async fn single_calls_are_used_if_aws_does_not_know_the_batch_form() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 20])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let ids: Vec<_> = (0..20).map(id).collect();
    fake.fail("TerminateInstances", "ValidationError", "Value null at 'instanceId' failed to satisfy constraint", 400);
    let mut deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
    deletion.accepted.sort_by_key(|id| ids.iter().position(|one| one == id));
    assert_eq!(deletion.accepted, ids);
    aws.delete_instances(&basis, &ids[..2]).await.expect("accepted");
    assert_eq!(fake.calls("TerminateInstances").len(), 1, "not tried again at once");
    assert_eq!(fake.calls("TerminateInstance").len(), 22);
    tokio::time::advance(cache::UNKNOWN_FORM_TTL).await;
    aws.delete_instances(&basis, &ids).await.expect("accepted");
    assert_eq!(fake.calls("TerminateInstances").len(), 2, "tried again later");
}

#[tokio::test]
async fn a_batch_with_an_unknown_outcome_is_not_sent_again() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 2])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    fake.fail("TerminateInstances", "", "<!doctype html>", 500);
    let error = aws.delete_instances(&basis, &[id(0), id(1)]).await.expect_err("unknown");
    assert!(error.outcome_unknown());
    assert!(fake.calls("TerminateInstance").is_empty(), "nothing is sent before the group is read again");
    aws.delete_instances(&basis, &[id(0), id(1)]).await.expect("accepted");
    assert_eq!(fake.calls("TerminateInstances").len(), 1);
    assert_eq!(fake.calls("TerminateInstance").len(), 2);
}

#[tokio::test]
async fn after_a_lost_response_only_the_terminations_that_were_sent_are_in_doubt() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 150])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let ids: Vec<_> = (0..40).map(id).collect();
    fake.fail("TerminateInstances", "ValidationError", "InstanceId is required", 400);
    for number in 0..8 {
        fake.fail(
            [
                "TerminateInstance i-0",
                "TerminateInstance i-1",
                "TerminateInstance i-2",
                "TerminateInstance i-3",
                "TerminateInstance i-4",
                "TerminateInstance i-5",
                "TerminateInstance i-6",
                "TerminateInstance i-7",
            ][number],
            "",
            "gateway timeout",
            504,
        );
    }
    let deletion = aws.delete_instances(&basis, &ids).await.expect("some are not sent");
    let sent = fake.calls("TerminateInstance").len();
    let in_doubt: Vec<_> = deletion.refused.iter().filter(|(_, error)| error.outcome_unknown()).collect();
    let accepted = deletion.accepted.len();
    assert_eq!((in_doubt.len(), accepted + in_doubt.len(), deletion.refused.len()), (8, sent, 40 - accepted));
    let mut every = fake.calls("TerminateInstance");
    every.sort();
    every.dedup();
    assert_eq!(every.len(), sent, "none is sent twice");
}

#[tokio::test]
async fn a_batch_after_one_with_a_lost_response_is_not_sent() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 250])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let ids: Vec<_> = (0..250).map(id).collect();
    let second =
        format!("TerminateInstances asg: {}", (100..200).map(|n| format!("i-{n}")).collect::<Vec<_>>().join(","));
    fake.fail(&second, "RequestTimeout", "too slow", 408);
    let deletion = aws.delete_instances(&basis, &ids).await.expect("some accepted");
    assert_eq!(deletion.accepted, ids[..100]);
    assert!(deletion.refused[..100].iter().all(|(_, error)| error.outcome_unknown()));
    assert!(deletion.refused[100..].iter().all(|(_, error)| matches!(error, CloudError::Conflict(_))));
    assert_eq!((deletion.refused.len(), fake.calls("TerminateInstances").len()), (150, 2));
}

#[tokio::test]
async fn a_busy_group_or_a_missing_instance_does_not_disable_the_batch_form() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 3])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let ids = [id(0), id(1), id(2)];
    fake.fail("TerminateInstances", "ResourceContention", "busy", 500);
    for _ in 0..2 {
        fake.fail("TerminateInstance", "ResourceContention", "busy", 500);
    }
    assert!(matches!(aws.delete_instances(&basis, &ids).await, Err(CloudError::Conflict(_))));
    fake.fail("TerminateInstances", "ValidationError", "No managed instance found for instance ID: i-1", 400);
    fake.fail("TerminateInstances asg: i-1", "ValidationError", "No managed instance found for instance ID: i-1", 400);
    let before = fake.calls("TerminateInstance").len();
    let deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
    assert_eq!((deletion.accepted.len(), deletion.already_gone), (2, vec![id(1)]));
    assert_eq!(
        fake.calls("TerminateInstance").len(),
        before,
        "without the group, i-1 would be terminated in another one"
    );
    aws.delete_instances(&basis, &ids).await.expect("accepted");
    assert_eq!(fake.calls("TerminateInstances").len(), 6);
}

#[tokio::test]
async fn a_busy_instance_is_refused_and_the_others_are_terminated() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 3])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    fake.fail("TerminateInstances", "ValidationError", "InstanceId is required", 400);
    fake.fail("TerminateInstance i-1", "ResourceContention", "busy", 500);
    let mut deletion = aws.delete_instances(&basis, &[id(0), id(1), id(2)]).await.expect("accepted");
    deletion.accepted.sort();
    assert_eq!(deletion.accepted, [id(0), id(2)]);
    assert!(matches!(deletion.refused.as_slice(), [(refused, CloudError::Conflict(_))] if *refused == id(1)));
    assert_eq!(fake.calls("TerminateInstance").len(), 3, "the caller, who knows how much time is left, tries it again");
}

#[tokio::test]
async fn a_busy_instance_does_not_keep_the_others_of_its_batch() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 20])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let ids: Vec<_> = (0..20).map(id).collect();
    fake.fail("TerminateInstances", "ScalingActivityInProgress", "busy", 400);
    for call in ["TerminateInstance i-0", "TerminateInstance i-7", "TerminateInstance i-8"] {
        fake.fail(call, "ScalingActivityInProgress", "busy", 400);
    }
    let mut deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
    deletion.refused.sort_by_key(|(id, _)| ids.iter().position(|one| one == id));
    assert_eq!(deletion.refused.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&id(0), &id(7), &id(8)]);
    assert!(deletion.refused.iter().all(|(_, error)| matches!(error, CloudError::Conflict(_))));
    assert_eq!(deletion.accepted.len(), 17);
    let sent = (fake.calls("TerminateInstances").len(), fake.calls("TerminateInstance").len());
    assert_eq!(sent, (1, 20), "the caller tries the busy ones again");
}

#[tokio::test]
async fn a_busy_group_gets_two_single_terminations_after_a_batch_each_time_of_other_instances() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 5])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let ids: Vec<_> = (0..5).map(id).collect();
    for expected in [["i-0", "i-1"].as_slice(), &["i-0", "i-1", "i-2", "i-3"]] {
        fake.fail("TerminateInstances", "ScalingActivityInProgress", "busy", 400);
        for _ in 0..2 {
            fake.fail("TerminateInstance", "ScalingActivityInProgress", "busy", 400);
        }
        let busy = aws.delete_instances(&basis, &ids).await;
        assert!(matches!(busy, Err(CloudError::Conflict(_))), "{busy:?}");
        assert_eq!(fake.calls("TerminateInstance"), expected);
    }
    fake.fail("TerminateInstances", "ScalingActivityInProgress", "busy", 400);
    let deletion = aws.delete_instances(&basis, &ids).await.expect("accepted");
    assert_eq!((deletion.accepted.len(), deletion.refused.len()), (5, 0));
    assert_eq!(fake.calls("TerminateInstance")[4], "i-4");
}

#[tokio::test]
async fn throttling_or_a_lost_response_stops_the_terminations_after_a_busy_batch() {
    for (code, status, is_unknown) in [("Throttling", 400, false), ("RequestTimeout", 408, true)] {
        let fake = Fake::with(vec![with_instances("asg", &["InService"; 20])]);
        let aws = fake.aws(Settings::default());
        let basis = observed(&aws, "asg").await;
        let ids: Vec<_> = (0..20).map(id).collect();
        fake.fail("TerminateInstances", "ResourceContention", "busy", 500);
        fake.fail("TerminateInstance i-0", "ResourceContention", "busy", 500);
        fake.fail("TerminateInstance i-2", code, "later", status);
        let deletion = aws.delete_instances(&basis, &ids).await.expect("some accepted");
        let sent = fake.calls("TerminateInstance").len();
        assert!(sent < 20, "{code}: {sent}");
        assert_eq!((deletion.accepted.len(), deletion.refused.len()), (sent - 2, 22 - sent), "{code}");
        let unknown: Vec<_> = deletion.refused.iter().filter(|(_, error)| error.outcome_unknown()).collect();
        assert_eq!(unknown.len(), usize::from(is_unknown), "{code}");
    }
}

#[tokio::test]
async fn terminations_with_an_unknown_outcome_are_named_although_none_was_accepted() {
    let fake = Fake::with(vec![with_instances("asg", &["InService", "InService", "Standby"])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    fake.fail("TerminateInstances", "ValidationError", "No managed instance found for instance ID: i-1", 400);
    fake.fail("TerminateInstances asg: i-0", "InternalFailure", "oops", 500);
    fake.fail("TerminateInstances asg: i-1", "ValidationError", "No managed instance found for instance ID: i-1", 400);
    let deletion = aws.delete_instances(&basis, &[id(0), id(1), id(2)]).await.expect("one may be accepted");
    let unknown: Vec<_> = deletion.refused.iter().filter(|(_, error)| error.outcome_unknown()).collect();
    assert_eq!(unknown.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&id(0)]);
    let sent = [fake.calls("TerminateInstances").len(), fake.calls("TerminateInstance").len()];
    assert_eq!(sent, [3, 0], "the one in standby is not sent after that");
    assert!(matches!(&deletion.refused[1], (refused, CloudError::Conflict(_)) if *refused == id(2)));
}

#[tokio::test(start_paused = true)]
async fn terminations_that_aws_is_too_slow_for_are_not_sent_after_the_callers_time() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 20])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let ids: Vec<_> = (0..20).map(id).collect();
    fake.fail("TerminateInstances", "ValidationError", "InstanceId is required", 400);
    fake.state(|state| state.latency = Duration::from_millis(1600));
    let deletion = aws.delete_instances(&basis, &ids).await.expect("some accepted");
    assert_eq!((deletion.accepted.len(), fake.calls("TerminateInstance").len()), (8, 8));
    assert!(deletion.refused.iter().all(|(_, error)| matches!(error, CloudError::Conflict(_))));
    assert_eq!(deletion.refused.len(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_which_a_busy_group_accepts_nothing_is_a_conflict() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 3])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    fake.fail("TerminateInstance", "ScalingActivityInProgress", "busy", 400);
    assert!(matches!(aws.delete_instances(&basis, &[id(1)]).await, Err(CloudError::Conflict(_))));
    assert_eq!(aws.delete_instances(&basis, &[id(1)]).await.expect("accepted").accepted, [id(1)]);
}

#[tokio::test]
async fn throttling_stops_the_terminations_that_are_not_sent_yet() {
    let fake = Fake::with(vec![with_instances("asg", &["InService"; 40])]);
    let aws = fake.aws(Settings::default());
    let basis = observed(&aws, "asg").await;
    let ids: Vec<_> = (0..40).map(id).collect();
    fake.fail("TerminateInstances", "ValidationError", "InstanceId is required", 400);
    fake.fail("TerminateInstance i-9", "Throttling", "Rate exceeded", 400);
    let deletion = aws.delete_instances(&basis, &ids).await.expect("some accepted");
    assert_eq!(deletion.accepted.len() + deletion.refused.len(), 40);
    assert!(fake.calls("TerminateInstance").len() < 40);
    assert!(deletion.refused.iter().all(|(_, error)| matches!(error, CloudError::Throttled { .. })));
    fake.fail("TerminateInstance", "AccessDenied", "no", 403);
    let denied = aws.delete_instances(&basis, &[id(0)]).await;
    assert!(matches!(denied, Err(CloudError::Denied(_))), "nothing was accepted");
}
