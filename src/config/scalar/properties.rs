use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 20] = [
    ":",
    "=",
    "-",
    ".",
    " ",
    "NoSchedule",
    "NoExecute",
    "gpu",
    "http://",
    "https://",
    "127.0.0.1",
    "[::1]",
    "8086",
    "h",
    "m",
    "s",
    "1",
    "584942417355y",
    "Gi",
    "%",
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_parser_accepts_a_text_or_says_what_is_wrong(text in pieces(&PIECES)) {
        let messages: Vec<String> = [
            duration(&text).err(),
            address(&text).err(),
            endpoint(&text).err(),
            quantity(&text).err(),
            taint(&text).err(),
            node_group(&text).err(),
            switch(&text).err(),
        ]
        .into_iter()
        .flatten()
        .collect();
        prop_assert!(messages.iter().all(|message| !message.is_empty() && message.len() < 300 + 6 * text.len()), "{:?}", messages);
    }

    #[test]
    fn a_printed_taint_parses_to_itself(text in pieces(&PIECES)) {
        if let Ok(read) = taint(&text) {
            let printed = format!("{}={}:{}", read.key, read.value, read.effect.as_str());
            prop_assert_eq!(taint(&printed), Ok(read));
        }
    }

    #[test]
    fn a_printed_duration_parses_to_itself(text in pieces(&PIECES)) {
        if let Ok(read) = duration(&text) {
            prop_assert_eq!(duration(&humantime::format_duration(read).to_string()), Ok(read));
        }
    }

    #[test]
    fn a_fraction_is_between_0_and_1(value in any::<f64>()) {
        prop_assert!(fraction(value).is_err() || (0.0..=1.0).contains(&value));
    }
}
