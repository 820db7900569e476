//! What an instance's user data says about the node.
//!
//! EKS bootstraps nodes from user data: a `NodeConfig` for nodeadm, arguments of `bootstrap.sh`, or Bottlerocket
//! settings. For managed node groups, EKS writes the user data, with the pod limit that it computed. This module looks
//! for single settings by name, in any of these formats. A value that a shell would compute stays unknown. User data
//! may hold secrets, so nothing else of it is kept, and none of it is logged.

mod decode;
mod registration;
mod reserves;
mod settings;
mod toml;
mod yaml;

use std::collections::BTreeMap;

use self::settings::{settings, variables};
use crate::cloud::{KubeletReserves, LocalDisks, OperatingSystem, Taint};

/// How far after `localStorage` its `strategy` may be. Both are in the same mapping.
const NEAR: usize = 200;
/// nodeadm's API group.
const NODEADM: &str = "node.eks.aws/";
/// User data of an EKS node contains one of these: nodeadm's API group, `bootstrap.sh` or its Windows counterpart, or
/// Bottlerocket's Kubernetes settings.
const EKS: [&str; 4] = [NODEADM, "/etc/eks/bootstrap.sh", "EKSBootstrap", "[settings.kubernetes"];
/// User data of nodes of other Kubernetes clusters contains one of these: of kubeadm (Cluster API among them), kops,
/// k3s or RKE2.
const OTHERS: [&str; 5] = ["kubeadm join", "nodeup", "k3s.io", "rke2.io", "/etc/rancher/"];
/// Windows runs user data between these tags, and only Linux runs the rest: a script with an interpreter, and what
/// cloud-init, nodeadm and Bottlerocket read.
const WINDOWS: [&str; 2] = ["<powershell>", "EKSBootstrap"];
const LINUX: [&str; 5] = ["#!/", "#cloud-config", "node.eks.aws/", "/etc/eks/bootstrap.sh", "[settings.kubernetes"];
/// The kubelet's default pod limit, which applies if `bootstrap.sh` is told not to set one.
const KUBELET_PODS: u32 = 110;

/// What user data says about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UserData {
    /// Whether it makes the instance an EKS node, or a node of another cluster. `None` if it does not show this.
    pub(super) eks: Option<bool>,
    /// The operating system that it is written for, if it shows this.
    pub(super) operating_system: Option<OperatingSystem>,
    pub(super) max_pods: Option<u32>,
    /// Whether it has Bottlerocket's settings.
    pub(super) bottlerocket: bool,
    /// Whether it has a configuration of nodeadm, which Amazon Linux 2023 brings.
    pub(super) nodeadm: bool,
    /// What becomes of the local disks.
    pub(super) local_disks: LocalDisks,
    /// The 2 MiB pages that the kernel sets aside at most.
    pub(super) huge_pages: u64,
    /// Labels that the kubelet registers the node with.
    pub(super) labels: BTreeMap<String, String>,
    /// Taints that the kubelet registers the node with.
    pub(super) taints: Vec<Taint>,
    pub(super) kubelet_reserves: KubeletReserves,
}

impl UserData {
    /// Reads user data as AWS returns it, in base64.
    pub(super) fn read(encoded: Option<&str>) -> Self {
        Self::of(&encoded.map(decode::text).unwrap_or_default())
    }

    fn of(text: &str) -> Self {
        let operating_system = operating_system(text);
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let text = lines.fold(String::new(), |text, line| text + line + "\n");
        // Terraform's jsonencode writes these so, and `<` is part of --eviction-hard.
        let text = text.replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&");
        Self {
            eks: is_of_eks(&text),
            operating_system,
            max_pods: max_pods(&text),
            bottlerocket: !toml::entries(&text, &["settings", "kubernetes"]).is_empty(),
            nodeadm: text.contains(NODEADM),
            local_disks: local_disks(&text),
            huge_pages: huge_pages(&text),
            labels: registration::labels(&text),
            taints: registration::taints(&text),
            kubelet_reserves: reserves::reserves(&text),
        }
    }
}

/// Reads user data for [`crate::parsers`].
pub(in crate::clouds::aws) fn parse(encoded: &str) {
    let _read = UserData::read(Some(encoded));
}

fn contains_any(text: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| text.contains(sign))
}

fn is_of_eks(text: &str) -> Option<bool> {
    let eks = contains_any(text, &EKS);
    (eks || contains_any(text, &OTHERS)).then_some(eks)
}

/// The operating system, unless there are signs of both.
fn operating_system(text: &str) -> Option<OperatingSystem> {
    match (contains_any(text, &WINDOWS), contains_any(text, &LINUX)) {
        (true, false) => Some(OperatingSystem::Windows),
        (false, true) => Some(OperatingSystem::Linux),
        _ => None,
    }
}

/// The lowest of several settings, because which one wins depends on the tool. One that cannot be read may be higher
/// than those that can. `None` if none can be read.
fn max_pods(text: &str) -> Option<u32> {
    let found = ["maxPods", "--max-pods", "max-pods"].into_iter().flat_map(|name| settings(text, name));
    let found = found.chain(variables(text, "MAX_PODS"));
    let found: Vec<Option<u32>> = found.map(|value| value.trim_end_matches(',').parse().ok()).collect();
    let unset = || settings(text, "--use-max-pods").any(|value| value == "false").then_some(KUBELET_PODS);
    let computed = || expressions(text).flatten().min();
    if found.is_empty() { unset().or_else(computed) } else { found.into_iter().flatten().min() }
}

/// The results of nodeadm's `maxPodsExpression`: `None` for one that is not a plain number.
fn expressions(text: &str) -> impl Iterator<Item = Option<u32>> {
    text.match_indices("maxPodsExpression").map(|(at, name)| {
        let rest = text[at + name.len()..].trim_start_matches([':', '"', '\'', ' ', '\t']);
        let written = rest.split(['"', '\'', '\n']).next().unwrap_or_default();
        written.trim_end().trim_end_matches([',', '}']).parse().ok().filter(|pods| *pods > 0)
    })
}

/// What becomes of the local disks: `strategy` of nodeadm, `--local-disks` of `bootstrap.sh`, bootstrap commands of
/// Bottlerocket. Of several, which one counts depends on the node: what holds the least.
fn local_disks(text: &str) -> LocalDisks {
    let by_nodeadm = text.match_indices("localStorage").filter_map(|(at, _)| {
        let end = text.len().min(at + NEAR);
        let near = (end..=text.len()).find_map(|end| text.get(at..end)).unwrap_or_default();
        settings(near, "strategy").map(combined).min()
    });
    let by_script = settings(text, "--local-disks").map(combined);
    by_nodeadm.chain(by_script).chain(joined_by_bottlerocket(text)).min().unwrap_or_default()
}

/// Whether Bottlerocket's bootstrap commands make one disk of all local disks (`apiclient ephemeral-storage init`) and
/// put the kubelet's directory on it (`apiclient ephemeral-storage bind --dirs … /var/lib/kubelet`).
fn joined_by_bottlerocket(text: &str) -> Option<LocalDisks> {
    // The bound limits the work that hostile text can cause.
    const COMMANDS_MAX: usize = 16;
    let is_off = settings(text, "mode").any(|mode| mode == "off");
    let text = text.get(text.find("bootstrap-commands")?..)?;
    let commands = || {
        text.match_indices("ephemeral-storage").take(COMMANDS_MAX).filter_map(|(at, name)| {
            let rest = text.get(at + name.len()..)?.split(']').next()?;
            Some(rest.split(['"', '\'', ',', ' ', '\n', '\t', '=']).filter(|word| !word.is_empty()))
        })
    };
    let is_made = commands().any(|mut words| words.next() == Some("init"));
    let is_bound =
        commands().any(|mut words| words.next() == Some("bind") && words.any(|word| word == "/var/lib/kubelet"));
    (is_made && is_bound && !is_off).then_some(LocalDisks::Joined)
}

/// The 2 MiB pages that user data tells the kernel to set aside, at most.
fn huge_pages(text: &str) -> u64 {
    settings(text, "vm.nr_hugepages").filter_map(|value| value.trim_end_matches(',').parse().ok()).max().unwrap_or(0)
}

fn combined(strategy: &str) -> LocalDisks {
    match strategy.trim_end_matches(',').to_ascii_lowercase().as_str() {
        "raid0" => LocalDisks::Joined,
        "raid10" => LocalDisks::Mirrored,
        _ => LocalDisks::Apart,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_limit_is_found_in_every_format() {
        for (text, pods) in [
            ("kubelet:\n  config:\n    maxPods: 58\n", Some(58)),
            (r#"{"kubelet": {"config": {"maxPods":110, "x": 1}}}"#, Some(110)),
            ("/etc/eks/bootstrap.sh c --kubelet-extra-args '--max-pods=29'", Some(29)),
            ("bootstrap.sh c --use-max-pods false --kubelet-extra-args \"--max-pods 20\"", Some(20)),
            ("bootstrap.sh c --use-max-pods false", Some(110)),
            ("[settings.kubernetes]\nmax-pods = 35\n", Some(35)),
            ("maxPods: 58\nmaxPods: 30\n", Some(30)),
            ("maxPods: 58\n--max-pods=${MAX}", Some(58)),
            ("bootstrap.sh c --use-max-pods false --kubelet-extra-args --max-pods=${MAX}", None),
            ("maxPodsExpression: '((default_enis - 1) * 2)'", None),
            ("maxPodsExpression: 30 < max_pods ? 30 : max_pods\n", None),
            ("maxPodsExpression: \"110\"\n", Some(110)),
            (r#"{"kubelet": {"maxPodsExpression": "110", "x": 1}}"#, Some(110)),
            ("maxPodsExpression: 110\nmaxPods: 58\n", Some(58)),
            ("# maxPods: 58\n", None),
            ("", None),
        ] {
            assert_eq!(UserData::of(text).max_pods, pods, "{text}");
        }
    }

    #[test]
    fn local_disks_are_combined_if_the_strategy_says_so() {
        for (text, disks) in [
            ("instance:\n  localStorage:\n    strategy: RAID0\n", LocalDisks::Joined),
            (r#"{"localStorage": {"strategy": "RAID0"}}"#, LocalDisks::Joined),
            ("instance:\n  localStorage:\n    strategy: RAID10\n", LocalDisks::Mirrored),
            ("localStorage:\n  strategy: Mount\n", LocalDisks::Apart),
            ("strategy: RAID0\n", LocalDisks::Apart),
            ("bootstrap.sh c --local-disks raid0", LocalDisks::Joined),
            ("bootstrap.sh c --local-disks raid10", LocalDisks::Mirrored),
            ("bootstrap.sh c --local-disks mount", LocalDisks::Apart),
            ("localStorage é", LocalDisks::Apart),
            // Which one counts, the node decides.
            ("bootstrap.sh c --local-disks raid0\nbootstrap.sh c --local-disks mount", LocalDisks::Apart),
            ("bootstrap.sh c --local-disks raid0\nbootstrap.sh c --local-disks raid10", LocalDisks::Mirrored),
        ] {
            assert_eq!(UserData::of(text).local_disks, disks, "{text}");
        }
    }

    #[test]
    fn bottlerocket_combines_local_disks_if_its_bootstrap_commands_put_the_kubelet_on_them() {
        let commands = |mode: &str, dirs: &str| {
            format!(
                "[settings.kubernetes]\ncluster-name = \"c\"\n[settings.bootstrap-commands.disks]\ncommands = [\n\
                 [\"apiclient\", \"ephemeral-storage\", \"init\"],\n\
                 [\"apiclient\", \"ephemeral-storage\" ,\"bind\", \"--dirs\", {dirs}]\n]\nmode = \"{mode}\"\n"
            )
        };
        let (all, images) = ("\"/var/lib/containerd\", \"/var/lib/kubelet\"", "\"/var/lib/containerd\"");
        for (text, disks) in [
            (commands("always", all), LocalDisks::Joined),
            (commands("once", all), LocalDisks::Joined),
            (commands("off", all), LocalDisks::Apart),
            (commands("always", images), LocalDisks::Apart),
            (commands("always", all).replace("\"init\"", "\"list\""), LocalDisks::Apart),
            (commands("always", all).replace("bootstrap-commands", "x"), LocalDisks::Apart),
            ("bootstrap-commands é ephemeral-storage".to_owned(), LocalDisks::Apart),
        ] {
            assert_eq!(UserData::of(&text).local_disks, disks, "{text}");
        }
    }

    #[test]
    fn huge_pages_that_user_data_sets_aside_are_found() {
        for (text, pages) in [
            ("sysctl -w vm.nr_hugepages=1024", 1024),
            ("echo 'vm.nr_hugepages = 512' > /etc/sysctl.d/90-pages.conf\nsysctl vm.nr_hugepages=256", 512),
            ("[settings.kernel.sysctl]\n\"vm.nr_hugepages\" = \"2048\"\n", 2048),
            ("# vm.nr_hugepages=1024", 0),
            ("sysctl -w vm.nr_hugepages=${PAGES}", 0),
            ("vm.nr_hugepages_mempolicy=3", 0),
            ("", 0),
        ] {
            assert_eq!(UserData::of(text).huge_pages, pages, "{text}");
        }
    }

    #[test]
    fn user_data_shows_the_cluster_and_the_operating_system_of_a_node() {
        let (linux, windows) = (Some(OperatingSystem::Linux), Some(OperatingSystem::Windows));
        for (text, eks, system) in [
            ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", Some(true), linux),
            ("#!/bin/bash\n/etc/eks/bootstrap.sh my-cluster\n", Some(true), linux),
            ("& $EKSBootstrapScriptFile -EKSClusterName c", Some(true), windows),
            ("[settings.kubernetes]\ncluster-name = \"c\"\n", Some(true), linux),
            ("#!/bin/bash\nkubeadm join\n", Some(false), linux),
            ("#cloud-config\nruncmd: [kubeadm join, /etc/eks/bootstrap.sh]\n", Some(true), linux),
            ("# kubeadm join\n", None, None),
            ("<powershell>\nC:\\k\\join.ps1\n</powershell>", None, windows),
            ("<powershell>\n#!/bin/sh\n</powershell>", None, None),
            ("#!/bin/bash\n/opt/join\n", None, linux),
            ("", None, None),
        ] {
            let read = UserData::of(text);
            assert_eq!((read.eks, read.operating_system), (eks, system), "{text}");
        }
    }
}
