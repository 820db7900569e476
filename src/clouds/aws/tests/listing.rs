//! Listing a source and reading one group.

use aws_sdk_autoscaling::primitives::DateTime;
use aws_sdk_autoscaling::types::Activity;

use super::*;

#[tokio::test]
async fn names_are_sent_in_batches_of_100_and_all_pages_are_read() {
    let every: Vec<String> = (0..101).map(|number| format!("asg-{number:03}")).collect();
    let fake = Fake::with(every.iter().map(|name| group(name).build()).collect());
    fake.state(|state| state.page = 40);
    let texts: Vec<&str> = every.iter().map(String::as_str).collect();
    let listing = fake.aws(named(&texts)).list().await.expect("readable");
    assert_eq!(names(&listing.groups), texts);
    let calls = fake.calls("DescribeAutoScalingGroups");
    assert_eq!(calls, ["100 names", "100 names", "100 names", "1 names"]);
}

#[tokio::test]
async fn without_configured_groups_no_group_is_described() {
    let fake = Fake::with(vec![group("somebody-elses").build()]);
    let listing = fake.aws(Settings::default()).list().await.expect("readable");
    assert!(listing.groups.is_empty() && fake.calls("DescribeAutoScalingGroups").is_empty());
}

#[tokio::test]
async fn a_group_must_match_all_tags_of_any_one_discovery_spec() {
    let fake = Fake::with(vec![
        group("a").tags(tag("a", "1")).build(),
        group("b").tags(tag("b", "2")).build(),
        group("ab").tags(tag("a", "1")).tags(tag("b", "2")).build(),
        group("none").tags(tag("a", "2")).build(),
    ]);
    let listed = async |queries: &[&str]| {
        let listing = fake.aws(discovering(queries)).list().await.expect("readable");
        names(&listing.groups).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(listed(&["asg:tag=a=1", "asg:tag=b=2"]).await, ["a", "ab", "b"]);
    assert_eq!(listed(&["asg:tag=a=1,b"]).await, ["ab"]);
    assert_eq!(listed(&["asg:tag=a"]).await, ["a", "ab", "none"]);
    assert_eq!(fake.calls("DescribeAutoScalingGroups"), ["tag:a", "tag:b", "tag:a,tag-key", "tag-key"]);
}

#[tokio::test]
async fn explicit_groups_win_over_discovery_and_the_first_entry_over_the_second() {
    let fake = Fake::with(vec![group("asg").tags(tag("a", "1")).build()]);
    let mut settings = discovering(&["asg:tag=a"]);
    settings.node_groups = ["2:5:asg", "1:4:asg"].map(|spec| spec.parse().expect("a good spec")).to_vec();
    let aws = fake.aws(settings);
    let listing = aws.list().await.expect("readable");
    assert_eq!(listing.groups.len(), 1);
    assert_eq!((listing.groups[0].min, listing.groups[0].max), (2, 5));
    let reading = observed(&aws, "asg").await;
    assert_eq!((reading.min, reading.max), (2, 5), "a single read shows the same");
}

#[tokio::test]
async fn an_invalid_group_is_listed_as_broken_and_a_missing_one_as_absent() {
    let fake = Fake::with(vec![group("good").build(), group("bad").set_desired_capacity(None).build()]);
    let listing = fake.aws(named(&["good", "bad", "missing"])).list().await.expect("readable");
    assert_eq!(names(&listing.groups), ["good"]);
    assert_eq!(listing.broken, [("bad".into(), "no desired capacity".to_owned())]);
    assert_eq!(listing.absent, ["missing".into()]);
}

#[tokio::test]
async fn a_group_that_is_gone_is_none_and_a_failed_call_is_an_error() {
    let fake = Fake::with(vec![group("asg").build()]);
    let aws = fake.aws(named(&["asg"]));
    assert!(aws.observe(&"gone".into()).await.expect("readable").is_none());
    fake.fail("DescribeAutoScalingGroups", "Throttling", "Rate exceeded", 400);
    assert!(matches!(aws.observe(&"asg".into()).await, Err(CloudError::Throttled { .. })));
    fake.fail("DescribeAutoScalingGroups", "AccessDenied", "no", 403);
    assert!(matches!(aws.list().await, Err(CloudError::Denied(_))), "a failed query is not an empty one");
}

#[tokio::test]
async fn a_discovered_group_that_loses_its_tag_or_its_value_is_gone_also_by_name() {
    let fake = Fake::with(vec![group("found").tags(tag("a", "1")).build(), group("named").build()]);
    let mut settings = discovering(&["asg:tag=a=1"]);
    settings.node_groups = named(&["named"]).node_groups;
    let aws = fake.aws(settings);
    assert_eq!(names(&aws.list().await.expect("readable").groups), ["found", "named"]);
    assert_eq!(observed(&aws, "found").await.name, "found".into());
    for tags in [vec![tag("a", "2")], vec![tag("b", "1")], Vec::new()] {
        fake.state(|state| state.groups[0] = group("found").set_tags(Some(tags)).build());
        assert_eq!(names(&aws.list().await.expect("readable").groups), ["named"]);
        assert!(aws.observe(&"found".into()).await.expect("readable").is_none());
    }
    assert_eq!(observed(&aws, "named").await.name, "named".into(), "a group that is named needs no tag");
}

/// Names and filters are AWS's to honour. What no one asked for is served to no one (law 11).
#[tokio::test]
async fn a_group_that_was_not_asked_for_is_never_taken_for_one_that_was() {
    let fake = Fake::with(vec![group("other").build(), group("found").tags(tag("a", "1")).build()]);
    fake.state(|state| state.ignores_queries = true);
    let mut settings = discovering(&["asg:tag=a"]);
    settings.node_groups = named(&["asg"]).node_groups;
    let aws = fake.aws(settings);
    let listing = aws.list().await.expect("readable");
    assert_eq!((names(&listing.groups), &listing.absent[..]), (vec!["found"], &["asg".into()][..]));
    assert!(aws.observe(&"asg".into()).await.expect("readable").is_none(), "another group is not this one");
    fake.state(|state| state.groups.push(group("asg").build()));
    assert_eq!(observed(&aws, "asg").await.name, "asg".into(), "found among the others");
    assert_eq!(names(&aws.list().await.expect("readable").groups), ["asg", "found"]);
}

/// A rotated Secret may hold the key of another account that has groups of the same names.
#[tokio::test]
async fn a_group_of_another_account_is_not_the_group_that_had_its_name() {
    let of = |account: &str| {
        let arn = format!("arn:aws:autoscaling:us-east-1:{account}:autoScalingGroup:1:autoScalingGroupName/asg");
        group("asg").auto_scaling_group_arn(arn).build()
    };
    let fake = Fake::with(vec![of("111111111111")]);
    let aws = fake.aws(named(&["asg"]));
    assert_eq!(aws.list().await.expect("readable").groups.len(), 1);
    fake.state(|state| state.groups[0] = of("222222222222"));
    for _ in 0..2 {
        let listing = aws.list().await.expect("readable");
        let [(_, reason)] = &listing.broken[..] else { panic!("{listing:?}") };
        assert!(reason.contains("account 222222222222, and account 111111111111 had it"), "{reason}");
        assert!(aws.observe(&"asg".into()).await.is_err(), "nothing is written on it");
    }
    fake.state(|state| state.groups[0] = of("111111111111"));
    assert_eq!(aws.list().await.expect("readable").groups.len(), 1, "the credentials are restored");
}

/// AWS may return empty pages before others.
#[tokio::test]
async fn ten_empty_pages_of_activities_show_nothing() {
    let fake = Fake::with(vec![group("asg").build()]);
    let aws = fake.aws(Settings::default());
    let launch = Activity::builder().description("Launching a new EC2 instance").status_code("InProgress".into());
    let launch = launch.activity_id("a").auto_scaling_group_name("asg").cause("c").start_time(DateTime::from_secs(5));
    fake.state(|state| (state.activities, state.empty_pages) = (vec![launch.build()], 9));
    let (since, old) = (std::time::SystemTime::UNIX_EPOCH, "aws:///us-east-1a/i-1".into());
    let shortfall = crate::cloud::Shortfall { missing: 1, since };
    let read = async || aws.launch_activity(&"asg".into(), shortfall).await;
    let older = async || aws.created_before(&"asg".into(), std::slice::from_ref(&old), since).await;
    assert_eq!(read().await.expect("the page after them").under_way, 1);
    assert_eq!(older().await.expect("the page after them"), std::slice::from_ref(&old));
    fake.state(|state| state.empty_pages = 10);
    let unknown = read().await.expect_err("the page after them is not read, and may have launches (law 5)");
    assert!(unknown.to_string().contains("10 pages of activities do not show every launch"), "{unknown}");
    assert!(older().await.expect("no age is known").is_empty());
}

/// Terminations that a lifecycle hook holds can be any number, and come first.
#[tokio::test]
async fn launches_behind_more_activities_than_are_read_are_not_taken_for_none() {
    let fake = Fake::with(vec![group("asg").build()]);
    let terminating = |number: i64| {
        let description = format!("Terminating EC2 instance: i-{number}");
        let activity = Activity::builder().description(description).status_code("InProgress".into());
        activity.activity_id("a").auto_scaling_group_name("asg").cause("c").start_time(DateTime::from_secs(5)).build()
    };
    fake.state(|state| (state.activities, state.page) = ((0..30).map(terminating).collect(), 3));
    let aws = fake.aws(Settings::default());
    let shortfall = crate::cloud::Shortfall { missing: 0, since: std::time::SystemTime::UNIX_EPOCH };
    let read = async || aws.launch_activity(&"asg".into(), shortfall).await;
    assert_eq!(read().await.expect("all of them").under_way, 0);
    fake.state(|state| state.activities.push(terminating(30)));
    assert!(matches!(read().await, Err(CloudError::Unintelligible(_))), "unknown is not 0");
}
