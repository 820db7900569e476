//! Which offer a request for a node's price is about.

use super::proto::ExternalGrpcNode;
use crate::cloud::Family;
use crate::fleet::{Fleet, GroupView, Snapshot, TemplateState};
use crate::prices::{Offer, Prices};

/// CA names the node that stands for a group's next one `template-node-for-<group>-<number>`.
const TEMPLATE_NODE: &str = "template-node-for-";
/// The most dashes that can follow the group's ID in that name.
const SUFFIX_DASHES_MAX: usize = 4;

/// The offer for a node: what its group launches, or else what its labels say.
///
/// The group decides because labels do not show everything: nodes of a mixed group differ in type, and on AWS no label
/// shows that a self-managed node is spot capacity.
pub(super) fn offer(snapshot: &Snapshot, node: &ExternalGrpcNode, default: Family) -> Offer {
    let group = group_by_name(snapshot, &node.name).or_else(|| snapshot.group_of(&node.provider_id));
    match group.and_then(|(_, view)| offer_of(view)) {
        Some(offer) => offer.clone(),
        None => Offer::of_labels(&node.labels, default),
    }
}

/// The offer for a group's nodes, once its template is built.
fn offer_of(view: &GroupView) -> Option<&Offer> {
    match &view.template {
        TemplateState::Ready(template) => Some(&template.offer),
        TemplateState::Pending | TemplateState::Unavailable(_) => None,
    }
}

fn group_by_name<'a>(
    snapshot: &'a Snapshot,
    name: &str,
) -> Option<(&'a std::sync::Arc<str>, &'a std::sync::Arc<GroupView>)> {
    let mut id = name.strip_prefix(TEMPLATE_NODE)?;
    for _ in 0..SUFFIX_DASHES_MAX {
        id = id.rsplit_once('-')?.0;
        if let Some(group) = snapshot.group(id) {
            return Some(group);
        }
    }
    None
}

/// Takes the first source's region from one of its groups, where the configuration does not name it.
pub(super) fn find_region(fleet: &Fleet, prices: &Prices) {
    if !prices.lacks_region() {
        return;
    }
    let Some((first, _)) = fleet.sources().next() else { return };
    let snapshot = fleet.snapshot();
    let mut offers =
        snapshot.groups().filter(|(_, view)| view.key.source == *first).filter_map(|(_, view)| offer_of(view));
    if let Some(region) = offers.find_map(|offer| offer.region.as_deref()) {
        prices.set_region(region);
    }
}
