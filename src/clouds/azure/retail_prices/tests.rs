use serde_json::{Value, json};

use super::*;
use crate::clouds::azure::http::{Loopback, Reply};

fn item(size: &str, suffix: &str, price: f64) -> Value {
    json!({
        "currencyCode": "USD", "tierMinimumUnits": 0.0, "retailPrice": price, "armRegionName": "westus2",
        "meterName": format!("D2s{suffix}"), "skuName": format!("D2s{suffix}"), "productName": "Virtual Machines DSv3 \
            Series",
        "serviceName": "Virtual Machines", "unitOfMeasure": "1 Hour", "type": "Consumption",
        "isPrimaryMeterRegion": true, "armSkuName": size,
    })
}

fn page(items: &[Value], next: Option<&str>) -> Reply {
    Reply::json(json!({"Items": items, "NextPageLink": next, "Count": items.len()}))
}

async fn read(replies: Vec<Reply>) -> (PriceList, Loopback) {
    let loopback = Loopback::start(replies).await;
    let transport = Arc::new(Transport::plain().expect("a client"));
    let base = Url::parse(&loopback.base()).expect("a URL");
    let prices = RetailPrices { transport, base, meter: CallMeter::default() };
    (prices.read("westus2").await, loopback)
}

#[tokio::test]
async fn pages_are_followed_on_the_same_host_only() {
    let first = page(&[item("Standard_D2s_v3", "", 0.1)], Some("{base}/api/retail/prices?$skip=1"));
    let (list, loopback) = read(vec![first, page(&[item("Standard_D2s_v3", " Spot", 0.02)], Some(""))]).await;
    assert_eq!((list.prices.len(), list.problems.len()), (2, 0), "{list:?}");
    assert!(loopback.received().iter().all(|request| !request.headers.contains_key("authorization")));
    assert!(
        loopback.received()[0].target.contains("armRegionName%20eq%20%27westus2%27"),
        "{:?}",
        loopback.received()[0]
    );

    let elsewhere = page(&[item("Standard_D2s_v3", "", 0.1)], Some("http://elsewhere.example/api/retail/prices"));
    let (list, loopback) = read(vec![elsewhere]).await;
    assert_eq!((list.prices.len(), loopback.received().len()), (0, 1));
    assert!(list.problems[0].to_string().contains("another host"), "{:?}", list.problems);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_a_problem_and_no_price() {
    for (reply, problem) in [
        (Reply::new(200, "{\"Items\": [{\"retailPrice\": \"dear\"}]}"), "not a list of prices"),
        (Reply::new(200, "<html>"), "not a list of prices"),
        (Reply::new(429, "{}").header("retry-after", "7"), "throttled"),
        (Reply::new(500, ""), "RetailPrices_List"),
    ] {
        let (list, _loopback) = read(vec![reply]).await;
        assert!(list.prices.is_empty() && list.problems[0].to_string().contains(problem), "{:?}", list.problems);
    }
}

#[tokio::test]
async fn sovereign_clouds_have_no_list_and_a_configured_endpoint_is_the_only_host() {
    let settings = crate::clouds::azure::tests::settings();
    let base = |cloud, endpoint: &str| {
        let settings = Settings { cloud, ..settings.clone() };
        let transport = Arc::new(Transport::plain().expect("a client"));
        let prices =
            RetailPrices::new(&settings, &Url::parse(endpoint).expect("a URL"), transport, CallMeter::default());
        prices.map(|prices| prices.base.to_string())
    };
    let public = "https://management.azure.com";
    assert_eq!(base(AzureCloud::Public, public).as_deref(), Some("https://prices.azure.com/"));
    assert_eq!(base(AzureCloud::Public, "http://127.0.0.1:9000").as_deref(), Some("http://127.0.0.1:9000/"));
    assert_eq!((base(AzureCloud::China, public), base(AzureCloud::UsGovernment, public)), (None, None));
}
