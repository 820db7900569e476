//! How the SDK and Headcount handle malformed response bodies.

use std::sync::Mutex;

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_autoscaling::config::Credentials;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::super::groups::ids::instance_of;
use super::super::sdk::http::for_services;
use super::*;
use crate::cloud::CallMeter;
use crate::properties::{Written, costly, slipped};

const GROUPS: &str = r#"<DescribeAutoScalingGroupsResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">
<DescribeAutoScalingGroupsResult><AutoScalingGroups><member>
<AutoScalingGroupName>asg</AutoScalingGroupName><MinSize>1</MinSize><MaxSize>10</MaxSize>
<DesiredCapacity>2</DesiredCapacity><DefaultCooldown>300</DefaultCooldown>
<AvailabilityZones><member>us-east-1a</member></AvailabilityZones><HealthCheckType>EC2</HealthCheckType>
<CreatedTime>2026-01-01T00:00:00Z</CreatedTime>
<Instances><member><InstanceId>i-0a</InstanceId><AvailabilityZone>us-east-1a</AvailabilityZone>
<LifecycleState>InService</LifecycleState><HealthStatus>Healthy</HealthStatus>
<ProtectedFromScaleIn>false</ProtectedFromScaleIn></member></Instances>
<Tags><member><Key>k8s.io/cluster-autoscaler/node-template/taint/gpu</Key><Value>true:NoSchedule</Value>
<PropagateAtLaunch>true</PropagateAtLaunch></member></Tags>
</member></AutoScalingGroups></DescribeAutoScalingGroupsResult>
<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></DescribeAutoScalingGroupsResponse>"#;

const ERROR: &str = "<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code>\
                     <Message>AutoScalingGroup name not found</Message></Error><RequestId>r</RequestId></ErrorResponse>";

/// The next response.
type Next = Arc<Mutex<(StatusCode, Written)>>;

/// Starts a server that returns the next response to every request. Returns its URL.
async fn server(next: Next) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let served = async |State(next): State<Next>| {
        let (status, Written(body)) = next.lock().expect("not poisoned").clone();
        (status, body)
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(served).with_state(next)).await });
    format!("http://{address}")
}

async fn config(endpoint: &str) -> SdkConfig {
    let keys = Credentials::builder().access_key_id("test").secret_access_key("test").provider_name("test").build();
    let loader = aws_config::defaults(BehaviorVersion::latest()).credentials_provider(keys).endpoint_url(endpoint);
    let loader = loader.http_client(for_services());
    loader.region(Region::new("us-east-1")).retry_config(RetryConfig::disabled()).load().await
}

/// A source with these groups, over the next response.
async fn source(names: &[&str], next: &Next) -> Aws {
    let settings = named(names);
    let config = config(&server(Arc::clone(next)).await).await;
    Aws::over(settings.clone(), Clients::from_sdk("us-east-1".to_owned(), settings, config, CallMeter::default()))
}

#[tokio::test]
async fn a_missing_size_is_an_error_of_its_group_and_an_early_end_one_of_the_page() {
    let next = Next::new(Mutex::new((StatusCode::OK, GROUPS.into())));
    let aws = source(&["asg"], &next).await;
    let body = |text: &str| *next.lock().expect("not poisoned") = (StatusCode::OK, text.into());
    for (missing, expected) in [
        ("<DesiredCapacity>2</DesiredCapacity>", "no desired capacity"),
        ("<MinSize>1</MinSize>", "no min size"),
        ("<MaxSize>10</MaxSize>", "no max size"),
    ] {
        body(&GROUPS.replace(missing, ""));
        let listing = aws.list().await.expect("the others can be read");
        assert_eq!((listing.groups.len(), &listing.broken[..]), (0, &[("asg".into(), expected.to_owned())][..]));
        assert!(aws.observe(&"asg".into()).await.is_err(), "the SDK's 0 is not used");
    }
    let end = GROUPS.find("<Tags>").expect("there are tags");
    for early in [&GROUPS[..end], &GROUPS[..GROUPS.len() - 5]] {
        body(early);
        let error = aws.list().await.expect_err("half a response");
        assert!(error.to_string().contains("ends early"), "{error}");
    }
    body(&format!("{GROUPS}{}", " ".repeat(65 << 20)));
    assert!(aws.list().await.is_err(), "more than fits");
}

/// The response with the group, between two others whose elements are replaced.
fn among(others: [(&str, &str, &str); 2]) -> String {
    let from = GROUPS.find("<member>").expect("a group");
    let to = GROUPS.find("</AutoScalingGroups>").expect("the end of the list");
    let [before, after] = others
        .map(|(name, whole, defective)| GROUPS[from..to].replacen(">asg<", name, 1).replacen(whole, defective, 1));
    [&GROUPS[..from], &before, &GROUPS[from..to], &after, &GROUPS[to..]].concat()
}

#[tokio::test]
async fn a_group_that_cannot_be_decoded_is_an_error_of_its_own() {
    let next = Next::new(Mutex::new((StatusCode::OK, GROUPS.into())));
    let aws = source(&["asg", "b&d", "c", "none"], &next).await;
    let body = |text: &str| *next.lock().expect("not poisoned") = (StatusCode::OK, text.into());
    let number = ("<DesiredCapacity>2<", "<DesiredCapacity>abc<");
    for ((whole, defective), expected) in [
        (number, "expected (integer: `com.amazonaws.autoscaling#AutoScalingGroupDesiredCapacity`)"),
        (("<MaxSize>10<", "<MaxSize>2147483648<"), "AutoScalingGroupMaxSize"),
        (("<CreatedTime>2026", "<CreatedTime>yesterday"), "expected (timestamp: "),
        (("<ProtectedFromScaleIn>false", "<ProtectedFromScaleIn>perhaps"), "expected (boolean: "),
        (("<Value>true:NoSchedule", "<Value>&nothing;"), "invalid XML escape: nothing"),
    ] {
        body(&among([(">b&amp;d<", whole, defective), (">c<", "<MinSize>1</MinSize>", "")]));
        let listing = aws.list().await.expect("the others can be read");
        assert_eq!(listing.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["asg"]);
        assert_eq!(listing.groups[0].instances.as_ref().map(Vec::len), Some(1), "all of it");
        let [(first, reason), second] = &listing.broken[..] else { panic!("{listing:?}") };
        assert!(first.as_str() == "b&d" && reason.contains(expected), "{first}: {reason}");
        assert_eq!(*second, ("c".into(), "no min size".to_owned()), "the SDK's 0 is not used");
        assert_eq!(listing.absent, ["none".into()]);
        assert!(aws.observe(&"asg".into()).await.expect("readable").is_some());
        assert!(aws.observe(&"none".into()).await.expect("readable").is_none());
        let error = aws.observe(&"b&d".into()).await.expect_err("it is not gone");
        assert!(matches!(&error, CloudError::Unintelligible(_)) && error.to_string().contains(expected), "{error}");
    }

    // Where the SDK takes an error in the XML for the end, it has seen no more than the beginning of a group.
    body(&among([(">b&amp;d<", number.0, number.1), (">c<", "<Instances>", "<Instances><1/>")]));
    let listing = aws.list().await.expect("the others can be read");
    assert_eq!(listing.broken[1], ("c".into(), "its description by AWS is not valid XML".to_owned()));

    let page = among([(">b&amp;d<", number.0, number.1), (">c<", "", "")]);
    body(&page.replacen("</AutoScalingGroups>", "</AutoScalingGroups><NextToken>more</NextToken>", 1));
    let error = aws.list().await.expect_err("each page names the next one");
    assert!(error.to_string().contains("leads back"), "the next page is read: {error}");
}

#[tokio::test]
async fn a_group_that_can_be_neither_decoded_nor_named_may_be_any_that_was_not_found() {
    let next = Next::new(Mutex::new((StatusCode::OK, GROUPS.into())));
    let aws = source(&["asg", "c", "gone"], &next).await;
    for name in [">&nothing;<", "><"] {
        let body = among([(name, "<MinSize>1<", "<MinSize>one<"), (">c<", "", "")]);
        *next.lock().expect("not poisoned") = (StatusCode::OK, body[..].into());
        let listing = aws.list().await.expect("the others can be read");
        assert_eq!(listing.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["asg", "c"]);
        assert_eq!((listing.broken, listing.absent), (Vec::new(), Vec::new()));
        assert!(aws.observe(&"gone".into()).await.is_err(), "unknown is not gone");
    }
}

#[test]
fn a_malformed_listing_is_an_error_or_groups_with_ordered_bounds() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let next = Next::new(Mutex::new((StatusCode::OK, GROUPS.into())));
    let aws = runtime.block_on(source(&["asg"], &next));
    let listing = || runtime.block_on(aws.list());

    assert_eq!(listing().expect("a valid listing").groups.len(), 1);

    let bodies = prop_oneof![
        4 => slipped(GROUPS).prop_map(|body| (StatusCode::OK, body)),
        1 => slipped(ERROR).prop_map(|body| (StatusCode::BAD_REQUEST, body)),
    ];
    let outcome = TestRunner::new(costly()).run(&bodies, |served| {
        *next.lock().expect("not poisoned") = served.clone();
        match listing() {
            Ok(_) if served.0 != StatusCode::OK => prop_assert!(false, "an error taken for a listing"),
            Ok(listing) => {
                for group in listing.groups {
                    prop_assert!(group.min <= group.max && !group.name.as_str().is_empty(), "{:?}", group);
                    for instance in group.instances.iter().flatten() {
                        prop_assert!(instance_of(&instance.id).is_none_or(|id| id.len() > 2), "{:?}", instance);
                        prop_assert!(!instance.id.as_str().ends_with('/'), "an instance without an ID");
                    }
                }
            }
            Err(error) => prop_assert!(error.to_string().chars().count() < 500, "{}", error),
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
