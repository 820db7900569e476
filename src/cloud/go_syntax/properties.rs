use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 13] = ["h", "m", "s", "ms", "µs", "ns", ".", "-", "+", "0", "1", "2562047", "e"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_duration_fits_into_the_protocol(text in pieces(&PIECES)) {
        if let Some(duration) = parse_duration(&text) {
            prop_assert!(i64::try_from(duration.as_nanos()).is_ok(), "{:?}", duration);
            let printed = format!("{}ns", duration.as_nanos());
            prop_assert_eq!(parse_duration(&printed), Some(duration));
        }
    }
}
