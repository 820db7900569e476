use super::*;
use crate::instance_types::Table;

fn prices(markets: &[(Family, Market)]) -> Prices {
    Prices::new(Arc::new(Catalog::default()), markets)
}

fn market(region: &str) -> Market {
    Market { region: Some(region.to_owned()), currency: currency_of(region) }
}

fn offer(type_name: &str, region: &str, is_spot: bool) -> Offer {
    let family = if type_name.to_lowercase().starts_with("standard") { Family::Azure } else { Family::Aws };
    Offer { family, type_name: type_name.into(), region: Some(region.into()), zone: None, is_spot }
}

fn shown(quote: &Quote) -> String {
    format!("{} {} {}", quote.hourly, quote.currency, quote.provenance)
}

#[test]
fn a_price_comes_from_the_most_trusted_source_that_knows_it() {
    let table =
        "aws: {m5.large: {price: 0.05, spotPrice: 0.02}, c5.large: {price: 1}, own.huge: {cpu: 4, nominalMemory: 8Gi}}";
    let catalog = Catalog::new(vec![Table::parse(table, "mine.yaml").expect("a table")]);
    let prices = Prices::new(Arc::new(catalog), &[(Family::Aws, market("us-east-1"))]);
    for (type_name, region, is_spot, expected) in [
        ("m5.large", "us-east-1", false, "0.05 USD user table mine.yaml"),
        ("m5.large", "us-east-1", true, "0.02 USD user table mine.yaml"),
        ("c5.large", "us-east-1", true, "0.4 USD estimate: share of the on-demand price (user table mine.yaml)"),
        ("m5.xlarge", "us-east-1", false, "0.192 USD shipped table 2026-07-20"),
        ("m5.xlarge", "us-gov-west-1", false, "0.242 USD shipped table 2026-07-20"),
        ("m5.xlarge", "eu-west-3", false, "0.192 USD estimate: price in us-east-1"),
        ("Standard_D2s_v3", "westus2", false, "0.096 USD shipped table 2026-06-18"),
        ("standard_d2s_V3", "nowhere", false, "0.096 USD estimate: price in eastus"),
    ] {
        assert_eq!(shown(&prices.quote(&offer(type_name, region, is_spot))), expected, "{type_name} {region}");
    }
    let own = prices.quote(&offer("own.huge", "us-east-1", false));
    assert_eq!(own.provenance.to_string(), "estimate: by cores and memory at the rates of us-east-1");
    assert!((0.1..0.3).contains(&own.hourly), "{}", own.hourly);
    let runner_up = prices.quote(&offer("m5.large", "us-east-1", false)).runner_up.expect("the shipped table");
    assert_eq!((runner_up.0, runner_up.1.to_string()), (0.096, "shipped table 2026-07-20".to_owned()));
}

#[test]
fn a_node_of_an_unknown_type_has_the_price_of_the_median_type_and_is_counted() {
    let prices = prices(&[(Family::Azure, market("eastus"))]);
    let unknown = Offer::of_labels(&std::collections::HashMap::new(), prices.family());
    assert!(prices.quote(&unknown).provenance.to_string().ends_with("median of eastus"));
    assert_eq!(prices.estimates(), 0, "a quote is not counted");
    assert!(prices.node(&unknown, 1.0) > 0.0);
    assert_eq!(prices.node(&unknown, 2.0), 2.0 * prices.node(&unknown, 1.0));
    prices.node(&offer("Standard_D2s_v3", "eastus", false), 1.0);
    assert_eq!(prices.estimates(), 3);
}

#[test]
fn only_a_server_whose_sources_are_all_in_china_returns_prices_in_yuan() {
    let china = prices(&[(Family::Aws, market("cn-north-1")), (Family::Azure, market("chinanorth3"))]);
    assert_eq!(shown(&china.quote(&offer("m5.large", "cn-north-1", false))), "1.013 CNY shipped table 2024-11-06");
    let other = china.quote(&offer("m5.large", "cn-northwest-1", false));
    assert_eq!(shown(&other), "1.013 CNY estimate: price in cn-north-1");
    let azure = china.quote(&offer("Standard_D2s_v3", "chinanorth3", false));
    assert_eq!((azure.currency, azure.provenance.to_string().as_str()), (Currency::Cny, "estimate: price in eastus"));
    assert!((0.4..1.5).contains(&azure.hourly), "{}", azure.hourly);

    let mixed = prices(&[(Family::Aws, market("cn-north-1")), (Family::Aws, market("us-east-1"))]);
    assert_eq!(shown(&mixed.quote(&offer("m5.large", "cn-north-1", false))), "0.096 USD estimate: price in us-east-1");
    assert!(mixed.rates().core < china.rates().core / 3.0);
}

#[test]
fn pods_are_priced_by_the_rates_of_the_first_source() {
    let prices = prices(&[(Family::Aws, market("us-east-1"))]);
    let Rates { core, gib, .. } = *prices.rates();
    assert!((0.02..0.06).contains(&core) && (0.001..0.02).contains(&gib), "{core} {gib}");
    assert_eq!(prices.pod(&[], 1.0), Ok(core * CORES_OF_EMPTY_POD));
    assert!(prices.pod(&[0xff], 1.0).is_err());
}

#[test]
fn the_region_of_the_first_source_may_become_known_later() {
    let prices = prices(&[(Family::Azure, Market::default())]);
    assert!(prices.lacks_region());
    let before = prices.rates();
    prices.set_region("switzerlandnorth");
    assert!(!prices.lacks_region() && prices.rates().core > before.core);
}
