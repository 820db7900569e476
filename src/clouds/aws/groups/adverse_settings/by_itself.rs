//! What the description of an Auto Scaling group shows of changes that nobody asked for: instances that AWS replaces,
//! keeps or cannot launch, and who may change the group.

use aws_sdk_autoscaling::types::{AutoScalingGroup, CapacityDistributionStrategy};

use super::super::lifecycle;
use crate::cloud::text::shell_word;
use crate::cloud::{AdverseKind, AdverseSetting};

const SECONDS_PER_DAY: i32 = 24 * 60 * 60;
/// Instances named in one finding.
const NAMED_MAX: usize = 5;

/// The settings of one group.
pub(super) fn of(name: &str, group: &AutoScalingGroup) -> Vec<AdverseSetting> {
    let found = [
        short_lived(name, group),
        balanced_only(name, group),
        operated(group),
        reused(name, group),
        retained(group),
        unprotected(name, group),
    ];
    let found = found.into_iter().flatten();
    found.map(|(kind, effect, advice)| AdverseSetting { group: name.into(), kind, effect, advice }).collect()
}

/// A kind, an effect and an advice.
type Found = Option<(AdverseKind, String, String)>;

/// A command that changes this setting of the group.
fn update(name: &str, setting: &str) -> String {
    format!("aws autoscaling update-auto-scaling-group --auto-scaling-group-name {} {setting}", shell_word(name))
}

fn short_lived(name: &str, group: &AutoScalingGroup) -> Found {
    let life = group.max_instance_lifetime().filter(|seconds| *seconds > 0)?;
    let effect = format!(
        "MaxInstanceLifetime is {} days: AWS replaces each instance at that age without draining its node, and the \
         Cluster Autoscaler sees nodes go that it did not name",
        life / SECONDS_PER_DAY
    );
    Some((AdverseKind::Replaces, effect, update(name, "--max-instance-lifetime 0")))
}

/// With the strategy `balanced-only`, AWS goes on launching in a zone that has no capacity. A group in one zone has no
/// choice.
fn balanced_only(name: &str, group: &AutoScalingGroup) -> Found {
    let strategy = group.availability_zone_distribution()?.capacity_distribution_strategy()?;
    if *strategy != CapacityDistributionStrategy::BalancedOnly || group.availability_zones().len() < 2 {
        return None;
    }
    let effect = "its zone distribution is balanced-only: AWS goes on launching in a zone that has no capacity, and \
                  the Cluster Autoscaler sees launches fail although other zones have room";
    let setting = "--availability-zone-distribution CapacityDistributionStrategy=balanced-best-effort";
    Some((AdverseKind::StaysInZone, effect.to_owned(), update(name, setting)))
}

fn operated(group: &AutoScalingGroup) -> Found {
    let principal = group.operator()?.principal().unwrap_or("another service");
    let effect = format!(
        "its Operator is {principal}: AWS lets nobody else change it, so every scale-up and deletion fails, and the \
         Cluster Autoscaler backs the group off"
    );
    let advice =
        "remove it from the configuration or from what autoDiscovery finds, or create a group without an operator";
    Some((AdverseKind::Operated, effect, advice.to_owned()))
}

/// A warm pool that takes instances back when the group shrinks.
fn reused(name: &str, group: &AutoScalingGroup) -> Found {
    let policy = group.warm_pool_configuration()?.instance_reuse_policy()?;
    let effect = "its warm pool reuses instances (ReuseOnScaleIn): an instance that leaves the group can return to the \
                  pool, and the Cluster Autoscaler may later see a node again that it has removed";
    let advice = format!(
        "aws autoscaling put-warm-pool --auto-scaling-group-name {} --instance-reuse-policy ReuseOnScaleIn=false",
        shell_word(name)
    );
    (policy.reuse_on_scale_in() == Some(true)).then(|| (AdverseKind::Retains, effect.to_owned(), advice))
}

/// Instances that a lifecycle policy keeps. AWS bills them until somebody terminates them.
fn retained(group: &AutoScalingGroup) -> Found {
    let retained: Vec<&str> = lifecycle::retained(group).collect();
    let first = retained.first()?;
    let more = if retained.len() > NAMED_MAX { ", …" } else { "" };
    let effect = format!(
        "{} of its instances stay in Terminating:Retained ({}{more}): AWS bills them, and the Cluster Autoscaler sees \
         them as being deleted until somebody terminates them",
        retained.len(),
        retained.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ")
    );
    let advice = format!(
        "find out why their lifecycle hook was abandoned, then, for each: aws autoscaling \
         terminate-instance-in-auto-scaling-group --instance-id {} --no-should-decrement-desired-capacity",
        shell_word(first)
    );
    Some((AdverseKind::Retains, effect, advice))
}

/// Scale-in protection is the precondition that AWS's capacity writes lack: it makes AWS store a lower capacity and
/// terminate nothing.
fn unprotected(name: &str, group: &AutoScalingGroup) -> Found {
    let effect = "its new instances are not protected from scale-in: if another client lowers the capacity, AWS \
                  terminates instances of its own choice, and the Cluster Autoscaler sees nodes go that it did not \
                  name";
    let advice = format!(
        "to let AWS keep them: {}; Headcount deletes protected instances all the same, instances that exist keep their \
         setting (aws autoscaling set-instance-protection), and an instance refresh then needs \
         ScaleInProtectedInstances=Refresh",
        update(name, "--new-instances-protected-from-scale-in")
    );
    (group.new_instances_protected_from_scale_in() != Some(true))
        .then(|| (AdverseKind::Unprotected, effect.to_owned(), advice))
}
