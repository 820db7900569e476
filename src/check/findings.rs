//! Turns what was collected into findings.

use super::code::Code;
use super::collected::{Collected, CollectedListing, CollectedSource, ListingFailure};
use super::finding::Finding;
use super::{autoscaler, groups, prices};
use crate::cloud::{AdverseKind, AdverseSetting, CloudError, DeniedCall, Family};

/// All findings, source by source, the worst of each first.
pub(super) fn findings(collected: &Collected) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(collected.warnings.iter().map(|warning| Finding::warning(Code::CONFIG, "config", warning, "")));
    findings.extend(gpu_labels(collected));
    findings.extend(
        collected.webhook.as_ref().map(|(what, advice)| Finding::warning(Code::WEBHOOK, "config", what, *advice)),
    );
    findings.extend(autoscaler::findings(&collected.autoscaler, collected));
    findings.extend(prices::of_lists(&collected.prices));
    findings.extend(kubernetes(collected));
    for source in &collected.sources {
        let mut of_source = match &source.listed {
            Ok(listed) => {
                let groups = listed.groups.iter();
                let by_driver = groups.filter_map(|group| groups::gpus_by_driver(group, &collected.gpu_label_key));
                of_listed(source, listed).into_iter().chain(by_driver).collect()
            }
            Err(failure) => vec![of_failed_listing(source, failure)],
        };
        of_source.sort_by_key(|finding| finding.severity);
        findings.extend(of_source);
    }
    findings
}

fn of_failed_listing(source: &CollectedSource, failure: &ListingFailure) -> Finding {
    match failure {
        ListingFailure::Failed(error) => {
            Finding::error(Code::SOURCE, &source.name, format!("cannot be read: {error}"), remedy(error, source.family))
        }
        ListingFailure::TimedOut => {
            let advice = "check the network and the endpoint, or split the source";
            Finding::error(Code::SOURCE, &source.name, "cannot be read: no response in time", advice)
        }
    }
}

/// What to do about a failed call.
pub(super) fn remedy(error: &CloudError, family: Family) -> String {
    let rights = match family {
        Family::Aws => "deploy/aws-iam-policy.json",
        Family::Azure => "deploy/azure-role.json",
    };
    match error {
        CloudError::Denied(_) => format!("check the credentials, and grant them what {rights} lists"),
        CloudError::Throttled { .. } => {
            "other clients use the same budget of calls; try again, or set a longer refreshInterval".to_owned()
        }
        CloudError::Unreachable(_) => "check the network, the proxy, and the region or endpoint".to_owned(),
        CloudError::NotFound(_) => "check the names in the source's configuration".to_owned(),
        _ => "look up the message in the cloud's documentation".to_owned(),
    }
}

fn of_listed(source: &CollectedSource, listed: &CollectedListing) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, reason) in &listed.broken {
        let advice = "fix the group; a running server serves it as it was last read";
        findings.push(Finding::error(Code::GROUP, name.as_str(), format!("cannot be understood: {reason}"), advice));
    }
    for group in &listed.groups {
        let Some(error) = &group.unread else { continue };
        let what =
            format!("cannot be read: {error}; a server does not serve it until it can, or serves its last reading");
        findings.push(Finding::error(Code::GROUP, &group.id, what, remedy(error, source.family)));
    }
    for name in &listed.absent {
        let advice = "create it, or correct the name; it is served as soon as it exists";
        findings.push(Finding::warning(
            Code::ABSENT,
            name.as_str(),
            "is in the configuration but does not exist",
            advice,
        ));
    }
    for (group, warning) in &listed.warnings {
        findings.push(Finding::warning(Code::GROUP_WARNING, id(listed, group.as_str()), warning, ""));
    }
    findings.extend(listed.adverse_settings.found.iter().map(|setting| adverse(listed, setting)));
    for error in &listed.adverse_settings.unread {
        let what = format!("cannot be checked for settings that conflict with the Cluster Autoscaler: {error}");
        findings.push(Finding::warning(Code::ADVERSE_UNREAD, &source.name, what, remedy(error, source.family)));
    }
    if let Some(error) = &listed.quotas_unread {
        let what = format!(
            "the quotas of the account cannot be read, so groups are offered up to their own maximum: \
                            {error}"
        );
        findings.push(Finding::warning(Code::QUOTA, &source.name, what, remedy(error, source.family)));
    }
    if let Err(error) = &listed.denied_calls {
        let what = format!("its permissions cannot be checked: {error}");
        findings.push(Finding::warning(Code::PERMISSION, &source.name, what, remedy(error, source.family)));
    }
    for DeniedCall { error, loss } in listed.denied_calls.iter().flatten() {
        let what = format!("a call that `headcount serve` makes is not permitted: {error}; without it, {loss}");
        findings.push(Finding::error(Code::PERMISSION, &source.name, what, remedy(error, source.family)));
    }
    findings.extend(listed.groups.iter().flat_map(|group| groups::findings(group, source.family)));
    findings.push(served(source, listed));
    findings
}

fn adverse(listed: &CollectedListing, setting: &AdverseSetting) -> Finding {
    let (subject, effect, advice) = (id(listed, setting.group.as_str()), &setting.effect, &setting.advice);
    match setting.kind {
        AdverseKind::Resizes => Finding::warning(Code::ADVERSE, subject, effect, advice),
        AdverseKind::Replaces => Finding::warning(Code::REPLACES, subject, effect, advice),
        AdverseKind::StaysInZone => Finding::warning(Code::STAYS_IN_ZONE, subject, effect, advice),
        AdverseKind::Operated => Finding::error(Code::OPERATED, subject, effect, advice),
        AdverseKind::Retains => Finding::warning(Code::RETAINS, subject, effect, advice),
        AdverseKind::Unprotected => Finding::ok(Code::UNPROTECTED, subject, effect, advice),
    }
}

fn served(source: &CollectedSource, listed: &CollectedListing) -> Finding {
    match listed.groups.len() {
        0 => {
            let identity = source.identity.as_ref().map(|identity| format!("; signed in as {identity}"));
            let what = format!("has no node group{}", identity.unwrap_or_default());
            let advice = "check the account, and the region or resource group; then name groups under nodeGroups, or give \
                          them the tags in autoDiscovery";
            Finding::warning(Code::NO_GROUPS, &source.name, what, advice)
        }
        groups => {
            let plural = if groups == 1 { "" } else { "s" };
            let identity = source.identity.as_ref().map(|identity| format!("; signed in as {identity}"));
            let what = format!("can be read; {groups} group{plural}{}", identity.unwrap_or_default());
            Finding::ok(Code::SOURCE, &source.name, what, "")
        }
    }
}

/// The ID a group is served under.
fn id<'a>(listed: &'a CollectedListing, name: &'a str) -> &'a str {
    let known = listed.groups.iter().find(|group| group.reading.name.as_str() == name);
    known.map_or(name, |group| group.id.as_str())
}

/// The Cluster Autoscaler knows one label for GPU nodes.
fn gpu_labels(collected: &Collected) -> Option<Finding> {
    let has_gpus = |family: Family| {
        let of_family = collected.sources.iter().filter(|source| source.family == family);
        of_family.flat_map(|source| source.listed.iter()).flat_map(|listed| &listed.groups).any(groups::has_gpus)
    };
    (has_gpus(Family::Aws) && has_gpus(Family::Azure) && !collected.gpu_label).then(|| {
        let what = "both clouds have GPU groups, their nodes have different GPU labels, and the Cluster Autoscaler \
                    knows only one";
        let advice = "give the GPU nodes of both clouds the same label, and set it as gpuLabel";
        Finding::warning(Code::GPU_LABEL, "config", what, advice)
    })
}

fn kubernetes(collected: &Collected) -> Option<Finding> {
    Some(match collected.kubernetes.as_ref()? {
        Ok(read) => Finding::ok(Code::KUBERNETES, "kubernetes", format!("{read} can be read"), ""),
        Err(error) => {
            let advice = format!(
                "nothing is learned from nodes, and nodes are not compared with the cloud's instances; {}",
                error.remedy()
            );
            Finding::warning(
                Code::KUBERNETES,
                "kubernetes",
                format!("the Kubernetes API cannot be read: {error}"),
                advice,
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hyper::StatusCode;

    use super::super::ClusterError;
    use super::super::collected::no_response;
    use super::super::finding::Severity::{self, Error, Warning};
    use super::*;
    use crate::cloud::{AdverseKind, AdverseSetting, AdverseSettings, Fault, GroupName};
    use crate::kubernetes::{ClusterConfigError, KubernetesError, Operation};

    fn found(listed: Result<CollectedListing, ListingFailure>) -> Vec<(Severity, String, String)> {
        let source = CollectedSource { name: "us".into(), family: Family::Aws, identity: None, listed };
        let collected = Collected { sources: vec![source], ..Collected::default() };
        let row = |finding: Finding| (finding.severity, finding.subject.clone(), finding.sentence());
        findings(&collected).into_iter().map(row).collect()
    }

    #[test]
    fn what_was_not_read_is_a_finding() {
        let late = |what| no_response("source", "us", what);
        let listed = CollectedListing {
            denied_calls: Err(late("permissions")),
            adverse_settings: AdverseSettings { unread: vec![late("settings")], ..AdverseSettings::default() },
            quotas_unread: Some(late("quotas")),
            ..CollectedListing::default()
        };
        let found: Vec<String> = found(Ok(listed)).into_iter().map(|(.., sentence)| sentence).collect();
        for (start, what) in [
            ("its permissions cannot be checked", "permissions"),
            ("cannot be checked for settings", "settings"),
            ("the quotas of the account cannot be read", "quotas"),
        ] {
            let late = format!("source us: the cloud did not respond within 60 s to the calls that read {what}");
            let is_it = |line: &String| line.starts_with(start) && line.contains(&late);
            assert!(found.iter().any(is_it), "{start} in {found:#?}");
        }
    }

    #[test]
    fn permissions_are_advised_where_the_kubernetes_api_refuses_and_the_network_where_it_does_not_respond() {
        let message = "no 403 Forbidden here".to_owned();
        let network = "and the network to it";
        for (error, advised) in [
            (
                KubernetesError::Forbidden { operation: Operation::ListNodes, message: String::new() }.into(),
                "grant what deploy/kubernetes-rbac.yaml lists",
            ),
            (
                KubernetesError::Unauthorized { operation: Operation::ListNodes, message: String::new() }.into(),
                "renew the token or the certificate",
            ),
            (
                KubernetesError::Refused { operation: Operation::ListNodes, status: StatusCode::BAD_GATEWAY, message }
                    .into(),
                network,
            ),
            (KubernetesError::TooLong { operation: Operation::ListNodes }.into(), network),
            (Arc::new(ClusterConfigError::Nowhere).into(), network),
            (ClusterError::TimedOut, network),
        ] {
            let reason = error.to_string();
            let collected = Collected { kubernetes: Some(Err(error)), ..Collected::default() };
            let found: Vec<String> = findings(&collected).iter().map(Finding::sentence).collect();
            let is_it = |line: &String| line.contains(&reason) && line.ends_with(advised);
            assert!(found.iter().any(is_it), "{reason}: {advised} in {found:#?}");
        }
    }

    #[test]
    fn the_worst_findings_of_a_source_come_first() {
        let setting = AdverseSetting {
            group: GroupName::from("web"),
            kind: AdverseKind::Resizes,
            effect: "it shrinks".to_owned(),
            advice: "stop\n  it".to_owned(),
        };
        let listed = CollectedListing {
            broken: vec![("odd".into(), "no desired capacity".to_owned())],
            warnings: vec![("web".into(), "overprovision is on".to_owned())],
            adverse_settings: AdverseSettings { found: vec![setting], ..AdverseSettings::default() },
            ..CollectedListing::default()
        };
        let row = |severity, subject: &str, sentence: &str| (severity, subject.to_owned(), sentence.to_owned());
        let broken =
            "cannot be understood: no desired capacity — fix the group; a running server serves it as it was last read";
        let nothing = "has no node group — check the account, and the region or resource group; then name groups under nodeGroups, or give them the tags in autoDiscovery";
        assert_eq!(
            found(Ok(listed)),
            [
                row(Error, "odd", broken),
                row(Warning, "web", "overprovision is on"),
                row(Warning, "web", "it shrinks — stop it"),
                row(Warning, "us", nothing),
            ]
        );
    }

    #[test]
    fn the_reason_why_a_source_cannot_be_read_decides_the_advice() {
        let fault = || {
            let (code, message, subject) = (None, "no".to_owned(), "all".to_owned());
            Box::new(Fault { operation: "List".into(), subject, code, message, source: None })
        };
        for (error, advice) in [
            (CloudError::Denied(fault()), "check the credentials, and grant them what deploy/aws-iam"),
            (CloudError::Unreachable(fault()), "check the network"),
            (CloudError::Throttled { retry_after: None, fault: fault() }, "set a longer refreshInterval"),
            (CloudError::NotFound(fault()), "check the names"),
            (CloudError::Refused(fault()), "look up the message in the cloud's documentation"),
        ] {
            let found = found(Err(ListingFailure::Failed(error)));
            assert!(found[0].0 == Error && found[0].2.contains(advice), "{found:?}");
        }
        assert_eq!(found(Err(ListingFailure::TimedOut))[0].0, Error);
    }
}
