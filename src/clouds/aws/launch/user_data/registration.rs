//! The labels and taints that a kubelet registers its node with: its flags, nodeadm's `registerWithTaints`, and
//! Bottlerocket's `node-labels` and `node-taints`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::settings::{settings, variables};
use super::{toml, yaml};
use crate::cloud::{Taint, TaintEffect, is_qualified_name};

const BOTTLEROCKET_LABELS: [&str; 3] = ["settings", "kubernetes", "node-labels"];
const BOTTLEROCKET_TAINTS: [&str; 3] = ["settings", "kubernetes", "node-taints"];

/// The labels that the node registers with. A label with two values is left out: which one a node gets depends on how its
/// script runs.
pub(super) fn labels(text: &str) -> BTreeMap<String, String> {
    let flags = settings(text, "--node-labels").chain(variables(text, "NODE_LABELS"));
    let flags = flags.flat_map(|value| value.split(',')).filter_map(pair);
    let bottlerocket = toml::entries(text, &BOTTLEROCKET_LABELS).into_iter();
    let bottlerocket = bottlerocket.filter_map(|(key, values)| plain_pair(key, values.into_iter().next()?));
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (key, value) in bottlerocket.chain(flags) {
        labels.entry(key).or_default().insert(value);
    }
    let clear = labels.into_iter().filter(|(_, values)| values.len() == 1);
    clear.filter_map(|(key, mut values)| Some((key, values.pop_first()?))).collect()
}

/// The taints that the node registers with, without duplicates.
pub(super) fn taints(text: &str) -> Vec<Taint> {
    let flags = settings(text, "--register-with-taints").chain(variables(text, "NODE_TAINTS"));
    let flags = flags.flat_map(|value| value.split(',')).filter_map(taint);
    let bottlerocket = toml::entries(text, &BOTTLEROCKET_TAINTS).into_iter().flat_map(|(key, values)| {
        // A string may list several: "a:NoSchedule,b:NoExecute".
        let values: Vec<String> = values.iter().flat_map(|value| value.split(',')).map(str::to_owned).collect();
        values.into_iter().filter_map(move |value| taint(&format!("{key}={}", value.trim())))
    });
    let mut found: Vec<Taint> = Vec::new();
    for taint in flags.chain(bottlerocket).chain(of_nodeadm(text)) {
        if !found.contains(&taint) {
            found.push(taint);
        }
    }
    found
}

/// A taint in a kubelet's configuration.
#[derive(Deserialize)]
struct RegisteredTaint {
    key: String,
    #[serde(default)]
    value: Option<String>,
    effect: String,
}

/// The taints under `registerWithTaints` in a nodeadm `NodeConfig`, in YAML or JSON.
fn of_nodeadm(text: &str) -> impl Iterator<Item = Taint> {
    let lists = yaml::sequences(text, "registerWithTaints");
    let lists = lists.filter_map(|list| serde_saphyr::from_str::<Vec<RegisteredTaint>>(&list).ok());
    lists.flatten().filter_map(|taint| {
        let (key, value) = plain_pair(taint.key, taint.value.unwrap_or_default())?;
        Some(Taint { key, value, effect: TaintEffect::parse(&taint.effect)? })
    })
}

/// Whether a text is literal, with nothing that a shell or a templating engine would expand.
fn is_plain(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
}

fn plain_pair(key: String, value: String) -> Option<(String, String)> {
    (is_qualified_name(&key) && is_plain(&value)).then_some((key, value))
}

/// `key=value` or `key`.
fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    plain_pair(key.to_owned(), value.to_owned())
}

/// `key=value:Effect` or `key:Effect`.
fn taint(text: &str) -> Option<Taint> {
    let (rest, effect) = text.rsplit_once(':')?;
    let (key, value) = pair(rest)?;
    Some(Taint { key, value, effect: TaintEffect::parse(effect)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        taints(text).iter().map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect.as_str())).collect()
    }

    #[test]
    fn labels_and_taints_of_the_kubelets_flags() {
        let text = "flags:\n- \"--node-labels=team=ml,example.com/role=,zone=${ZONE},$(whoami)=x\"\n\
                    - --register-with-taints=gpu=true:NoSchedule,bare:NoExecute,odd:Sometimes\n";
        let labels: Vec<_> = labels(text).into_iter().collect();
        assert_eq!(
            labels,
            [("example.com/role", ""), ("team", "ml")].map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        assert_eq!(shown(text), ["gpu=true:NoSchedule", "bare=:NoExecute"]);
    }

    #[test]
    fn labels_and_taints_of_the_environment_that_eksctl_writes() {
        let text = "write_files:\n- path: /etc/eksctl/kubelet.env\n  content: |\n    NODE_LABELS=team=ml,alpha.eksctl.io/x=y\n    \
                    NODE_TAINTS=special=true:NoSchedule\nruncmd:\n- kubelet --node-labels=${NODE_LABELS} \
                    --register-with-taints=${NODE_TAINTS}\n# NODE_LABELS: none\n";
        let labels: Vec<_> = labels(text).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(labels, ["alpha.eksctl.io/x=y", "team=ml"]);
        assert_eq!(shown(text), ["special=true:NoSchedule"]);
    }

    #[test]
    fn an_empty_flag_does_not_take_the_next_one_for_its_value() {
        for text in [
            "-KubeletExtraArgs \"--node-labels= --register-with-taints=\"",
            "--kubelet-extra-args '--node-labels=' --use-max-pods false",
        ] {
            assert!(labels(text).is_empty() && taints(text).is_empty(), "{text}: {:?}", labels(text));
        }
    }

    #[test]
    fn a_label_with_two_values_is_left_out() {
        let text = "if spot; then\n  bootstrap.sh --kubelet-extra-args '--node-labels=team=ml,lifecycle=spot'\nelse\n  \
                    bootstrap.sh --kubelet-extra-args '--node-labels=team=ml,lifecycle=ondemand'\nfi\n";
        let labels: Vec<_> = labels(text).into_iter().collect();
        assert_eq!(labels, [("team".to_owned(), "ml".to_owned())], "which of the two is not known");
    }

    #[test]
    fn taints_of_a_nodeadm_configuration() {
        for (text, expected) in [
            (
                "spec:\n  kubelet:\n    config:\n      registerWithTaints:\n        - key: gpu\n          value: true\n\
                 \x20         effect: NoSchedule\n        - {key: bare, effect: NoExecute}\n      maxPods: 5\n",
                &["gpu=true:NoSchedule", "bare=:NoExecute"][..],
            ),
            (
                "    registerWithTaints:\n    - effect: NoSchedule\n      key: \"a.b/c\"\n    maxPods: 4\n",
                &["a.b/c=:NoSchedule"],
            ),
            (
                r#"{"config": {"registerWithTaints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]}}"#,
                &["k=v:PreferNoSchedule"],
            ),
            ("registerWithTaints: [{key: $K, effect: NoSchedule}, {key: k, effect: Sometimes}]", &[]),
            ("registerWithTaints:\n", &[]),
            ("registerWithTaints: [", &[]),
            ("registerWithTaints", &[]),
            ("é registerWithTaints:\n  - {}\n", &[]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn labels_and_taints_of_bottlerocket() {
        let text = "[settings.kubernetes]\nnode-labels.one = \"1\"\n[settings.kubernetes.node-labels]\n\
                    \"example.com/team\" = \"ml\"\nodd = \"{{ x }}\"\n[settings.kubernetes.node-taints]\n\
                    \"dedicated\" = [\"ml:NoSchedule\", \"ml:NoExecute\"]\nspecial = \"true:NoSchedule,x:NoExecute\"\n\
                    [settings.host-containers.admin]\nspecial = \"no:NoSchedule\"\n";
        let labels: Vec<_> = labels(text).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(labels, ["example.com/team=ml", "one=1"]);
        assert_eq!(
            shown(text),
            ["dedicated=ml:NoSchedule", "dedicated=ml:NoExecute", "special=true:NoSchedule", "special=x:NoExecute"]
        );
    }
}
