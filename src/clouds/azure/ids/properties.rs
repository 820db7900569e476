use proptest::prelude::*;

use super::*;
use crate::properties::{config, pieces};

const PIECES: [&str; 14] = [
    "azure://",
    "AZURE://",
    "/subscriptions/",
    "s-1",
    "/resourceGroups/",
    "MC_Group",
    "/providers/",
    "Microsoft.Compute",
    "/virtualMachineScaleSets/",
    "pool",
    "/virtualMachines/",
    "7",
    "/",
    "ä",
];

/// The form of an ID, whose parts are in order but may be empty, odd or missing.
fn nearly() -> impl Strategy<Value = String> {
    let part = || prop_oneof![4 => "[a-zA-Z0-9_-]{1,8}", 1 => Just(String::new()), 1 => "\\PC{0,4}"];
    (part(), part(), part(), part(), any::<bool>()).prop_map(|(subscription, group, set, machine, flexible)| {
        let start = format!("azure:///subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute");
        if flexible {
            format!("{start}/virtualMachines/{machine}")
        } else {
            format!("{start}/virtualMachineScaleSets/{set}/virtualMachines/{machine}")
        }
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn case_makes_no_difference(text in prop_oneof![pieces(&PIECES), nearly()]) {
        let lower = text.to_ascii_lowercase();
        let upper = text.to_ascii_uppercase();
        let folded = |parsed: Option<ParsedId<'_>>| parsed.map(|parsed| format!("{parsed:?}").to_ascii_lowercase());
        prop_assert_eq!(folded(parse(&lower)), folded(parse(&text)));
        prop_assert_eq!(folded(parse(&upper)), folded(parse(&text)));
    }

    #[test]
    fn making_an_id_of_an_id_changes_nothing(text in prop_oneof![pieces(&PIECES), nearly()]) {
        let arm = text.strip_prefix(SCHEME).unwrap_or(&text);
        let once = provider_id(arm);
        prop_assert_eq!(once.as_str().to_ascii_lowercase(), format!("{SCHEME}{arm}").to_ascii_lowercase());
        let again = provider_id(once.as_str().strip_prefix(SCHEME).expect("it has a scheme"));
        prop_assert_eq!(again, once);
    }

    #[test]
    fn a_machine_and_its_id_convert_to_each_other(set in "[a-z0-9-]{1,30}", machine in "[0-9]{1,6}") {
        let start = "/subscriptions/S-1/resourceGroups/mc_group/providers/Microsoft.Compute";
        let uniform = provider_id(&format!("{start}/virtualMachineScaleSets/{set}/virtualMachines/{machine}"));
        let flexible = provider_id(&format!("{start}/virtualMachines/{set}"));
        let named = |id: &ProviderId| parse(id.as_str()).map(|parsed| format!("{:?}", parsed.machine));
        prop_assert_eq!(named(&uniform), Some(format!("{:?}", MachineName::Uniform(&set, &machine))));
        prop_assert_eq!(named(&flexible), Some(format!("{:?}", MachineName::Standalone(&set))));
    }

    #[test]
    fn a_placeholder_is_of_its_sets_form(set in "[a-z0-9-]{1,30}", label in "[0-9-]{1,20}") {
        let group = GroupName::from(set.as_str());
        let uniform = ProviderId::from(placeholder_prefix(Orchestration::Uniform, "s", "RG", &group) + &label);
        let machine = parse(uniform.as_str()).map(|parsed| parsed.machine);
        let is_in_set = matches!(machine, Some(MachineName::Uniform(name, _)) if name == set);
        prop_assert!(is_in_set, "{}", uniform);
        let flexible = ProviderId::from(placeholder_prefix(Orchestration::Flexible, "s", "RG", &group) + &label);
        let is_named = matches!(parse(flexible.as_str()).map(|parsed| parsed.machine), Some(MachineName::Standalone(_)));
        prop_assert!(is_named, "{}", flexible);
    }
}
