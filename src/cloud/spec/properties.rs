use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 8] = [":", " ", "-", "+", "0", "10", "2147483648", "my-group"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_spec_that_is_accepted_has_ordered_bounds_and_a_name(text in pieces(&PIECES)) {
        if let Ok(spec) = text.parse::<NodeGroupSpec>() {
            prop_assert!(spec.min <= spec.max && i32::try_from(spec.max).is_ok(), "{:?}", spec);
            prop_assert!(!spec.name.is_empty() && spec.name.trim() == spec.name, "{:?}", spec);
            let printed = format!("{}:{}:{}", spec.min, spec.max, spec.name);
            prop_assert_eq!(printed.parse(), Ok(spec));
        }
    }

    #[test]
    fn every_good_spec_is_accepted(min in 0..=i32::MAX as u32, more in 0..=i32::MAX as u32, name in "[a-zA-Z0-9:/_.-]{1,40}") {
        let max = min.saturating_add(more).min(i32::MAX.unsigned_abs());
        prop_assert_eq!(format!("{min}:{max}:{name}").parse(), Ok(NodeGroupSpec { min, max, name }));
    }
}
