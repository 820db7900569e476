use std::collections::HashMap;

use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::properties::{config, pieces};

const KEYS: [&str; 9] = [
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "eks.amazonaws.com/capacityType",
    "kubernetes.azure.com/scalesetpriority",
    "lifecycle",
    "",
];
const VALUES: &[&str] = &[
    "m5.large",
    "Standard_D2s_v3",
    "standard_",
    "_promo",
    "us-east-1",
    "a",
    "-",
    "eastus",
    "cn-north-1",
    "china",
    "SPOT",
    "spot",
    "p5.48xlarge",
    ".",
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_node_has_a_price_above_zero(
        labels in hash_map(select(&KEYS[..]).prop_map(str::to_owned), pieces(VALUES), 0..6),
        region in proptest::option::of(pieces(VALUES)),
        is_china in any::<bool>(),
        azure in any::<bool>(),
        hours in 0.016..1e6,
    ) {
        let family = if azure { Family::Azure } else { Family::Aws };
        let currency = if is_china { Currency::Cny } else { Currency::Usd };
        let prices = Prices::new(Arc::new(Catalog::default()), &[(family, Market { region, currency })]);
        let labels: HashMap<String, String> = labels;
        let offer = Offer::of_labels(&labels, family);
        let price = prices.node(&offer, hours);
        prop_assert!(price > 0.0 && price.is_finite(), "{:?} {}", offer, price);
        let quote = prices.quote(&offer);
        prop_assert_eq!(prices.estimates(), u64::from(quote.provenance.is_estimate()));
    }

    #[test]
    fn every_pod_has_a_price_above_zero_or_is_refused(bytes in vec(any::<u8>(), 0..64), hours in 0.016..1e6) {
        let prices = Prices::new(Arc::new(Catalog::default()), &[]);
        prop_assert!(prices.pod(&bytes, hours).map_or(true, |price| price > 0.0 && price.is_finite()));
    }

    #[test]
    fn every_period_is_a_minute_at_least_or_refused(start in any::<i64>(), end in any::<i64>(), nanos in any::<i32>()) {
        let at = |seconds| (Some(prost_types::Timestamp { seconds, nanos }), &[][..]);
        match hours(at(start), at(end)) {
            Ok(hours) => prop_assert!(hours >= 1.0 / 60.0 && hours.is_finite() && end >= start - 2),
            Err(_) => prop_assert!(end < start + 2),
        }
    }
}
