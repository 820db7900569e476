//! Looking instance types up.

use super::*;

#[tokio::test]
async fn unknown_types_are_left_out() {
    let fake = Fake::with(Vec::new());
    let known: Vec<String> = (0..150).map(|number| format!("m5.{number}xlarge")).collect();
    fake.state(|state| state.types = known.clone());
    let aws = fake.aws(Settings::default());
    let mut asked = known.clone();
    asked.insert(3, "x9.large".to_owned());
    let found = aws.instance_types(&asked).await.expect("readable");
    assert_eq!(found.iter().map(|found| &found.name).collect::<Vec<_>>(), known.iter().collect::<Vec<_>>());
    assert_eq!(fake.calls("DescribeInstanceTypes").len(), 3);
    assert!(aws.instance_types(&["x9.large".to_owned()]).await.expect("readable").is_empty());
    assert!(aws.instance_types(&[]).await.expect("readable").is_empty());
}

#[tokio::test]
async fn types_are_looked_up_one_by_one_if_an_error_names_none_of_them() {
    let fake = Fake::with(Vec::new());
    fake.state(|state| state.types = vec!["a.large".into(), "b.large".into()]);
    fake.fail("DescribeInstanceTypes a.large,b.large", "InvalidParameterValue", "no", 400);
    let found = fake.aws(Settings::default()).instance_types(&["a.large".into(), "b.large".into()]).await;
    assert_eq!(found.expect("readable").len(), 2);
    fake.fail("DescribeInstanceTypes", "RequestLimitExceeded", "no", 503);
    let throttled = fake.aws(Settings::default()).instance_types(&["a.large".into()]).await;
    assert!(matches!(throttled, Err(CloudError::Throttled { .. })));
}

#[tokio::test]
async fn the_whole_catalog_is_read_page_by_page() {
    let fake = Fake::with(Vec::new());
    fake.state(|state| state.types = (0..250).map(|number| format!("m5.{number}xlarge")).collect());
    let found = fake.aws(Settings::default()).all_instance_types().await.expect("readable");
    assert_eq!((found.len(), fake.calls("DescribeInstanceTypes").len()), (250, 3));
}

#[tokio::test(start_paused = true)]
async fn each_type_is_looked_up_once_and_not_while_ec2_denies_it() {
    let fake = Fake::with(Vec::new());
    fake.state(|state| state.types = vec!["a.large".into()]);
    let aws = fake.aws(Settings::default());
    let calls = || fake.calls("DescribeInstanceTypes").len();
    let asked = ["a.large".to_owned()];
    let lookups = futures_util::future::join_all((0..20).map(|_| aws.instance_types(&asked))).await;
    assert!(lookups.into_iter().all(|found| found.expect("readable").len() == 1));
    assert_eq!(calls(), 1, "at the same time, too");
    for _ in 0..3 {
        assert!(aws.instance_types(&["x9.large".to_owned()]).await.expect("readable").is_empty());
    }
    assert_eq!(calls(), 2, "that EC2 does not know it is remembered for a while");

    for _ in 0..3 {
        fake.fail("DescribeInstanceTypes", "UnauthorizedOperation", "no", 403);
    }
    let denied = async || matches!(aws.instance_types(&["b.large".to_owned()]).await, Err(CloudError::Denied(_)));
    for (wait, expected) in [(0, 3), (0, 3), (9, 3), (1, 4), (10, 4), (10, 5)] {
        tokio::time::advance(std::time::Duration::from_secs(wait)).await;
        assert!(denied().await);
        assert_eq!(calls(), expected);
    }
    assert_eq!(aws.instance_types(&asked).await.expect("known").len(), 1, "what is known needs no call");
}
