//! Which devices the drivers of the newest nodes publish, by group and instance type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::instance_types::NodeReport;
use crate::instance_types::resource_slices::{DriverReport, published};
use crate::kubernetes::ResourceSlice;

/// Nodes read of each group and type: the newest ones.
const NODES_READ: usize = 3;
/// A driver that publishes nothing for a node of this age does not run there any more. Neither does a device plugin whose
/// device its kubelet does not know.
const SETTLED: Duration = Duration::from_secs(60 * 60);

/// What the drivers of the nodes publish.
#[derive(Default)]
pub(super) struct Devices {
    pub(super) reports: Vec<DriverReport>,
    /// Groups and types with a node that is old enough to have all its drivers.
    pub(super) settled: BTreeSet<(String, String)>,
    /// Drivers whose slices cannot be read, and why.
    pub(super) unread: BTreeMap<String, String>,
}

impl Devices {
    pub(super) fn of(
        reports: &[NodeReport],
        slices: &BTreeMap<String, Vec<Arc<ResourceSlice>>>,
        now: SystemTime,
    ) -> Self {
        let mut by_type: BTreeMap<(&str, &str), Vec<&NodeReport>> = BTreeMap::new();
        for report in reports {
            by_type.entry((report.group(), report.type_name())).or_default().push(report);
        }
        let mut devices = Self::default();
        for ((group, type_name), mut nodes) in by_type {
            nodes.sort_by(|one, other| (other.created(), other.node()).cmp(&(one.created(), one.node())));
            if nodes.iter().any(|node| is_settled(node, now)) {
                devices.settled.insert((group.to_owned(), type_name.to_owned()));
            }
            for node in nodes.into_iter().take(NODES_READ) {
                devices.read(node, slices.get(node.node()).map(Vec::as_slice).unwrap_or_default());
            }
        }
        devices
    }

    fn read(&mut self, node: &NodeReport, slices: &[Arc<ResourceSlice>]) {
        let found = published(node.node(), slices.iter().map(|slice| slice.spec.as_str()));
        self.unread.extend(found.unread);
        self.reports.extend(found.drivers.into_iter().map(|(driver, slices)| DriverReport {
            group: node.group().to_owned(),
            type_name: node.type_name().to_owned(),
            driver,
            node: node.node().to_owned(),
            created: node.created().to_owned(),
            slices,
        }));
    }
}

/// Whether a node is old enough to have all its drivers and device plugins.
pub(super) fn is_settled(node: &NodeReport, now: SystemTime) -> bool {
    let created = humantime::parse_rfc3339(node.created()).ok();
    created.and_then(|created| now.duration_since(created).ok()).is_some_and(|age| age > SETTLED)
}
