//! What to say of the collected.

use super::collected::{Collected, CollectedListing, CollectedSource, ListingFailure};
use super::finding::Finding;
use super::finding::Severity::{Error, Ok as Fine, Warning};
use super::groups;
use crate::cloud::{CloudError, Family};

/// Everything, source by source, the worst of each first.
pub(super) fn findings(collected: &Collected) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(collected.warnings.iter().map(|warning| Finding::of(Warning, "config", warning, "")));
    findings.extend(gpu_labels(collected));
    findings.extend(kubernetes(collected));
    for source in &collected.sources {
        let mut of_source = match &source.listed {
            Ok(listed) => of_listed(source, listed),
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
            Finding::of(Error, &source.name, format!("it cannot be read: {error}"), remedy(error, source.family))
        }
        ListingFailure::TimedOut => {
            let advice = "check the network and the endpoint, or split the source";
            Finding::of(Error, &source.name, "it cannot be read: no answer in time", advice)
        }
    }
}

/// What to do about a failed call.
fn remedy(error: &CloudError, family: Family) -> String {
    let rights = match family {
        Family::Aws => "deploy/aws-iam-policy.json",
        Family::Azure => "deploy/azure-role.json",
    };
    match error {
        CloudError::Denied(_) => format!("check the credentials, and that they are allowed what {rights} lists"),
        CloudError::Throttled { .. } => {
            "others use the budget of calls too; try again, or set a longer refreshInterval".to_owned()
        }
        CloudError::Unreachable(_) => "check the network, the proxy, and region or endpoint".to_owned(),
        CloudError::NotFound(_) => "check the names in the source's configuration".to_owned(),
        _ => "the message is the cloud's own".to_owned(),
    }
}

fn of_listed(source: &CollectedSource, listed: &CollectedListing) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, reason) in &listed.broken {
        let advice = "mend the group; a running server serves it as last read";
        findings.push(Finding::of(Error, name.as_str(), format!("it cannot be understood: {reason}"), advice));
    }
    for name in &listed.absent {
        let advice = "create it, or correct the name; it is served as soon as it exists";
        findings.push(Finding::of(Warning, name.as_str(), "named in the configuration, and does not exist", advice));
    }
    for (group, warning) in &listed.warnings {
        findings.push(Finding::of(Warning, id(listed, group.as_str()), warning, ""));
    }
    for setting in &listed.adverse_settings.found {
        let id = id(listed, setting.group.as_str());
        findings.push(Finding::of(Warning, id, &setting.effect, &setting.advice));
    }
    for error in &listed.adverse_settings.unread {
        let what = format!("whether something else scales the groups cannot be read: {error}");
        findings.push(Finding::of(Warning, &source.name, what, remedy(error, source.family)));
    }
    for error in &listed.denied_calls {
        let what = format!("a call that serving needs is not permitted: {error}");
        findings.push(Finding::of(Error, &source.name, what, remedy(error, source.family)));
    }
    findings.extend(listed.groups.iter().flat_map(groups::findings));
    findings.push(served(source, listed));
    findings
}

fn served(source: &CollectedSource, listed: &CollectedListing) -> Finding {
    match listed.groups.len() {
        0 => {
            let advice = "name groups under nodeGroups, or check that theirs are the tags that autoDiscovery asks for";
            Finding::of(Warning, &source.name, "no group is found", advice)
        }
        1 => Finding::of(Fine, &source.name, "it can be read; 1 group", ""),
        groups => Finding::of(Fine, &source.name, format!("it can be read; {groups} groups"), ""),
    }
}

/// The ID a group is served under.
fn id<'a>(listed: &'a CollectedListing, name: &'a str) -> &'a str {
    let known = listed.groups.iter().find(|group| group.reading.name.as_str() == name);
    known.map_or(name, |group| group.id.as_str())
}

/// One label is all that the Cluster Autoscaler takes for GPU nodes.
fn gpu_labels(collected: &Collected) -> Option<Finding> {
    let has_gpus = |family: Family| {
        let of_family = collected.sources.iter().filter(|source| source.family == family);
        of_family.flat_map(|source| source.listed.iter()).flat_map(|listed| &listed.groups).any(groups::has_gpus)
    };
    (has_gpus(Family::Aws) && has_gpus(Family::Azure) && !collected.gpu_label).then(|| {
        let what = "there are groups with GPUs in both clouds, whose nodes have different labels, and the Cluster \
                    Autoscaler takes one";
        let advice = "label the GPU nodes of both alike, and name that label as gpuLabel";
        Finding::of(Warning, "config", what, advice)
    })
}

fn kubernetes(collected: &Collected) -> Option<Finding> {
    Some(match collected.kubernetes.as_ref()? {
        Ok(()) => Finding::of(Fine, "kubernetes", "nodes and the ConfigMap can be read", ""),
        Err(reason) => {
            let advice = "the templates go without it; deploy/kubernetes-rbac.yaml is what it needs";
            Finding::of(Warning, "kubernetes", format!("nothing can be learned from nodes: {reason}"), advice)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;
    use crate::cloud::{AdverseSetting, AdverseSettings, Fault, GroupName};

    fn found(listed: Result<CollectedListing, ListingFailure>) -> Vec<(Severity, String, String)> {
        let source = CollectedSource { name: "us".into(), family: Family::Aws, listed };
        let collected = Collected { sources: vec![source], ..Collected::default() };
        let row = |finding: Finding| (finding.severity, finding.subject.clone(), finding.sentence());
        findings(&collected).into_iter().map(row).collect()
    }

    #[test]
    fn what_is_worst_of_a_source_comes_first() {
        let setting = AdverseSetting {
            group: GroupName::from("web"),
            effect: "it shrinks".to_owned(),
            advice: "stop\n  it".to_owned(),
        };
        let listed = CollectedListing {
            broken: vec![("odd".into(), "no desired capacity".to_owned())],
            warnings: vec![("web".into(), "overprovision is on".to_owned())],
            adverse_settings: AdverseSettings { found: vec![setting], unread: Vec::new() },
            ..CollectedListing::default()
        };
        let row = |severity, subject: &str, sentence: &str| (severity, subject.to_owned(), sentence.to_owned());
        let broken =
            "it cannot be understood: no desired capacity — mend the group; a running server serves it as last read";
        let nothing = "no group is found — name groups under nodeGroups, or check that theirs are the tags that \
                       autoDiscovery asks for";
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
    fn why_a_source_cannot_be_read_decides_on_the_advice() {
        let fault = || {
            let (code, message, subject) = (None, "no".to_owned(), "all".to_owned());
            Box::new(Fault { operation: "List", subject, code, message, source: None })
        };
        for (error, advice) in [
            (CloudError::Denied(fault()), "check the credentials, and that they are allowed what deploy/aws-iam"),
            (CloudError::Unreachable(fault()), "check the network"),
            (CloudError::Throttled { retry_after: None, fault: fault() }, "set a longer refreshInterval"),
            (CloudError::NotFound(fault()), "check the names"),
            (CloudError::Refused(fault()), "the message is the cloud's own"),
        ] {
            let found = found(Err(ListingFailure::Failed(error)));
            assert!(found[0].0 == Error && found[0].2.contains(advice), "{found:?}");
        }
        assert_eq!(found(Err(ListingFailure::TimedOut))[0].0, Error);
    }
}
