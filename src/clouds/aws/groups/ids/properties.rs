use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 12] =
    ["aws:///", "AWS:///", "aws://", "/", "us-east-1a", "us-east-1", "i-", "I-0ab", "placeholder-", "asg", "ä", "-"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_instance_and_its_provider_id_convert_to_each_other(zone in "us-east-1[a-f]", instance in "i-[0-9a-f]{8,17}") {
        let id = provider_id(&zone, &instance);
        prop_assert_eq!(parse(id.as_str()), Some((zone.as_str(), instance.as_str())));
        prop_assert_eq!(instance_of(&id), Some(instance));
        prop_assert_eq!(recognise("us-east-1", id.as_str()), Recognition::Ours);
    }

    #[test]
    fn case_makes_no_difference(text in pieces(&PIECES)) {
        let known = recognise("us-east-1", &text);
        prop_assert_eq!(&recognise("us-east-1", &text.to_ascii_uppercase()), &known);
        prop_assert_eq!(&recognise("US-EAST-1", &text.to_ascii_lowercase()), &known);
        let instance = |text: String| instance_of(&text.into());
        prop_assert_eq!(instance(text.to_ascii_uppercase()), instance(text.clone()));
    }

    #[test]
    fn an_id_that_can_be_terminated_has_the_form_of_an_instance(text in pieces(&PIECES)) {
        if let Some(instance) = instance_of(&text.as_str().into()) {
            prop_assert!(instance.starts_with("i-") && instance.len() > 2, "{} of {}", instance, text);
            prop_assert!(instance[2..].chars().all(|letter| letter.is_ascii_alphanumeric()), "{} of {}", instance, text);
        }
    }
}
