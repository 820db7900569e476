use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::properties::{config, pieces};

const NAMES: [&str; 8] = [
    "scaledownutilizationthreshold",
    "scaledowngpuutilizationthreshold",
    "scaledownunneededtime",
    "scaledownunreadytime",
    "maxnodeprovisiontime",
    "zeroormaxnodescaling",
    "ignoredaemonsetsutilization",
    "unknown",
];
const PIECES: [&str; 16] =
    ["h", "m", "s", "ms", "µs", "ns", ".", "-", "+", "0", "1", "true", "NaN", "inf", "2562047", "e"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_tags_become_options_that_are_valid(
        tags in btree_map(select(&NAMES[..]).prop_map(str::to_owned), pieces(&PIECES), 0..8),
    ) {
        let options = Options::from_tags("g", &tags);
        let shares = [options.scale_down_utilization_threshold, options.scale_down_gpu_utilization_threshold];
        prop_assert!(shares.into_iter().flatten().all(|share| (0.0..=1.0).contains(&share)), "{:?}", options);
        prop_assert!(options.max_node_provision_time.is_none_or(|time| !time.is_zero()), "new nodes die at once");
        prop_assert_eq!(options.merge(&Options::default()), options);
        prop_assert_eq!(Options::default().merge(&options), options);
    }
}
