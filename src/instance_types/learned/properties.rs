use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::properties::{config, json as any_json, slipped, spoiled};

fn good() -> Value {
    let figures = json!({"cpu": "2", "memory": "7876Mi", "pods": "29", "nvidia.com/gpu": "1"});
    let entry = |group: &str, node: &str| {
        json!({
            "group": group, "type": "m5.large", "image": "AL2023", "node": node, "lowest": "2026-11-01",
            "last": "2026-11-20", "newest": "2026-11-20T00:00:00Z", "capacity": figures, "allocatable": figures,
        })
    };
    let host = json!({"type": "m5.large", "missingKi": 300_000, "node": "a", "seen": "2026-11-20"});
    json!({"form": 1, "entries": [entry("us/web", "a"), entry("us/gpu", "b")], "hosts": [host]})
}

/// A text that was read is written so that it reads the same again.
fn is_stable(text: &str) -> bool {
    let Ok(mut read) = Learned::parse(text) else { return true };
    let written = read.to_text();
    Learned::parse(&written).is_ok_and(|again| again == read)
}

#[test]
fn the_text_that_the_tests_below_damage_is_valid() {
    assert_eq!(Learned::parse(&good().to_string()).expect("good").len(), 2);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_json_is_read_or_rejected(text in any_json()) {
        prop_assert!(is_stable(&text.to_string()));
    }

    #[test]
    fn a_text_with_other_values_is_read_or_rejected(text in spoiled(good())) {
        prop_assert!(is_stable(&text.to_string()), "{}", text);
    }

    #[test]
    fn a_damaged_text_is_read_or_rejected(written in slipped(good().to_string())) {
        prop_assert!(is_stable(&String::from_utf8_lossy(&written.0)));
    }
}
