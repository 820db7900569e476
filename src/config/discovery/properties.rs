use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 10] = ["label:", "min", "max", "=", ",", " ", "cluster", "prod", "-", "2147483648"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_label_query_that_is_accepted_asks_for_something_and_has_ordered_bounds(text in pieces(&PIECES)) {
        if let Ok(LabelQuery { labels, min, max }) = label_query(&text) {
            prop_assert!(!labels.is_empty() && labels.iter().all(|(key, value)| !key.is_empty() && !value.is_empty()));
            prop_assert!(min.is_none() || max.is_none() || min <= max);
            let bound = |name: &str, bound: Option<u32>| bound.map(|bound| format!("{name}={bound}"));
            let printed = labels.iter().map(|(key, value)| format!("{key}={value}"));
            let printed: Vec<String> = printed.chain(bound("min", min)).chain(bound("max", max)).collect();
            prop_assert_eq!(label_query(&format!("label:{}", printed.join(","))), Ok(LabelQuery { labels, min, max }));
        }
    }
}
