//! Prices fetched from the clouds, through the real binary over the emulators.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::Value;

use super::{HOUR, node, node_price, pod_price};
use crate::emulators::arm::{self, Arm};
use crate::emulators::aws::{self, Aws};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint, HttpResponse};
use crate::peers::headcount::{Client, ConfigFile, Server, eventually, run};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const TYPE: &str = "node.kubernetes.io/instance-type";

/// Text in the bodies of GetProducts and DescribeSpotPriceHistory requests, and in the path of the retail prices.
const GET_PRODUCTS: &str = "\"AmazonEC2\"";
const SPOT_PRICES: &str = "Action=DescribeSpotPriceHistory";
const RETAIL_PRICES: &str = "/api/retail/prices";

fn aws() -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 10, 2)])))
}

fn arm() -> Arm {
    Arm::start(Arc::new(Simulated::with_groups(1, [GroupPlan::azure("pool").sized(0, 10, 2)])))
}

async fn price(client: &mut Client, type_name: &str, place: (&str, &str), is_spot: bool) -> f64 {
    let mut labels = vec![(TYPE, type_name), place];
    if is_spot {
        labels.push(("karpenter.sh/capacity-type", "spot"));
    }
    node_price(client, Some(node("elsewhere", &labels)), HOUR).await.expect("a price")
}

fn denied() -> HttpResponse {
    let body = serde_json::json!({"__type": "AccessDeniedException", "Message": "not authorized to perform: \
        pricing:GetProducts"});
    HttpResponse::json(400, &body).header("x-amzn-errortype", "AccessDeniedException")
}

#[tokio::test]
async fn live_prices_of_20_types_of_aws_are_exact() {
    let emulator = aws();
    emulator.behavior(|behavior| behavior.page = 7);
    let mut setup = Setup::open(emulator).await;
    assert!(setup.emulator.requests_with("POST", GET_PRODUCTS).is_empty(), "no price has been requested");
    assert_eq!(
        price(&mut setup.client, "m5.large", (REGION, "us-east-1"), false).await,
        0.096,
        "the price of the \
    shipped table"
    );
    setup.server().logged("prices fetched from the cloud");
    for (name, on_demand, in_a, in_b) in aws::PRICES {
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let (region, a, b, c) =
            ((REGION, "us-east-1"), (ZONE, "us-east-1a"), (ZONE, "us-east-1b"), (ZONE, "us-east-1c"));
        for (place, is_spot, expected) in [
            (region, false, number(on_demand)),
            (a, false, number(on_demand)),
            (a, true, number(in_a)),
            (b, true, number(in_b)),
            (c, true, number(in_a).max(number(in_b))),
            (region, true, number(in_a).max(number(in_b))),
        ] {
            assert_eq!(price(&mut setup.client, name, place, is_spot).await, expected, "{name} {place:?} {is_spot}");
        }
    }
    let calls = setup.emulator.requests_with("POST", GET_PRODUCTS);
    assert_eq!(calls.len(), 4, "18 types and 2 of metal, 7 on a page");
    let signed = |request: &crate::emulators::Request| {
        request.header("authorization").is_some_and(|by| by.contains("/us-east-1/pricing/"))
    };
    assert!(calls.iter().all(signed), "{calls:?}");
}

#[tokio::test]
async fn live_prices_of_20_sizes_of_azure_are_exact() {
    let emulator = arm();
    emulator.behavior(|behavior| behavior.page = 7);
    let mut setup = Setup::with(emulator, |options| options.source.push("location: West US 2".to_owned())).await;
    let place = (REGION, "westus2");
    assert_eq!(
        price(&mut setup.client, "Standard_D2s_v3", place, false).await,
        0.096,
        "the price of the shipped table"
    );
    setup.server().logged("prices fetched from the cloud");
    for (name, on_demand, spot) in arm::PRICES {
        assert_eq!(price(&mut setup.client, name, place, false).await, on_demand, "{name}");
        assert_eq!(price(&mut setup.client, &name.to_lowercase(), place, true).await, spot, "{name}");
    }
    let calls = setup.emulator.requests_with("GET", RETAIL_PRICES);
    assert!(calls.len() > 10 && calls.iter().all(|call| call.header("authorization").is_none()), "{}", calls.len());
    assert!(calls.iter().all(|call| call.status == Some(200)));
}

#[tokio::test]
async fn a_price_never_waits_for_the_cloud() {
    let mut setup = Setup::open(aws()).await;
    setup.emulator.hold("POST", GET_PRODUCTS, HoldPoint::BeforeEffect);
    let place = (REGION, "us-east-1");
    assert_eq!(price(&mut setup.client, "m5.large", place, false).await, 0.096);
    let emulator = &setup.emulator;
    eventually("the list is being read", || !emulator.requests_with("POST", GET_PRODUCTS).is_empty()).await;
    // All of these are returned while the cloud's response is still held back.
    for _ in 0..100 {
        assert_eq!(price(&mut setup.client, "m5.large", place, false).await, 0.096);
        assert!(pod_price(&mut setup.client, super::pod("1", "1Gi"), HOUR).await.expect("a price") > 0.0);
    }
    setup.emulator.release();
    setup
        .client
        .until("the list is in use", async |client| price(client, "m5.large", place, false).await == 0.0971)
        .await;
}

#[tokio::test]
async fn a_refused_call_is_logged_once_and_the_other_prices_are_used() {
    let emulator = aws();
    emulator.script("POST", GET_PRODUCTS, 99, denied());
    let mut setup = Setup::open(emulator).await;
    let place = (ZONE, "us-east-1a");
    setup
        .client
        .until("spot prices are in use", async |client| price(client, "m5.large", place, true).await == 0.0341)
        .await;
    assert_eq!(price(&mut setup.client, "m5.large", place, false).await, 0.096, "the price of the shipped table");
    setup.server().logged("prices cannot be fetched from the cloud");
    let lines = setup.server().lines_with("prices cannot be fetched from the cloud");
    assert!(lines.len() == 1 && lines[0].contains("denied: GetProducts"), "{lines:?}");
    assert_eq!(setup.emulator.requests_with("POST", GET_PRODUCTS).len(), 1, "a refusal is not retried");
    assert!(setup.server().lines_with("some are estimates").is_empty(), "the spot price is known by now");
}

#[tokio::test]
async fn nothing_is_fetched_if_the_configuration_forbids_it() {
    let mut setup = Setup::with(aws(), |options| options.more = "prices: {live: false}".to_owned()).await;
    for _ in 0..3 {
        assert_eq!(price(&mut setup.client, "m5.large", (REGION, "us-east-1"), false).await, 0.096);
        let listings = || setup.emulator.requests_with("POST", "Action=Describe").len();
        let before = listings();
        eventually("the groups are listed again", || listings() > before).await;
    }
    let emulator = &setup.emulator;
    assert!([GET_PRODUCTS, SPOT_PRICES].iter().all(|call| emulator.requests_with("POST", call).is_empty()));
}

/// Two sources, one of them in China.
fn mixed(china: &Aws, elsewhere: &Aws) -> ConfigFile {
    let source = |name: &str, region: &str, emulator: &Aws| {
        format!(
            "  - {{name: {name}, aws: {{region: {region}, endpoint: \"{}\", nodeGroups: [\"0:9:web\"]}}}}\n",
            emulator.url()
        )
    };
    let sources = source("china", "cn-north-1", china) + &source("elsewhere", "us-east-1", elsewhere);
    ConfigFile::new(&format!("sources:\n{sources}"))
}

#[tokio::test]
async fn prices_in_yuan_are_not_fetched_beside_prices_in_dollars() {
    let (china, elsewhere) = (aws(), aws());
    let server = Server::with_config(&mixed(&china, &elsewhere));
    let mut client = server.client().await;
    price(&mut client, "m5.large", (REGION, "us-east-1"), false).await;
    server.logged("prices fetched from the cloud");
    assert_eq!(price(&mut client, "m5.large", (REGION, "us-east-1"), false).await, 0.0971);
    assert_eq!(price(&mut client, "m5.large", (REGION, "cn-north-1"), false).await, 0.096, "in dollars, by estimate");
    assert!([GET_PRODUCTS, SPOT_PRICES].iter().all(|call| china.requests_with("POST", call).is_empty()));
}

#[tokio::test]
async fn the_prices_command_shows_live_prices_and_what_they_override() {
    let setup = Setup::open(aws()).await;
    let shown = || {
        let output = run(&["prices", "--config", &setup.config(), "-o", "json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("an array");
        rows.into_iter().next().expect("a row")
    };
    let row = shown();
    assert_eq!((&row["price"], &row["estimate"]), (&0.0971.into(), &false.into()), "{row}");
    assert!(row["provenance"].as_str().is_some_and(|text| text.starts_with("live 20")), "{row}");
    assert!(row["date"].as_str().is_some_and(|text| text.starts_with("20")), "{row}");
    assert_eq!(row["overrides"]["price"], 0.096, "{row}");
    setup.emulator.script("POST", GET_PRODUCTS, 99, denied());
    let row = shown();
    assert_eq!((&row["price"], &row["provenance"]), (&0.096.into(), &"shipped table 2026-07-20".into()), "{row}");
}
