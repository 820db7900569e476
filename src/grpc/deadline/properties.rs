use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 10] = ["H", "M", "S", "m", "u", "n", "0", "99999999", "-", " "];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_parsed_timeout_is_one_of_the_protocol(text in prop_oneof![
        3 => pieces(&PIECES).prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..12),
    ]) {
        if let Some(timeout) = parse_timeout(&text) {
            prop_assert!(timeout <= Duration::from_secs(99_999_999 * 3600));
            prop_assert!(text.len() <= TIMEOUT_DIGITS_MAX + 1);
        }
    }

    #[test]
    fn a_write_is_sent_before_the_response_is_due(number in 0..=99_999_999_u64, unit in "[HMSmun]") {
        let timeout = parse_timeout(format!("{number}{unit}").as_bytes()).expect("a valid timeout");
        let now = Instant::now();
        let deadline = Deadline::within(timeout);
        prop_assert!(deadline.send_by <= deadline.respond_by);
        prop_assert!(deadline.send_by >= now, "a short timeout leaves time to send");
    }
}
