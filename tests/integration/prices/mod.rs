//! The two pricing calls, through the real binary, as the Cluster Autoscaler's price expander makes them.

mod command;
mod errors_of_estimates;
mod expander;
#[cfg(all(feature = "aws", feature = "azure"))]
mod live;

use std::collections::HashMap;

use headcount::grpc::proto::{ExternalGrpcNode, PricingNodePriceRequest, PricingPodPriceRequest};
use prost::Message as _;
use prost_types::Timestamp;
use tonic::{Code, Status};

use crate::peers::headcount::{Client, Server, refused};
use expander::{Expander, pod};

const HOUR: i64 = 3600;

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

fn node(name: &str, labels: &[(&str, &str)]) -> ExternalGrpcNode {
    let labels: HashMap<_, _> = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ExternalGrpcNode { name: name.to_owned(), labels, ..ExternalGrpcNode::default() }
}

async fn node_price(client: &mut Client, node: Option<ExternalGrpcNode>, seconds: i64) -> Result<f64, Status> {
    let (start_timestamp, end_timestamp) = (at(1_000_000), at(1_000_000 + seconds));
    let request = PricingNodePriceRequest { node, start_timestamp, end_timestamp, ..Default::default() };
    Ok(client.stub().pricing_node_price(request).await?.into_inner().price)
}

async fn pod_price(client: &mut Client, pod_bytes: Vec<u8>, seconds: i64) -> Result<f64, Status> {
    let (start_timestamp, end_timestamp) = (at(1_000_000), at(1_000_000 + seconds));
    let request = PricingPodPriceRequest { pod_bytes, start_timestamp, end_timestamp, ..Default::default() };
    Ok(client.stub().pricing_pod_price(request).await?.into_inner().price)
}

#[tokio::test]
async fn nodes_are_priced_by_their_group_or_else_by_their_labels() {
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    client.template("web").await.expect("built");
    client.template("batch-spot").await.expect("built");
    let m5 = [("node.kubernetes.io/instance-type", "m5.large"), ("topology.kubernetes.io/region", "us-east-1")];
    for (node, price) in [
        (node("template-node-for-web-5577006791947779410", &[]), 0.096),
        (node("template-node-for-web-12-0", &[("lifecycle", "Ec2Spot")]), 0.096),
        (node("elsewhere", &m5), 0.096),
        (node("elsewhere", &[m5[0], ("topology.kubernetes.io/zone", "us-gov-west-1a")]), 0.121),
        (
            node(
                "",
                &[
                    ("beta.kubernetes.io/instance-type", "standard_d2s_v3"),
                    ("topology.kubernetes.io/region", "japaneast"),
                ],
            ),
            0.129,
        ),
    ] {
        assert_eq!(node_price(&mut client, Some(node.clone()), HOUR).await.expect("a price"), price, "{node:?}");
    }
    // A mixed group has the price of its first type. Its nodes carry a spot label, and no spot price is known.
    let spot = node_price(&mut client, Some(node("template-node-for-batch-spot-1", &[])), HOUR).await.expect("a price");
    assert!((spot - 0.096 * 0.4).abs() < 1e-9, "{spot}");
    server.logged("some are estimates");
}

#[tokio::test]
async fn every_request_gets_a_price_above_zero_or_invalid_argument() {
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    let odd = [
        None,
        Some(node("", &[])),
        Some(node("template-node-for-", &[("node.kubernetes.io/instance-type", "x9.huge")])),
        Some(node("template-node-for-web", &[("topology.kubernetes.io/zone", "é-")])),
        Some(ExternalGrpcNode { provider_id: "aws:///us-east-1a/i-0".to_owned(), ..node("", &[("", "")]) }),
    ];
    for node in odd {
        let price = node_price(&mut client, node.clone(), HOUR).await.expect("a price");
        assert!(price > 0.0, "{node:?}");
        assert_eq!(node_price(&mut client, node.clone(), 0).await.expect("a price"), price / 60.0, "a minute at least");
        assert_eq!(refused(node_price(&mut client, node, -1).await).0, Code::InvalidArgument);
    }
    let (empty, full) = (pod("0", "0"), pod("500m", "500Mi"));
    let floor = pod_price(&mut client, Vec::new(), HOUR).await.expect("a price");
    assert!(floor > 0.0);
    assert_eq!(pod_price(&mut client, empty, HOUR).await.expect("a price"), floor);
    let price = pod_price(&mut client, full.clone(), HOUR).await.expect("a price");
    assert!(price > floor);
    assert_eq!(refused(pod_price(&mut client, full.clone(), -1).await).0, Code::InvalidArgument);
    assert_eq!(refused(pod_price(&mut client, vec![0xff, 0x01], HOUR).await).0, Code::InvalidArgument);

    // CA up to 1.33 sends a metav1.Time, whose fields are those of a timestamp, and the pod in another field.
    let time = |seconds| Timestamp { seconds, nanos: 0 }.encode_to_vec();
    let (start_time, end_time) = (time(HOUR), time(3 * HOUR));
    let request = PricingPodPriceRequest { pod: full, start_time, end_time, ..Default::default() };
    let two_hours = client.stub().pricing_pod_price(request).await.expect("a price").into_inner().price;
    assert_eq!(two_hours, 2.0 * price);
    let request = PricingNodePriceRequest { start_time: vec![0xff], ..Default::default() };
    let garbage = client.stub().pricing_node_price(request).await.expect_err("no time");
    assert_eq!(garbage.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_price_expander_chooses_the_cheaper_of_two_fitting_groups() {
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    // m5.large and m6g.large: the same cores and memory at 0.096 and 0.077 per hour.
    for (pods, nodes) in [(1, 1), (30, 5)] {
        let web = Expander::score(&mut client, "web", nodes, pods).await;
        let arm = Expander::score(&mut client, "arm", nodes, pods).await;
        assert!(arm < web, "{nodes} nodes for {pods} pods: web {web}, arm {arm}");
        let gpu = Expander::score(&mut client, "gpu", nodes, pods).await;
        assert!(gpu > 10.0 * web, "{gpu}");
    }
}
