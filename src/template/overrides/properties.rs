use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 12] = ["%", "-", "+", ".", "10", "100", "NaN", "inf", "e", "Mi", "Gi", "0.1"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_threshold_never_exceeds_the_capacity(text in pieces(&PIECES), bytes in any::<u64>()) {
        if let Ok(threshold) = text.parse::<Threshold>() {
            let kept = threshold.of(Quantity::bytes(bytes));
            if let Threshold::Share(share) = threshold {
                prop_assert!((0.0..=1.0).contains(&share), "{}", text);
                prop_assert!(kept.whole() <= bytes, "{} of {} is {}", text, bytes, kept);
            }
        }
    }

    #[test]
    fn a_greater_share_never_reserves_less(one in 0..=100_u32, other in 0..=100_u32, bytes in 0..=u64::MAX / 2) {
        let of = |percent: u32| format!("{percent}%").parse::<Threshold>().expect("a share").of(Quantity::bytes(bytes));
        prop_assert_eq!(of(100).whole(), bytes);
        prop_assert!(of(one.min(other)) <= of(one.max(other)));
    }
}
