//! Which reported figures can be true. A node, or whoever writes the ConfigMap, must not be able to make the Cluster
//! Autoscaler add nodes without end, or keep a group from growing: a figure counts only between a floor and what the
//! cloud sells for the instance type.

use std::fmt;

use super::ResourceQuantities;
use crate::instance_types::quantity::Quantity;

const MIB: u64 = 1 << 20;
/// The most that is missing of the memory that a cloud sells: a quarter, and 256 MiB. A crash kernel takes 256 MiB,
/// and the 222 known nodes miss 10 % at most.
const MISSING_PART: u64 = 4;
const MISSING_MORE: u64 = 256 * MIB;
/// Bounds for an instance type that no table and no cloud knows.
const UNKNOWN_MEMORY: (u64, u64) = (128 * MIB, 64 << 40);
const UNKNOWN_CPUS: (u64, u64) = (1, 2048);
/// Launch settings may leave one of two threads of each core out.
const CPU_PART: u64 = 2;
/// The smallest EC2 types have addresses for 4 pods; EKS and AKS allow 737 at most, and OpenShift documents 500.
const PODS: (u64, u64) = (4, 1000);
/// The largest volume of either cloud has 64 TiB.
const STORAGE: (u64, u64) = (1 << 30, 128 << 40);
/// How many pods may share a GPU.
const GPU_SHARES: u64 = 100;
/// Devices that a plugin makes up, such as `smarter-devices/fuse`.
const DEVICES_MAX: u64 = 10_000;
/// The least allocatable part of a capacity: an AKS node of 4 GiB with Windows keeps three quarters of its memory.
const ALLOCATABLE_PART: u64 = 8;
/// The resources that clouds count as GPUs or accelerators of a type.
const ACCELERATORS: [&str; 4] = ["nvidia.com/", "amd.com/gpu", "habana.ai/", "aws.amazon.com/neuron"];

/// What a cloud sells as an instance type, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sold {
    /// Virtual processors.
    pub cpu: Option<Quantity>,
    /// Memory, in bytes.
    pub memory: Option<Quantity>,
    /// GPUs and accelerators of all kinds.
    pub accelerators: Option<Quantity>,
}

/// A figure that cannot be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Implausible {
    /// `memory`, or `allocatable memory`.
    pub resource: String,
    /// What was reported.
    pub reported: Quantity,
    least: Quantity,
    most: Quantity,
}

impl fmt::Display for Implausible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, reported, least, most } = self;
        write!(formatter, "{resource} is {reported}, and can only be {least} to {most}")
    }
}

/// Removes the figures that cannot be true, and returns them. Without `cpu`, `memory` and `pods`, nothing of a node
/// can be learned.
pub(super) fn judge(
    capacity: &mut ResourceQuantities,
    allocatable: &mut ResourceQuantities,
    sold: &Sold,
) -> Vec<Implausible> {
    let mut found = Vec::new();
    let pages = huge_pages(capacity);
    capacity.retain(|name, reported| {
        let reported_with_pages = if name.starts_with("hugepages-") { pages } else { *reported };
        let (least, most) = bounds(name, sold);
        keep(name, "", reported_with_pages, (least, most), &mut found)
    });
    let pages = huge_pages(capacity);
    allocatable.retain(|name, reported| {
        let Some(of) = capacity.get(name) else { return false };
        // The kubelet subtracts huge pages from the memory.
        let most = if name == "memory" { of.less(pages) } else { *of };
        let least =
            if matches!(name.as_str(), "cpu" | "memory") { part(most, ALLOCATABLE_PART) } else { Quantity::ZERO };
        keep(name, "allocatable ", *reported, (least, most), &mut found)
    });
    // Each figure stays only if both of its sides do.
    capacity.retain(|name, _| allocatable.contains_key(name));
    found
}

fn keep(
    name: &str,
    prefix: &str,
    reported: Quantity,
    (least, most): (Quantity, Quantity),
    found: &mut Vec<Implausible>,
) -> bool {
    let is_plausible = (least..=most).contains(&reported);
    if !is_plausible {
        found.push(Implausible { resource: format!("{prefix}{name}"), reported, least, most });
    }
    is_plausible
}

/// What a resource of such an instance can be.
fn bounds(name: &str, sold: &Sold) -> (Quantity, Quantity) {
    let bytes = |(least, most)| (Quantity::bytes(least), Quantity::bytes(most));
    match name {
        "cpu" => match sold.cpu {
            Some(cpu) => (part(cpu, CPU_PART), cpu),
            None => counts(UNKNOWN_CPUS),
        },
        "memory" => match sold.memory.map(Quantity::whole) {
            Some(memory) => bytes(((memory - memory / MISSING_PART).saturating_sub(MISSING_MORE), memory)),
            None => bytes(UNKNOWN_MEMORY),
        },
        "pods" => counts(PODS),
        "ephemeral-storage" => bytes(STORAGE),
        _ if name.starts_with("hugepages-") => {
            (Quantity::ZERO, sold.memory.unwrap_or_else(|| Quantity::bytes(UNKNOWN_MEMORY.1)))
        }
        _ => {
            let accelerators = sold.accelerators.filter(|_| ACCELERATORS.iter().any(|kind| name.starts_with(kind)));
            let most = accelerators.map_or(DEVICES_MAX, |sold| sold.whole().saturating_mul(GPU_SHARES));
            counts((0, most.min(DEVICES_MAX)))
        }
    }
}

fn counts((least, most): (u64, u64)) -> (Quantity, Quantity) {
    let units = |count: u64| Quantity::units(u32::try_from(count).unwrap_or(u32::MAX));
    (units(least), units(most))
}

fn huge_pages(capacity: &ResourceQuantities) -> Quantity {
    let pages = capacity.iter().filter(|(name, _)| name.starts_with("hugepages-"));
    pages.fold(Quantity::ZERO, |sum, (_, pages)| sum.plus(*pages))
}

/// One part in so many, rounded down to thousandths of cores, or bytes.
fn part(of: Quantity, parts: u64) -> Quantity {
    let millis = of.whole_millis() / parts;
    match u32::try_from(millis) {
        Ok(millis) => Quantity::millis(millis),
        Err(_) => Quantity::bytes(of.whole() / parts),
    }
}
