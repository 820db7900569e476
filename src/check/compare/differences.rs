//! Where two sides differ about one group.

use super::counted;
use crate::admin::statusz::GroupEntry;
use crate::kubernetes::AutoscalerGroup;

/// What Headcount is doing with the group, and what it cannot do.
pub(super) fn notes(served: &GroupEntry) -> Vec<String> {
    let mut notes = Vec::new();
    for operation in &served.operations {
        notes.push(format!("{} under way for {} s: {}", operation.id, operation.age_seconds, operation.what));
    }
    if served.unfilled > 0 {
        notes.push(format!(
            "the capacity counts {} that do not exist; it is not lowered",
            counted(served.unfilled, "VM")
        ));
    }
    notes.extend(served.limited_by.as_ref().map(|limit| format!("offered up to {} nodes: {limit}", served.max)));
    for (what, reason) in [("cannot grow", &served.cannot_grow), ("cannot shrink", &served.cannot_shrink)] {
        notes.extend(reason.as_ref().map(|reason| format!("{what}: {reason}")));
    }
    notes
}

/// Where Headcount's target is not the cloud's capacity, or the capacity has no instances. An operation under way
/// explains that.
pub(super) fn headcount_differs(cloud: &GroupEntry, served: &GroupEntry) -> Vec<String> {
    let mut differences = Vec::new();
    for failure in &served.failures {
        differences.push(format!("{} failed to launch: {}", counted(failure.count, "instance"), failure.code));
    }
    differences.extend(served.doubt.as_ref().map(|doubt| format!("in doubt: {doubt}")));
    if served.target + served.unfilled != cloud.desired && served.operations.is_empty() {
        differences.push(if served.deleting > 0 {
            format!("the cloud still counts {} being deleted", counted(served.deleting, "instance"))
        } else {
            format!(
                "Headcount returns {}, read {} s ago; the cloud reports {}",
                served.target, served.age_seconds, cloud.desired
            )
        });
    }
    differences
}

/// Where the Cluster Autoscaler's last loop saw something else.
pub(super) fn autoscaler_differs(served: &GroupEntry, autoscaler: &AutoscalerGroup) -> Vec<String> {
    let mut differences = Vec::new();
    let health = &autoscaler.health;
    if i64::from(served.target) != health.cloud_provider_target {
        let seen = health.cloud_provider_target;
        differences
            .push(format!("the Cluster Autoscaler last saw a target of {seen}; its status is written once per loop"));
    }
    if health.status == "Unhealthy" {
        differences.push("the Cluster Autoscaler considers it unhealthy and does not scale it".to_owned());
    }
    if health.node_counts.long_unregistered > 0 {
        let number = counted(health.node_counts.long_unregistered, "instance");
        differences.push(format!("the Cluster Autoscaler gave up on {number} that never became a node"));
    }
    differences
}
