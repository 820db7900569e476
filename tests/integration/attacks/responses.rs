//! Defective responses of a cloud or a proxy: without their sizes, cut off, or endless.

use std::sync::Arc;

use futures_util::future::join_all;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::json;
use tonic::Code;

use super::memory::{at_rest, takes_little};
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HttpResponse, Request};
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, Client, ConfigFile, Server, eventually, refused_in_time};

/// Two groups of three nodes each.
fn mk_cloud() -> Aws {
    let plans = ["web", "other"].map(|name| GroupPlan::aws(name).sized(0, 5, 3));
    Aws::start(Arc::new(Simulated::with_groups(1, plans)))
}

/// The latest listing, and the response to it.
async fn listing(aws: &Aws) -> (Request, String) {
    let requests = aws.requests_with("POST", "Action=DescribeAutoScalingGroups");
    let listing = requests.into_iter().rfind(|request| request.body.contains("AutoScalingGroupNames.member.2"));
    let listing = listing.expect("a listing");
    let body = aws.body_of(&listing).await;
    (listing, body)
}

/// Both groups are as they were.
async fn nothing_has_changed(setup: &mut Setup<Aws>) {
    for group in ["web", "other"] {
        assert_eq!(setup.client.target(group).await, 3, "{group}");
        assert_eq!(setup.client.nodes_in(group, 1).await.len(), 3, "{group}");
    }
}

/// Makes every listing get this response instead of its own. Returns after some of them.
async fn answer_listings(setup: &Setup<Aws>, body: String) {
    let before = setup.emulator.requests().len();
    setup.emulator.script("POST", "AutoScalingGroupNames.member.2", 4, HttpResponse::xml(200, body));
    eventually("listings get this response", || {
        let since = setup.emulator.requests().into_iter().skip(before);
        since
            .filter(|request| request.body.contains("AutoScalingGroupNames.member.2") && request.status.is_some())
            .count()
            > 4
    })
    .await;
}

/// A server for each of these. At the same time, every listing of its cloud gets `defective` of its own response for a
/// while, then `holds` is checked.
async fn each_listed_as<T>(
    cases: impl IntoIterator<Item = T>,
    defective: impl Fn(&T, &str) -> String,
    holds: impl AsyncFn(&T, &mut Setup<Aws>),
) {
    let (defective, holds) = (&defective, &holds);
    // One after another: opening one blocks the thread, and a server closes a connection on which nothing arrives.
    let mut opened = Vec::new();
    for case in cases {
        opened.push((case, Setup::open(mk_cloud()).await));
    }
    let listed = opened.into_iter().map(|(case, mut setup)| async move {
        setup.client.until("both are served", async |client| client.node_groups().await.len() == 2).await;
        let (_, whole) = listing(&setup.emulator).await;
        let body = defective(&case, &whole);
        assert_ne!(body, whole);
        answer_listings(&setup, body).await;
        nothing_has_changed(&mut setup).await;
        holds(&case, &mut setup).await;
    });
    join_all(listed).await;
}

#[tokio::test]
async fn a_missing_size_is_an_error_of_its_group_and_not_a_zero() {
    let without =
        |(size, value): &(&str, u32), whole: &str| whole.replacen(&format!("<{size}>{value}</{size}>"), "", 1);
    each_listed_as([("DesiredCapacity", 3), ("MinSize", 0), ("MaxSize", 5)], without, async |(size, _), setup| {
        for group in setup.client.node_groups().await {
            assert_eq!((group.min_size, group.max_size), (0, 5), "{size} of {}", group.id);
        }
        setup.server().logged("node group cannot be understood");
        setup.client.increase("other", 1).await.expect("the other group, and this one, can grow");
        let written = setup.emulator.requests_with("POST", "Action=SetDesiredCapacity");
        assert_eq!(written.len(), 1, "no capacity was written that was not requested: {written:?}");
    })
    .await;
}

#[tokio::test]
async fn a_number_or_a_date_that_cannot_be_decoded_is_an_error_of_its_group() {
    let defect = |aws: &Aws, text: &str| aws.group_details("web", |details| details.settings = text.to_owned());
    let grows = async |setup: &mut Setup<Aws>, group: &str, to: u32| {
        setup.emulator.simulated().set_desired_externally(group, to).expect("it exists");
        let is_seen = async |client: &mut Client| client.target(group).await == to.cast_signed();
        setup.client.until("its size is read", is_seen).await;
    };
    let aws = mk_cloud();
    defect(&aws, "<DesiredCapacity>abc</DesiredCapacity>");
    let mut setup = Setup::open(aws).await;
    assert_eq!(setup.client.node_groups().await.len(), 1, "the other one is served from the start");
    setup.server().logged("node group cannot be understood; it is not served yet");
    for (size, text) in (4..).zip(["<MaxSize>2147483648</MaxSize>", "<CreatedTime>now</CreatedTime>"]) {
        defect(&setup.emulator, "");
        setup.client.until("both are served", async |client| client.node_groups().await.len() == 2).await;
        grows(&mut setup, "web", size).await;
        defect(&setup.emulator, text);
        grows(&mut setup, "other", size).await;
        let mut caller = setup.server().untimed_client(AUTOSCALER_TIMEOUT).await;
        let (code, message) = refused_in_time(async || caller.increase("web", 1).await).await;
        assert_eq!(code, Code::Unavailable, "{message}");
        setup.client.refresh().await.expect("the source can be read");
        let served = setup.client.node_groups().await.len();
        assert_eq!((served, setup.client.target("web").await), (2, size.cast_signed()), "it is not gone");
    }
    setup.server().logged("node group cannot be understood; serving the last reading");
    assert!(setup.server().lines_with("source cannot be listed").is_empty());
    assert!(setup.emulator.requests_with("POST", "Action=SetDesiredCapacity").is_empty());
}

#[tokio::test]
async fn a_response_that_ends_early_is_an_error_of_its_page() {
    let cut = |end: &&str, whole: &str| whole[..whole.find(end).expect("it has it")].to_owned();
    let ends = ["<Instances>", "</Instances>", "</DescribeAutoScalingGroupsResponse>"];
    each_listed_as(ends, cut, async |_, setup| {
        assert!(setup.server().logged("source cannot be listed").contains("the response ends early"));
        assert!(setup.emulator.requests_with("POST", "Action=SetDesiredCapacity").is_empty());
    })
    .await;
}

/// XML that takes much memory, time, or a file of the machine.
#[derive(Clone, Copy)]
enum Bomb {
    Laughs,
    File,
    DeepAtTheEnd,
    DeepInside,
}

impl Bomb {
    fn placed_in(self, whole: &str) -> String {
        let named = |prologue: &str, entity: &str| {
            let name = format!("<AutoScalingGroupName>{entity}<");
            format!("{prologue}{}", whole.replacen("<AutoScalingGroupName>web<", &name, 1))
        };
        let (open, close) = ("<x>".repeat(200_000), "</x>".repeat(200_000));
        let end = "</DescribeAutoScalingGroupsResponse>";
        match self {
            Self::Laughs => {
                let entity = |level| format!("<!ENTITY e{level} \"{}\">", format!("&e{};", level - 1).repeat(10));
                let entities: String = (1..12).map(entity).collect();
                named(&format!("<!DOCTYPE r [<!ENTITY e0 \"ha\">{entities}]>"), "&e11;")
            }
            Self::File => named("<!DOCTYPE r [<!ENTITY file SYSTEM \"file:///etc/passwd\">]>", "&file;"),
            Self::DeepAtTheEnd => whole.replacen(end, &format!("{open}{close}{end}"), 1),
            Self::DeepInside => whole.replacen("<Instances>", &format!("<Instances>{open}{close}"), 1),
        }
    }
}

#[tokio::test]
async fn xml_that_is_a_bomb_is_an_error_of_its_page() {
    let bombs = [Bomb::Laughs, Bomb::File, Bomb::DeepAtTheEnd, Bomb::DeepInside];
    each_listed_as(
        bombs,
        |bomb, whole| bomb.placed_in(whole),
        async |_, setup| {
            assert!(setup.server().lines_with("root:").is_empty() && setup.server().lines_with("panic").is_empty());
            assert!(setup.emulator.requests_with("POST", "Action=SetDesiredCapacity").is_empty());
            let peak = setup.server().peak_memory();
            assert!(peak < 200, "{peak} MiB");
        },
    )
    .await;
}

#[tokio::test]
async fn a_response_without_an_end_holds_little_memory() {
    let aws = mk_cloud();
    let endless = "<DescribeAutoScalingGroupsResponse>".to_owned() + &"<x>".repeat(24 << 20);
    aws.script("POST", "Action=DescribeAutoScalingGroups", 3, HttpResponse::xml(200, endless));
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources: [{{name: here, aws: {{region: us-east-1, endpoint: \"{}\", nodeGroups: \
            [\"0:5:web\"]}}}}]\n",
        aws.url()
    ));
    let server = Server::with_config(&config);
    assert!(server.logged("source cannot be listed").contains("longer than 50331648 bytes"));
    server.logged("source can be listed again");
    assert_eq!(server.client().await.node_groups().await.len(), 1);
    takes_little("a response of AWS", &server, at_rest(&config));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_of_azure_or_of_the_kubernetes_api_has_a_limit() {
    // Any server that can be scripted will do as an API server.
    let arm = Arm::start(Arc::new(Simulated::with_groups(1, [GroupPlan::azure("web").sized(0, 5, 3)])));
    let padding = json!({"value": [], "items": [], "padding": "x".repeat(70 << 20)});
    arm.script("GET", "virtualMachineScaleSets", 2, HttpResponse::json(200, &padding));
    arm.script("GET", "/api/v1/nodes", 10_000, HttpResponse::json(200, &padding));
    let kubeconfig = json!({
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": arm.url()}}],
        "users": [{"name": "test", "user": {}}],
    });
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nlearn: {{kubernetes: true, kubeconfig: kubeconfig}}\n\
         sources: [{{name: here, azure: {{{}, nodeGroups: [\"0:5:web\"]}}}}]\n",
        arm.settings().join(", ")
    ));
    let config = config.beside("kubeconfig", &kubeconfig.to_string());
    let server = Server::with_config(&config);
    for (line, reason) in [
        ("source cannot be listed", "longer than 25165824 bytes"),
        ("nodes cannot be watched", "longer than 12582912 bytes"),
    ] {
        let line = server.logged(line);
        assert!(line.contains(reason), "{line}");
    }
    server.logged("source can be listed again");
    arm.script("GET", "/api/v1/nodes", 10_000, HttpResponse::json(404, &json!({})));
    takes_little("a response of Azure and one of the Kubernetes API at once", &server, at_rest(&config));
}

/// Starts Headcount on a source whose list never ends. Once it ends, the source is listed again.
fn a_list_without_an_end_is_given_up(emulator: &impl Emulator, limit: &str) {
    let settings = emulator.settings().join(", ");
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources: [{{name: here, {}: {{{settings}, nodeGroups: [\"0:5:web\"]}}}}]\n",
        emulator.cloud()
    ));
    let server = Server::with_config(&config);
    let line = server.logged("source cannot be listed");
    assert!(line.contains(limit), "{line}");
    server.logged("source can be listed again");
    takes_little(emulator.cloud(), &server, at_rest(&config));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_aws_without_an_end_holds_little_memory() {
    let aws = mk_cloud();
    let page = |number: usize| {
        let padding = format!("<!--{}-->", "x".repeat(45 << 20));
        format!(
            "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups/>{padding}\
             <NextToken>{number}</NextToken></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>"
        )
    };
    for number in 0..3 {
        aws.script("POST", "Action=DescribeAutoScalingGroups", 1, HttpResponse::xml(200, page(number)));
    }
    a_list_without_an_end_is_given_up(&aws, "the list has more than 128 MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_azure_without_an_end_holds_little_memory() {
    let arm = Arm::start(Arc::new(Simulated::with_groups(1, [GroupPlan::azure("web").sized(0, 5, 3)])));
    for number in 0..2 {
        let next = format!("{}/subscriptions/x/virtualMachineScaleSets?page={number}", arm.url());
        let page = json!({"value": [], "padding": "x".repeat(23 << 20), "nextLink": next});
        arm.script("GET", "virtualMachineScaleSets", 1, HttpResponse::json(200, &page));
    }
    a_list_without_an_end_is_given_up(&arm, "the list has more than 32 MiB");
}
