//! What nodes of a group reported as capacity and reserve, which replaces rules and estimates.

use super::capacity::{EPHEMERAL, MEMORY, Resources};
use super::overrides::ReservedRule;
use crate::instance_types::{LearnedType, Provenance, Quantity, ResourceQuantities, WithProvenance};

/// What a node reserves of each resource. Learned figures win over the user data and the profile. If the configuration
/// sets any part of the reserve, learned figures are not used.
pub(super) fn kept(
    by_rule: Resources,
    rule: &ReservedRule,
    seen: Option<&LearnedType>,
    capacity: &Resources,
) -> Resources {
    let Some(seen) = seen.filter(|_| *rule == ReservedRule::default()) else { return by_rule };
    let mut kept = by_rule;
    for (name, amount) in amounts(&seen.capacity, &seen.allocatable) {
        // A share of the disk is reserved, so the figures of a node with another disk do not apply.
        let same =
            name != EPHEMERAL || capacity.get(EPHEMERAL).is_some_and(|storage| storage.provenance == seen.provenance);
        let known = kept.remove(name);
        if same && (known.is_some() || !amount.is_zero()) {
            let runner_up = known.map(|known| (known.value, known.provenance));
            kept.insert(
                name.to_owned(),
                WithProvenance { value: amount, provenance: seen.provenance.clone(), runner_up },
            );
        } else if let Some(known) = known {
            kept.insert(name.to_owned(), known);
        }
    }
    kept
}

/// Capacity less allocatable. Huge pages are not part of the reserve: the kubelet subtracts them as well.
fn amounts<'a>(
    capacity: &'a ResourceQuantities,
    allocatable: &'a ResourceQuantities,
) -> impl Iterator<Item = (&'a str, Quantity)> {
    let pages = capacity.iter().filter(|(name, _)| name.starts_with("hugepages-"));
    let pages = pages.fold(Quantity::ZERO, |sum, (_, pages)| sum.plus(*pages));
    capacity.iter().filter_map(move |(name, capacity)| {
        let amount = capacity.less(*allocatable.get(name)?);
        Some((name.as_str(), if name == MEMORY { amount.less(pages) } else { amount }))
    })
}

/// Ephemeral storage: the user's table and learned figures win over the estimate from the disk. A learned figure below
/// the estimate is not used: the disk has grown since, and a group without nodes would never learn that.
pub(super) fn storage(
    known: Option<WithProvenance<Quantity>>,
    estimate: WithProvenance<Quantity>,
) -> WithProvenance<Quantity> {
    let known =
        known.into_iter().flat_map(WithProvenance::into_candidates).find(|(storage, provenance)| match provenance {
            Provenance::UserTable { .. } => true,
            Provenance::Learned { .. } => *storage >= estimate.value,
            _ => false,
        });
    WithProvenance::first(known.into_iter().chain(estimate.clone().into_candidates())).unwrap_or(estimate)
}

#[cfg(test)]
mod tests;
