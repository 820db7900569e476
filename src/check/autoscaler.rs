//! What is known of the Cluster Autoscaler's release and flags, and what to report of them.

use std::path::Path;

use serde_json::Value;
use thiserror::Error;

use super::code::Code;
use super::collected::Collected;
use super::finding::Finding;
use crate::cloud::Family;

const SUBJECT: &str = "cluster-autoscaler";

/// Labels that the in-tree AWS provider ignores when it compares groups.
const AWS_LABELS: [&str; 7] = [
    "alpha.eksctl.io/instance-id",
    "alpha.eksctl.io/nodegroup-name",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig",
    "lifecycle",
    "topology.ebs.csi.aws.com/zone",
    "topology.k8s.aws/zone-id",
];

/// Labels that the in-tree Azure provider ignores when it compares groups.
const AZURE_LABELS: [&str; 9] = [
    "agentpool",
    "aksEngineVersion",
    "creationSource",
    "kubernetes.azure.com/agentpool",
    "kubernetes.azure.com/consolidated-additional-properties",
    "kubernetes.azure.com/node-image-version",
    "poolName",
    "resourceNameSuffix",
    "topology.disk.csi.azure.com/zone",
];

/// Flags that the external gRPC provider ignores.
const IGNORED_FLAGS: [&str; 3] = ["nodes", "node-group-auto-discovery", "aws-use-static-instance-list"];

/// From this release on, --balancing-ignore-label has no effect with external gRPC (upstream commit 74e9a647fd).
const IGNORE_LABEL_GONE: (u32, u32) = (1, 37);

/// Why a Deployment cannot be used.
#[derive(Debug, Error)]
pub enum AutoscalerError {
    /// The file cannot be read.
    #[error("--ca-deployment {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// It is not YAML or JSON.
    #[error("--ca-deployment {0}: not valid YAML: {1}")]
    Syntax(String, String),
    /// It has no container that runs the Cluster Autoscaler.
    #[error("--ca-deployment {0}: no container runs cluster-autoscaler; pass the manifest of its Deployment")]
    NoContainer(String),
    /// The version is not of the form 1.34 or 1.34.2.
    #[error("--ca-version {0}: not a release; write it as 1.34")]
    Version(String),
}

/// The Cluster Autoscaler, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Autoscaler {
    /// Its release.
    pub version: Option<(u32, u32)>,
    /// Its flags without the dashes, in order, where they are known.
    pub flags: Option<Vec<(String, String)>>,
}

impl Autoscaler {
    /// Puts together what the command line says.
    ///
    /// # Errors
    ///
    /// If the version or the file cannot be understood.
    pub fn from_arguments(version: Option<&str>, deployment: Option<&Path>) -> Result<Option<Self>, AutoscalerError> {
        let mut autoscaler = match deployment {
            None => Self::default(),
            Some(path) => {
                let name = path.display().to_string();
                let text =
                    std::fs::read_to_string(path).map_err(|error| AutoscalerError::Unreadable(name.clone(), error))?;
                Self::from_manifest(&text, &name)?
            }
        };
        if let Some(version) = version {
            let parsed = release(version).ok_or_else(|| AutoscalerError::Version(version.to_owned()))?;
            autoscaler.version = Some(parsed);
        }
        Ok((autoscaler != Self::default()).then_some(autoscaler))
    }

    /// Reads the manifest of a Deployment, alone or in a list.
    fn from_manifest(text: &str, name: &str) -> Result<Self, AutoscalerError> {
        let mut containers = Vec::new();
        for part in text.split("\n---") {
            let value: Value = serde_saphyr::from_str(part)
                .map_err(|error| AutoscalerError::Syntax(name.to_owned(), error.to_string()))?;
            collect_containers(&value, &mut containers);
        }
        let of = |container: &Value| {
            let image = container["image"].as_str().unwrap_or_default().to_owned();
            let words = ["command", "args"].into_iter().filter_map(|key| container[key].as_array()).flatten();
            let words: Vec<String> = words.filter_map(Value::as_str).map(str::to_owned).collect();
            (image, words)
        };
        let is_autoscaler = |(image, words): &(String, Vec<String>)| {
            image.contains("cluster-autoscaler") || words.iter().any(|word| word.contains("cluster-autoscaler"))
        };
        let (image, words) = containers
            .iter()
            .map(of)
            .find(is_autoscaler)
            .ok_or_else(|| AutoscalerError::NoContainer(name.to_owned()))?;
        let tag = image.split('@').next().and_then(|image| image.rsplit_once(':')).map(|(_, tag)| tag);
        Ok(Self { version: tag.and_then(release), flags: Some(flags(&words)) })
    }

    /// The labels that alone decide whether groups are alike.
    pub(super) fn balancing_labels(&self) -> impl Iterator<Item = &str> {
        self.values("balancing-label")
    }

    /// The further labels that do not separate groups.
    pub(super) fn ignored_labels(&self) -> impl Iterator<Item = &str> {
        let has_effect = self.version.is_none_or(|version| version < IGNORE_LABEL_GONE);
        self.values("balancing-ignore-label").filter(move |_| has_effect)
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let flags = self.flags.iter().flatten().filter(move |(flag, _)| flag == name);
        flags.map(|(_, value)| value.as_str())
    }
}

fn collect_containers(value: &Value, containers: &mut Vec<Value>) {
    for item in value["items"].as_array().into_iter().flatten() {
        collect_containers(item, containers);
    }
    containers.extend(value["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten().cloned());
}

/// `v1.34.2` or `1.34` as numbers.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The flags of a command line: `--name=value`, `--name value` or `--name`.
fn flags(words: &[String]) -> Vec<(String, String)> {
    let mut flags = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => match words.next_if(|next| !next.starts_with('-')) {
                Some(value) => (flag, value.clone()),
                None => (flag, "true".to_owned()),
            },
        };
        flags.push((name.to_owned(), value));
    }
    flags
}

/// The findings about the Cluster Autoscaler.
pub(super) fn findings(autoscaler: &Autoscaler, collected: &Collected) -> Vec<Finding> {
    if autoscaler.flags.is_none() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let provider = autoscaler.values("cloud-provider").last().unwrap_or_default();
    if provider == "externalgrpc" {
        findings.push(Finding::ok(Code::CA_PROVIDER, SUBJECT, "uses --cloud-provider=externalgrpc", ""));
    } else {
        let what = format!("does not call Headcount: its --cloud-provider is {provider:?}");
        let advice = "set --cloud-provider=externalgrpc and --cloud-config to a file with Headcount's address";
        findings.push(Finding::error(Code::CA_PROVIDER, SUBJECT, what, advice));
    }
    if autoscaler.values("expander").any(|value| value.split(',').any(|expander| expander.trim() == "price")) {
        let what = "uses --expander=price, and the prices of some instance types may be estimates";
        let advice = "see headcount_price_estimates_total, add prices to a table, or choose --expander=least-waste";
        findings.push(Finding::warning(Code::CA_PRICE, SUBJECT, what, advice));
    }
    let ignored: Vec<&str> =
        IGNORED_FLAGS.into_iter().filter(|flag| autoscaler.values(flag).next().is_some()).collect();
    if !ignored.is_empty() {
        let what = format!("ignores these flags with external gRPC: --{}", ignored.join(", --"));
        findings.push(Finding::warning(
            Code::CA_IGNORED,
            SUBJECT,
            what,
            "remove them, and configure the groups of Headcount instead",
        ));
    }
    findings.extend(balancing(autoscaler, collected));
    findings
}

fn balancing(autoscaler: &Autoscaler, collected: &Collected) -> Option<Finding> {
    let balances = autoscaler.values("balance-similar-node-groups").last().is_some_and(|value| value != "false");
    if !balances {
        return None;
    }
    // With explicit labels, nothing else is compared.
    if autoscaler.values("balancing-label").next().is_some() {
        return Some(Finding::ok(Code::CA_BALANCING, SUBJECT, "compares groups by --balancing-label", ""));
    }
    if autoscaler.version.is_some_and(|version| version >= IGNORE_LABEL_GONE) {
        let what = "compares labels that differ between zones: from 1.37 on, --balancing-ignore-label has no effect with \
                    external gRPC";
        let advice = "set --balancing-label=node.kubernetes.io/instance-type and --balancing-label=kubernetes.io/arch";
        return Some(Finding::warning(Code::CA_BALANCING, SUBJECT, what, advice));
    }
    let has = |family| collected.sources.iter().any(|source| source.family == family);
    let aws = AWS_LABELS.into_iter().filter(|_| has(Family::Aws));
    let azure = AZURE_LABELS.into_iter().filter(|_| has(Family::Azure));
    let missing: Vec<String> = aws
        .chain(azure)
        .filter(|label| !autoscaler.values("balancing-ignore-label").any(|value| value == *label))
        .map(|label| format!("--balancing-ignore-label={label}"))
        .collect();
    if missing.is_empty() {
        return Some(Finding::ok(
            Code::CA_BALANCING,
            SUBJECT,
            "ignores the labels that differ between equal groups",
            "",
        ));
    }
    let what = "compares labels that the in-tree provider ignores, so equal groups in different zones are not balanced";
    Some(Finding::warning(Code::CA_BALANCING, SUBJECT, what, format!("add {}", missing.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::super::collected::{CollectedListing, CollectedSource};
    use super::*;

    const MANIFEST: &str = "
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: cluster-autoscaler
          image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.2
          command: [./cluster-autoscaler, --cloud-provider=externalgrpc, --expander, \"least-waste,price\"]
          args: [--balance-similar-node-groups, --nodes=1:2:web]
";

    fn found(manifest: &str, version: Option<(u32, u32)>) -> Vec<String> {
        let mut autoscaler = Autoscaler::from_manifest(manifest, "ca.yaml").expect("a manifest");
        autoscaler.version = version.or(autoscaler.version);
        let listed = Ok(CollectedListing::default());
        let source = CollectedSource { name: "us".into(), family: Family::Aws, identity: None, listed };
        let collected = Collected { sources: vec![source], ..Collected::default() };
        let line = |finding: Finding| format!("{} {} {}", finding.severity, finding.code, finding.sentence());
        findings(&autoscaler, &collected).into_iter().map(line).collect()
    }

    #[test]
    fn release_and_flags_are_read_from_the_deployment() {
        let autoscaler = Autoscaler::from_manifest(MANIFEST, "ca.yaml").expect("a manifest");
        assert_eq!(autoscaler.version, Some((1, 34)));
        assert_eq!(autoscaler.values("expander").collect::<Vec<_>>(), ["least-waste,price"]);
        assert_eq!(autoscaler.values("balance-similar-node-groups").collect::<Vec<_>>(), ["true"]);
        let error = Autoscaler::from_manifest("kind: Deployment\n", "ca.yaml").expect_err("no container");
        assert!(error.to_string().contains("no container runs cluster-autoscaler"));
    }

    #[test]
    fn flags_that_conflict_are_found() {
        let found = found(MANIFEST, None);
        let has = |start: &str, part: &str| found.iter().any(|line| line.starts_with(start) && line.contains(part));
        assert!(has("ok HC501", "externalgrpc"), "{found:#?}");
        assert!(has("warning HC502", "--expander=price"), "{found:#?}");
        assert!(has("warning HC503", "--balancing-ignore-label=topology.k8s.aws/zone-id"), "{found:#?}");
        assert!(has("warning HC504", "--nodes"), "{found:#?}");
        assert!(!found.iter().any(|line| line.contains("agentpool")), "there is no Azure source: {found:#?}");
    }

    #[test]
    fn from_1_37_on_only_balancing_labels_help() {
        let balancing = |manifest: &str| {
            let lines = found(manifest, Some((1, 37)));
            lines.into_iter().find(|line| line.contains("HC503")).expect("a finding")
        };
        assert!(balancing(MANIFEST).contains("--balancing-label=node.kubernetes.io/instance-type"));
        let with_label = MANIFEST.replace("--nodes=1:2:web", "--balancing-label=kubernetes.io/arch");
        assert!(balancing(&with_label).starts_with("ok "));
    }
}
