//! The price lists.

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{RiProductDescription, SpotPrice};

use super::*;
use crate::cloud::{Market, PriceExtent, PriceList};

fn product(type_name: &str, system: &str, unit: &str, price: &str) -> String {
    let dimension = serde_json::json!({"unit": unit, "pricePerUnit": {"USD": price}});
    serde_json::json!({
        "product": {"attributes": {"instanceType": type_name, "operatingSystem": system}},
        "terms": {"OnDemand": {"a": {"priceDimensions": {"b": dimension}}}},
    })
    .to_string()
}

fn spot_price(type_name: &str, zone: &str, since: i64, price: &str) -> SpotPrice {
    SpotPrice::builder()
        .instance_type(Ec2Type::from(type_name))
        .availability_zone(zone)
        .product_description(RiProductDescription::LinuxUnix)
        .timestamp(DateTime::from_secs(since))
        .spot_price(price)
        .build()
}

fn fake() -> Fake {
    let fake = Fake::with(Vec::new());
    fake.state(|state| {
        state.page = 2;
        state.products = vec![
            product("m5.large", "Linux", "Hrs", "0.0960000000"),
            product("c5.large", "Linux", "Hrs", "0.0000000000"),
            product("c5.xlarge", "Linux", "Quantity", "900"),
            product("r5.large", "Windows", "Hrs", "0.2"),
            product("r5.xlarge", "Linux", "Hrs", "much"),
            "{}".to_owned(),
            product("t3.nano", "Linux", "Hrs", "0.0052000000"),
            product("m5.metal", "Linux", "Hrs", "4.608"),
        ];
        state.spot_prices = vec![
            spot_price("m5.large", "us-east-1a", 100, "0.05"),
            spot_price("m5.large", "us-east-1a", 200, "0.03"),
            spot_price("m5.large", "us-east-1a", 150, "0.04"),
            spot_price("m5.large", "us-east-1b", 100, "-1"),
        ];
    });
    fake
}

fn shown(list: &PriceList) -> Vec<String> {
    let place = |zone: &Option<String>| zone.clone().unwrap_or_default();
    list.prices.iter().map(|price| format!("{} {} {}", price.type_name, place(&price.zone), price.hourly)).collect()
}

#[tokio::test]
async fn every_page_is_read_and_only_hourly_prices_of_linux_are_kept() {
    let list = fake().aws(Settings::default()).price_list("us-east-1", PriceExtent::All).await;
    assert_eq!(shown(&list), ["m5.large  0.096", "t3.nano  0.0052", "m5.metal  4.608", "m5.large us-east-1a 0.03"]);
    assert!(list.problems.is_empty());
}

#[tokio::test]
async fn on_demand_and_spot_prices_fail_independently() {
    for (refused, prices) in [("GetProducts", 1), ("DescribeSpotPriceHistory", 3)] {
        let fake = fake();
        fake.fail(refused, "AccessDeniedException", "not authorized", 400);
        let list = fake.aws(Settings::default()).price_list("us-east-1", PriceExtent::All).await;
        assert_eq!(list.prices.len(), prices, "{refused}");
        assert!(matches!(&list.problems[..], [CloudError::Denied(fault)] if fault.operation == refused), "{refused}");
    }
}

#[tokio::test]
async fn endless_lists_are_abandoned_and_a_sample_is_one_page() {
    let fake = fake();
    fake.state(|state| {
        state.page = 1;
        state.products = vec![product("m5.large", "Linux", "Hrs", "1"); 150];
        state.spot_prices = vec![spot_price("m5.large", "us-east-1a", 1, "1"); 150];
    });
    let aws = fake.aws(Settings::default());
    let list = aws.price_list("us-east-1", PriceExtent::All).await;
    assert_eq!((list.prices.len(), list.problems.len()), (0, 2));
    assert!(list.problems.iter().all(|problem| problem.to_string().contains("more than 100 pages")));
    let calls = || fake.calls("GetProducts").len() + fake.calls("DescribeSpotPriceHistory").len();
    let before = calls();
    aws.price_list("us-east-1", PriceExtent::Sample).await;
    assert_eq!(calls() - before, 2);
    assert_eq!(aws.market(), Market { region: Some("us-east-1".to_owned()), ..Market::default() });
}

#[tokio::test]
async fn lists_of_too_many_prices_are_abandoned() {
    let fake = fake();
    fake.state(|state| {
        state.page = 50_000;
        state.products = vec![product("m5.large", "Linux", "Hrs", "1"); 150_000];
        let spot = |number: u32| spot_price(&format!("m{number}.large"), "us-east-1a", 1, "1");
        state.spot_prices = (0..150_000).map(spot).collect();
    });
    let aws = fake.aws(Settings::default());
    let list = aws.price_list("us-east-1", PriceExtent::All).await;
    assert_eq!((list.prices.len(), list.problems.len()), (0, 2), "no part of a list");
    assert!(list.problems.iter().all(|problem| problem.to_string().contains("or 100000 prices")));
}
