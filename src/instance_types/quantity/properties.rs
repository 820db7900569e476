use proptest::prelude::*;
use proptest::sample::select;

use super::syntax::LENGTH_MAX;
use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 14] = ["-", "+", ".", "0", "1", "512", "m", "n", "k", "Ki", "Gi", "Ei", "e", "E-3"];
/// Each suffix, and what a number before it is multiplied by, in 10⁻⁹.
const SUFFIXES: [(&str, i128); 9] = [
    ("n", 1),
    ("m", 1_000_000),
    ("", 1_000_000_000),
    ("k", 1_000_000_000_000),
    ("e3", 1_000_000_000_000),
    ("G", 1_000_000_000_000_000_000),
    ("Ki", 1024 * 1_000_000_000),
    ("Mi", 1024 * 1024 * 1_000_000_000),
    ("Gi", 1024 * 1024 * 1024 * 1_000_000_000),
];

fn any_quantity() -> impl Strategy<Value = Quantity> {
    (any::<bool>(), 0..=8_000_000_000_u64, select(&SUFFIXES[..])).prop_map(|(negative, number, (suffix, _))| {
        let sign = if negative { "-" } else { "" };
        format!("{sign}{number}{suffix}").parse().expect("below the largest quantity")
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_quantity_that_was_read_is_printed_so_that_it_reads_the_same(text in pieces(&PIECES)) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let printed = quantity.to_string();
            prop_assert_eq!(printed.parse::<Quantity>(), Ok(quantity), "{} printed as {}", text, printed);
            prop_assert_eq!(&printed.parse::<Quantity>().expect("it was").to_string(), &printed, "canonical");
        }
    }

    #[test]
    fn an_error_is_short_even_if_the_text_is_long(text in "[0-9.eEKi]{0,300}") {
        if let Err(error) = text.parse::<Quantity>() {
            prop_assert!(error.to_string().len() < LENGTH_MAX + 120, "{}", error);
        }
    }

    #[test]
    fn a_suffix_multiplies((suffix, factor) in select(&SUFFIXES[..]), number in 0..=8_000_000_000_i64) {
        let quantity: Quantity = format!("{number}{suffix}").parse().expect("below the largest quantity");
        prop_assert_eq!(quantity.nanos, i128::from(number) * factor);
    }

    #[test]
    fn what_is_added_can_be_subtracted(one in any_quantity(), other in any_quantity()) {
        prop_assert!(!one.less(other).is_negative());
        let positive = |quantity: Quantity| quantity.less(Quantity::ZERO);
        let (one, other) = (positive(one), positive(other));
        let sum = one.plus(other);
        prop_assert!(sum >= one && sum >= other, "{} + {} = {}", one, other, sum);
        if sum.nanos < UNITS_MAX * NANOS_PER_UNIT {
            prop_assert_eq!(sum.less(other), one);
        }
    }
}
