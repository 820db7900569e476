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
    fn every_reader_takes_a_text_or_says_what_is_wrong_with_it(text in pieces(&PIECES)) {
        let told: Vec<String> = [
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
        prop_assert!(told.iter().all(|message| !message.is_empty() && message.len() < 300 + 6 * text.len()), "{:?}", told);
    }

    #[test]
    fn a_taint_is_read_as_it_is_printed(text in pieces(&PIECES)) {
        if let Ok(read) = taint(&text) {
            let printed = format!("{}={}:{}", read.key, read.value, read.effect.as_str());
            prop_assert_eq!(taint(&printed), Ok(read));
        }
    }

    #[test]
    fn a_duration_is_read_as_it_is_printed(text in pieces(&PIECES)) {
        if let Ok(read) = duration(&text) {
            prop_assert_eq!(duration(&humantime::format_duration(read).to_string()), Ok(read));
        }
    }

    #[test]
    fn a_share_is_between_nothing_and_all(value in any::<f64>()) {
        prop_assert!(share(value).is_err() || (0.0..=1.0).contains(&value));
    }
}
