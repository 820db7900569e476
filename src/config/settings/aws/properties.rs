use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 9] =
    ["asg:", "tag=", "asg:tag=", "=", ",", " ", "k8s.io/cluster-autoscaler/enabled", "owned", ":"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_query_that_is_accepted_asks_for_something(text in pieces(&PIECES)) {
        if let Ok(query) = text.parse::<TagQuery>() {
            prop_assert!(!query.tags.is_empty(), "no condition would find every group there is");
            for (position, (key, value)) in query.tags.iter().enumerate() {
                prop_assert!(!key.is_empty() && value.as_deref() != Some(""));
                prop_assert!(query.tags[..position].iter().all(|(earlier, _)| earlier != key), "{} twice", key);
            }
            let printed = query.tags.iter().map(|(key, value)| match value {
                Some(value) => format!("{key}={value}"),
                None => key.clone(),
            });
            let printed = format!("asg:tag={}", printed.collect::<Vec<_>>().join(","));
            prop_assert_eq!(printed.parse::<TagQuery>().map(|query| query.tags), Ok(query.tags.clone()));
        }
    }
}
