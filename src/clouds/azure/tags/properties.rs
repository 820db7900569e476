use proptest::collection::btree_map;
use proptest::prelude::*;

use super::*;
use crate::cloud::{Taint, TaintEffect};
use crate::properties::{config, pieces};

const KEY: [&str; 10] =
    [NODE_TEMPLATE, "label_", "taint_", "resources_", "autoscaling-options_", "_", "~2", "k8s.io", "AKS-managed-", "ä"];
const VALUE: [&str; 8] = [":", ",", "NoSchedule", "NoExecute", "PreferNoSchedule", "noschedule", "100m", " "];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn tags_become_settings_or_remarks(tags in btree_map(pieces(&KEY), pieces(&VALUE), 0..20)) {
        let mut remarks = Vec::new();
        let hints = hints(&tags, &mut remarks);
        let said = hints.labels.len() + hints.resources.len() + hints.options.len();
        let taints: usize = tags.values().map(|value| value.split(',').count()).sum();
        prop_assert!(said <= tags.len() && hints.taints.len() + remarks.len() <= taints, "{:?} {:?}", hints, remarks);
        prop_assert!(hints.taints.is_sorted());
        let shaping = tags.keys().any(|key| shapes_nodes(key));
        prop_assert!(said + hints.taints.len() == 0 || shaping, "what changes a node changes the launch_fingerprint");
        prop_assert!(aks_pool(&tags).is_none_or(|pool| !pool.is_empty()));
    }

    #[test]
    fn the_case_of_a_tags_name_only_changes_the_name_in_it(
        name in "[a-z.-]{1,20}",
        value in "[a-z0-9]{0,10}",
    ) {
        let read = |prefix: String| {
            let mut remarks = Vec::new();
            let tags = BTreeMap::from([(format!("{prefix}{name}"), value.clone())]);
            hints(&tags, &mut remarks).labels
        };
        let plain = read(format!("{NODE_TEMPLATE}label_"));
        prop_assert_eq!(&plain, &read(format!("{NODE_TEMPLATE}label_").to_ascii_uppercase()));
        prop_assert_eq!(plain.get(&name), Some(&value));
    }

    #[test]
    fn a_written_taint_is_read_back_unchanged(value in "([a-zA-Z0-9]([a-zA-Z0-9._-]{0,20}[a-zA-Z0-9])?)?") {
        let tags = BTreeMap::from([(format!("{NODE_TEMPLATE}taint_gpu"), format!("{value}:NoExecute"))]);
        let mut remarks = Vec::new();
        let taint = Taint { key: "gpu".to_owned(), value, effect: TaintEffect::NoExecute };
        prop_assert_eq!(hints(&tags, &mut remarks).taints, [taint]);
    }
}
