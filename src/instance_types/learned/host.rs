//! What is missing on the hosts of an instance type before a kernel starts (R of the memory model), as nodes of any
//! group showed.
//!
//! It does not depend on the image, so it improves the templates of every group of the type, and outlives a change of
//! the image.

use std::collections::BTreeMap;

use super::{LEARNED_LIFE_DAYS, NodeReport, Sold, image};
use crate::instance_types::memory_model;
use crate::instance_types::provenance::{Day, LearnedBy};
use crate::instance_types::quantity::Quantity;

/// Types remembered. A cluster has a few dozen.
const TYPES_MAX: usize = 500;
/// The two kinds of hosts differ by 1 % of the nominal memory; nodes on one kind by less than this, in thousandths.
const HOSTS_DIFFER: u64 = 5;

/// The worst host of an instance type that a node showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedHost {
    /// What is missing there, in KiB. It can be below zero by some MiB.
    pub missing_kib: i64,
    /// The node that showed it, and the last day on which one did.
    pub by: LearnedBy,
}

/// The worst hosts, by instance type; in lower case for Azure, which ignores case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearnedHosts {
    by_type: BTreeMap<String, LearnedHost>,
}

impl LearnedHosts {
    /// What is known of a type, under its folded name.
    pub fn get(&self, type_name: &str) -> Option<&LearnedHost> {
        self.by_type.get(type_name)
    }

    /// Every type.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &LearnedHost)> {
        self.by_type.iter().map(|(name, host)| (name.as_str(), host))
    }

    /// Adds what the nodes of today show.
    pub(super) fn learn(&mut self, node_reports: &[NodeReport], sold: &dyn Fn(&str) -> Sold, today: Day) {
        for node_report in node_reports {
            if let Some(missing_kib) = missing_kib(node_report, &sold(&node_report.type_name)) {
                let by = LearnedBy { node: node_report.node.as_str().into(), seen: today };
                self.add(node_report.type_name.clone(), LearnedHost { missing_kib, by });
            }
        }
        self.forget(today);
    }

    /// Adds one. The worst host wins; an equal one keeps its node, so that nodes of one size do not take turns.
    pub(super) fn add(&mut self, type_name: String, host: LearnedHost) {
        let known = self.by_type.entry(type_name).or_insert_with(|| host.clone());
        if host.missing_kib > known.missing_kib {
            *known = host;
        } else if host.missing_kib == known.missing_kib {
            known.by.seen = known.by.seen.max(host.by.seen);
        }
    }

    /// Drops what no node has shown for `LEARNED_LIFE_DAYS`, and the oldest of too many.
    pub(super) fn forget(&mut self, today: Day) {
        self.by_type.retain(|_, host| today.days_since(host.by.seen) <= LEARNED_LIFE_DAYS);
        while self.by_type.len() > TYPES_MAX {
            let oldest = self.by_type.iter().min_by_key(|(_, host)| host.by.seen).map(|(name, _)| name.clone());
            oldest.map(|name| self.by_type.remove(&name));
        }
    }

    /// Drops what cannot be true of the types.
    pub(super) fn judge(&mut self, sold: &dyn Fn(&str) -> Sold) {
        self.by_type.retain(|name, host| {
            let nominal = sold(name).memory;
            nominal.is_none_or(|nominal| memory_model::is_plausible_missing(name, nominal, host.missing_kib))
        });
    }
}

/// What is missing on a node's host; `None` if its report does not show it, or more is missing than hosts are known
/// to take: then its image sets memory aside, and that is no property of the type.
fn missing_kib(node_report: &NodeReport, sold: &Sold) -> Option<i64> {
    let nominal = sold.memory?;
    let kernel = image::kernel(&node_report.image)?;
    let reported = node_report.capacity.get("memory")?;
    let missing = memory_model::missing_at_most_kib(kernel, nominal, *reported);
    memory_model::is_plausible_missing(&node_report.type_name, nominal, missing).then_some(missing)
}

/// The memory that a group's node would report on the worst host of its type, in KiB; `None` if it is not lower. Only
/// types that run on two kinds of hosts differ that much: on all others, what the group's own nodes report is exact.
pub(super) fn on_worst_host(
    type_name: &str,
    image: &str,
    nominal: Quantity,
    reported: Quantity,
    host: &LearnedHost,
) -> Option<Quantity> {
    if !memory_model::type_runs_on_two_hosts(type_name) {
        return None;
    }
    let own = memory_model::missing_at_most_kib(image::kernel(image)?, nominal, reported);
    let least = nominal.whole() / 1024 * HOSTS_DIFFER / 1000;
    let more = u64::try_from(host.missing_kib.saturating_sub(own)).ok().filter(|more| *more >= least)?;
    Some(Quantity::bytes((reported.whole() / 1024).saturating_sub(more - more / 64).saturating_mul(1024)))
}
