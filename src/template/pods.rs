//! The kubelet's pod limit.
//!
//! On AWS no API shows this setting; on AKS, the node pool does. The configuration, tags and user data give it exactly.
//! EKS nodes have as many pods as their network interfaces serve, unless EKS caps the number. All others have the kubelet's
//! default, including self-managed clusters on AWS: their network may not depend on the interfaces' addresses.

use super::build::Input;
use super::capacity::{Candidates, PODS};
use crate::cloud::{Family, OperatingSystem, ReservedProfile};
use crate::instance_types::{Provenance, Quantity, TypeCapacity, WithProvenance};

/// The kubelet's own default. On AKS, kubenet has it, too: the lowest default among networks that do not reserve an
/// address for each pod.
const DEFAULT: u32 = 110;
/// EKS caps managed node groups at 110 pods below 30 processors and at 250 from there on.
const MANAGED_MAX: u32 = 250;
const MANAGED_SMALL_MAX: u32 = 110;
const MANAGED_SMALL_CPUS: u32 = 30;

/// The limit, from the first of these that has one: the group's tags, `maxPods:`, `capacity:`, the user's table, what nodes
/// reported, the launch settings, the network interfaces (on EKS), the default.
pub(super) fn pods(
    input: &Input<'_>,
    explicit: &Candidates,
    known: Option<&TypeCapacity>,
    profile: ReservedProfile,
    cpu: Quantity,
) -> WithProvenance<Quantity> {
    let max_pods = input.overrides.reserved.max_pods.map(|pods| (Quantity::units(pods), Provenance::GroupOverride));
    let explicit = explicit.get(PODS).into_iter().flatten().cloned();
    let (tags, overrides): (Vec<_>, Vec<_>) =
        explicit.partition(|(_, provenance)| matches!(provenance, Provenance::GroupTag));
    let known = known.and_then(|known| known.pods.clone()).into_iter().flat_map(WithProvenance::into_candidates);
    // Users and real nodes give limits; clouds and shipped tables give what the network serves.
    let is_limit =
        |provenance: &Provenance| matches!(provenance, Provenance::UserTable { .. } | Provenance::Learned { .. });
    let (limits, of_network): (Vec<_>, Vec<_>) = known.partition(|(_, provenance)| is_limit(provenance));
    let of_launch = input.launch.max_pods.map(|pods| (pods, Provenance::Group));
    // On Windows nodes, the network counts addresses as a separate resource.
    let counts_addresses = profile == ReservedProfile::Eks
        && input.family == Family::Aws
        && input.launch.operating_system == OperatingSystem::Linux;
    let of_network = of_network.into_iter().filter(|_| counts_addresses);
    let capped = of_launch.into_iter().chain(of_network).map(|(pods, provenance)| (cap(input, cpu, pods), provenance));
    let of_machine = limits.into_iter().chain(capped).map(|(pods, provenance)| (Quantity::units(pods), provenance));
    let default = (Quantity::units(at_most(input, DEFAULT)), Provenance::Default);
    let set = tags.into_iter().chain(max_pods).chain(overrides);
    let candidates = set.chain(of_machine).chain(std::iter::once(default.clone()));
    WithProvenance::first(candidates).unwrap_or_else(|| WithProvenance::new(default.0, default.1))
}

/// No more pods than the nodes of any of the launch settings have.
fn at_most(input: &Input<'_>, pods: u32) -> u32 {
    pods.min(input.launch.pods_at_most.unwrap_or(u32::MAX))
}

/// Caps a limit as EKS does in managed node groups, even if the user's launch template sets the limit.
fn cap(input: &Input<'_>, cpu: Quantity, pods: u32) -> u32 {
    let pods = at_most(input, pods);
    if !input.launch.caps_pods {
        return pods;
    }
    let small = cpu < Quantity::units(MANAGED_SMALL_CPUS);
    pods.min(if small { MANAGED_SMALL_MAX } else { MANAGED_MAX })
}
