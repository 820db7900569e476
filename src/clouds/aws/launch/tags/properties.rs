use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::cloud::{Taint, TaintEffect};
use crate::properties::{config, pieces};

const KEY: [&str; 9] =
    [NODE_TEMPLATE, "label/", "taint/", "resources/", "autoscaling-options/", "/", "k8s.io/", "gpu", "eks:"];
const VALUE: [&str; 7] = [":", "NoSchedule", "NoExecute", "PreferNoSchedule", "noschedule", "100m", "true"];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn each_tag_gives_one_hint_or_at_most_one_warning(tags in vec((pieces(&KEY), pieces(&VALUE)), 0..20)) {
        let mut warnings = Vec::new();
        let hints = hints(tags.iter().map(|(key, value)| (key.as_str(), value.as_str())), &mut warnings);
        let said = hints.labels.len() + hints.resources.len() + hints.options.len() + hints.taints.len();
        prop_assert!(said + warnings.len() <= tags.len(), "{:?} and {:?}", hints, warnings);
        prop_assert!(hints.taints.is_sorted());
        prop_assert!(hints.options.keys().all(|name| *name == name.to_ascii_lowercase()));
        for named in hints.labels.keys().chain(hints.resources.keys()) {
            prop_assert!(tags.iter().any(|(key, _)| key.ends_with(named.as_str())) && !named.is_empty());
        }
        let shaping = tags.iter().any(|(key, _)| shapes_nodes(key));
        prop_assert!(said == 0 || shaping, "what changes a node changes the launch_fingerprint");
    }

    #[test]
    fn labels_and_taints_are_read_as_they_were_written(
        key in "[a-z./-]{1,30}",
        value in "([a-zA-Z0-9]([a-zA-Z0-9._-]{0,20}[a-zA-Z0-9])?)?",
    ) {
        let tags = [
            (format!("{NODE_TEMPLATE}label/{key}"), value.clone()),
            (format!("{NODE_TEMPLATE}taint/{key}"), format!("{value}:NoExecute")),
        ];
        let mut warnings = Vec::new();
        let hints = hints(tags.iter().map(|(key, value)| (key.as_str(), value.as_str())), &mut warnings);
        prop_assert_eq!(hints.labels.get(&key), Some(&value));
        prop_assert_eq!(hints.taints, [Taint { key, value, effect: TaintEffect::NoExecute }]);
        prop_assert!(warnings.is_empty());
    }
}
