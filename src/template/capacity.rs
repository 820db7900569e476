//! The capacity and the allocatable resources of a group's nodes.

use std::collections::BTreeMap;

use super::build::Input;
use super::disk::storage_for_pods;
use super::error::TemplateError;
use super::launch_reserves::LaunchReserves;
use super::learned;
use super::pods::pods;
use super::reserved::{self, NodeSize};
use super::resource_slices::published_instead;
use super::spread::{Spreads, spreads};
use crate::cloud::{Architecture, Family, OperatingSystem, ReservedProfile};
use crate::instance_types::memory_model::Host;
use crate::instance_types::{Provenance, Quantity, TypeCapacity, WithProvenance};

pub(super) const CPU: &str = "cpu";
pub(super) const MEMORY: &str = "memory";
pub(super) const PODS: &str = "pods";
pub(super) const EPHEMERAL: &str = "ephemeral-storage";
/// Addresses for pods on Windows: a resource of an EKS controller, which counts them only on Windows nodes.
const WINDOWS_ADDRESSES: &str = "vpc.amazonaws.com/PrivateIPv4Address";
pub(super) const NVIDIA: &str = "nvidia.com/gpu";
const NEURON: &str = "aws.amazon.com/neuron";
/// The resource name of GPUs on AKS nodes with Windows.
const DIRECTX: &str = "microsoft.com/directx";

/// The most pods that AKS allows on a node. It reserves memory by their number, so where the limit is not visible,
/// the reserve is that for the most, although the template promises no more than the lowest default.
const AKS_PODS_MAX: u32 = 250;

pub(super) type Resources = BTreeMap<String, WithProvenance<Quantity>>;

/// What the nodes of a group have.
pub(super) struct NodeResources {
    pub(super) capacity: Resources,
    pub(super) allocatable: Resources,
    /// `None` where types differ or it is not known.
    pub(super) architecture: Option<WithProvenance<Architecture>>,
    /// How much the types of the group differ.
    pub(super) spreads: Spreads,
}

/// What the nodes of one instance type have.
struct TypeResources {
    capacity: Resources,
    allocatable: Resources,
    architecture: Option<WithProvenance<Architecture>>,
}

/// The least amount of each resource that any instance type of the group has.
pub(super) fn node_resources(input: &Input<'_>, profile: ReservedProfile) -> Result<NodeResources, TemplateError> {
    let explicit = explicit(input);
    let of_launch = LaunchReserves::of(input);
    let types = &input.launch.types;
    let each = types.iter().map(|name| type_resources(input, &explicit, &of_launch, profile, name));
    let each: Result<Vec<_>, _> = each.collect();
    let each = each?;
    let named: Vec<_> = types.iter().map(String::as_str).zip(each.iter().map(|of_type| &of_type.capacity)).collect();
    let spreads = spreads(&named);
    let least = each.into_iter().reduce(|least, of_type| TypeResources {
        capacity: minimum(least.capacity, &of_type.capacity),
        allocatable: minimum(least.allocatable, &of_type.allocatable),
        architecture: least
            .architecture
            .filter(|one| of_type.architecture.as_ref().is_some_and(|other| other.value == one.value)),
    });
    let least = least.ok_or(TemplateError::NoType)?;
    let TypeResources { capacity, allocatable, architecture } = least;
    Ok(NodeResources { capacity, allocatable, architecture, spreads })
}

/// The smaller amount of each resource. A resource that one of the two lacks is left out, because not every node has
/// it.
fn minimum(mut one: Resources, other: &Resources) -> Resources {
    one.retain(|name, _| other.contains_key(name));
    for (name, quantity) in &mut one {
        if let Some(smaller) = other.get(name).filter(|other| other.value < quantity.value) {
            *quantity = smaller.clone();
        }
    }
    one
}

pub(super) type Candidates = BTreeMap<String, Vec<(Quantity, Provenance)>>;

/// What the tags and the configuration set for every node of the group, regardless of its type; most trusted first. Tags
/// of an EKS managed node group win over those of its Auto Scaling group, as in-tree.
fn explicit(input: &Input<'_>) -> Candidates {
    let mut explicit = Candidates::new();
    for (name, text) in input.launch.resources.iter().chain(&input.hints.resources) {
        match text.parse::<Quantity>() {
            Ok(quantity) if !quantity.is_negative() => {
                explicit.entry(name.clone()).or_default().push((quantity, Provenance::GroupTag));
            }
            unusable => {
                let error =
                    unusable.err().map_or_else(|| "the quantity is negative".to_owned(), |error| error.to_string());
                tracing::warn!(
                    group = input.group,
                    resource = name,
                    value = text,
                    error,
                    "resource tag has an invalid value; ignoring the tag"
                );
            }
        }
    }
    for (name, quantity) in &input.overrides.capacity {
        explicit.entry(name.clone()).or_default().push((*quantity, Provenance::GroupOverride));
    }
    explicit
}

fn type_resources(
    input: &Input<'_>,
    explicit: &Candidates,
    of_launch: &LaunchReserves,
    profile: ReservedProfile,
    type_name: &str,
) -> Result<TypeResources, TemplateError> {
    let known = input.catalog.resolve(input.family, type_name);
    if known.is_none() && !(explicit.contains_key(CPU) && explicit.contains_key(MEMORY)) {
        return Err(TemplateError::UnknownType {
            type_name: type_name.to_owned(),
            table: match input.family {
                Family::Aws => "aws",
                Family::Azure => "azure",
            },
        });
    }
    let mut capacity = other_resources(input, explicit, profile, known.as_ref());
    let incomplete = |resource| TemplateError::Incomplete { type_name: type_name.to_owned(), resource };
    let from_catalog = known.as_ref().and_then(|known| known.cpu.clone()).map(|cpu| enabled_cpus(input, cpu));
    let cpu = trusted(explicit, CPU, from_catalog).ok_or_else(|| incomplete(CPU))?;
    let host = Host {
        family: input.family,
        type_name,
        architecture: known.as_ref().and_then(|known| known.architecture.as_ref()).map(|known| known.value),
        operating_system: input.launch.operating_system,
        image: input.launch.image,
        is_encrypted: input.launch.is_encrypted,
        learned_missing_kib: None,
        overhead: input.overrides.memory_overhead,
    };
    let images = std::iter::once(host.image).chain(input.launch.images.iter().copied().map(Some));
    let hosts = images.map(|image| Host { image, ..host });
    let reported = hosts.filter_map(|host| known.as_ref().and_then(|known| known.reported_memory(&host)));
    let from_catalog = reported.min_by_key(|memory| memory.value);
    let memory = trusted(explicit, MEMORY, from_catalog).ok_or_else(|| incomplete(MEMORY))?;
    let is_nominal = |known: &TypeCapacity| known.memory.as_ref().is_some_and(|memory| memory.value.is_nominal());
    let is_estimated = matches!(memory.provenance, Provenance::Estimated { .. });
    let memory_is_estimated =
        !explicit.contains_key(MEMORY) && (is_estimated || known.as_ref().is_some_and(is_nominal));
    let pods = pods(input, explicit, known.as_ref(), profile, cpu.value);
    let pods_limit = u32::try_from(pods.value.whole()).unwrap_or(u32::MAX);
    let pods_are_assumed = profile == ReservedProfile::Aks && pods.provenance == Provenance::Default;
    // AKS reserves for as many as its pool says, whatever limit a tag or a table states.
    let of_pool = input.launch.max_pods.filter(|_| input.overrides.reserved.max_pods.is_none());
    let reserved_for = match profile {
        ReservedProfile::Aks if pods_are_assumed => AKS_PODS_MAX,
        ReservedProfile::Aks => of_pool.unwrap_or(0),
        _ => 0,
    };
    let size = NodeSize {
        operating_system: input.launch.operating_system,
        cpu: cpu.value,
        machine_cpu: machine_cpu(known.as_ref()).max(cpu.value),
        memory: memory.value,
        // If a table's memory exceeds what the cloud sells, the table's figure counts as the nominal memory, too.
        nominal_memory: known.as_ref().and_then(|known| known.nominal_memory).unwrap_or_default().max(memory.value),
        memory_is_estimated,
        ephemeral_storage: capacity.get(EPHEMERAL).map(|storage| storage.value),
        pods: reserved_for.max(pods_limit),
        network_pods: known.as_ref().and_then(network_pods).unwrap_or(pods_limit),
    };
    capacity.insert(CPU.to_owned(), cpu);
    capacity.insert(MEMORY.to_owned(), memory);
    capacity.insert(PODS.to_owned(), pods);
    let rule = &input.overrides.reserved;
    let mut kept = reserved::reserved(rule, of_launch, profile, &size);
    set_pages_aside(input, type_name, &capacity, &mut kept);
    let kept = learned::kept(kept, rule, known.as_ref().and_then(|known| known.learned.as_deref()), &capacity);
    Ok(TypeResources {
        allocatable: allocatable(&capacity, &kept),
        capacity,
        architecture: known.and_then(|known| known.architecture),
    })
}

/// The number of pods that the reserve of this type is computed from. The cloud's wins over the user's, see
/// [`TypeCapacity::network_pods`].
fn network_pods(known: &TypeCapacity) -> Option<u32> {
    known.network_pods.or_else(|| known.pods.as_ref().map(|pods| pods.value))
}

/// The most trusted value: what is set for the group wins over what is known about the type.
fn trusted(
    explicit: &Candidates,
    name: &str,
    known: Option<WithProvenance<Quantity>>,
) -> Option<WithProvenance<Quantity>> {
    let explicit = explicit.get(name).into_iter().flatten().cloned();
    WithProvenance::first(explicit.chain(known.into_iter().flat_map(WithProvenance::into_candidates)))
}

/// The vCPUs of the machine behind a type; zero, where nothing is known about it.
fn machine_cpu(known: Option<&TypeCapacity>) -> Quantity {
    let of_type = known.and_then(|known| known.cpu.as_ref()).map(|cpu| cpu.value);
    known.and_then(|known| known.machine_cpu).max(of_type).unwrap_or_default()
}

/// The vCPUs of a type that the launch settings leave enabled. What a node reported is what they had left it.
fn enabled_cpus(input: &Input<'_>, of_type: WithProvenance<Quantity>) -> WithProvenance<Quantity> {
    let is_sold = |(_, provenance): &(Quantity, Provenance)| !matches!(provenance, Provenance::Learned { .. });
    let sold = of_type.clone().into_candidates().find(is_sold).map(|(cpu, _)| cpu);
    let one_per_core = sold.filter(|_| input.launch.has_one_thread_per_core).map(Quantity::halved);
    let most = input.launch.cpus_max.map(Quantity::units).or(one_per_core);
    match most.filter(|most| *most < of_type.value) {
        Some(most) => WithProvenance {
            value: most,
            provenance: Provenance::Group,
            runner_up: Some((of_type.value, of_type.provenance)),
        },
        None => of_type,
    }
}

/// Everything but cpu, memory and pods. Leaves out resources with an amount of zero: such a key makes a node without
/// a GPU look like one whose GPU is not ready yet.
fn other_resources(
    input: &Input<'_>,
    explicit: &Candidates,
    profile: ReservedProfile,
    known: Option<&TypeCapacity>,
) -> Resources {
    let mut resources: Resources = known.map(|known| known.resources.clone()).unwrap_or_default();
    for name in published_instead(input, known.and_then(|known| known.learned.as_deref())) {
        resources.remove(name);
    }
    let windows = input.launch.operating_system == OperatingSystem::Windows;
    if !windows || profile != ReservedProfile::Eks {
        resources.remove(WINDOWS_ADDRESSES);
    }
    if windows && matches!(profile, ReservedProfile::Aks | ReservedProfile::AksLegacy) {
        let gpus = resources.remove(NVIDIA);
        resources.extend(gpus.map(|gpus| (DIRECTX.to_owned(), gpus)));
    }
    let is_users = |known: &WithProvenance<Quantity>| matches!(known.provenance, Provenance::UserTable { .. });
    for (name, count) in &input.launch.devices {
        if resources.get(name).is_some_and(is_users) {
            continue;
        }
        resources.insert(name.clone(), WithProvenance::new(Quantity::units(*count), Provenance::Group));
    }
    if let Some(storage) = storage_for_pods(input, known) {
        let storage = learned::storage(resources.remove(EPHEMERAL), storage);
        resources.insert(EPHEMERAL.to_owned(), storage);
    }
    for name in explicit.keys() {
        let known = resources.remove(name);
        if let Some(quantity) = trusted(explicit, name, known) {
            resources.insert(name.clone(), quantity);
        }
    }
    resources.retain(|name, quantity| !quantity.value.is_zero() && ![CPU, MEMORY, PODS].contains(&name.as_str()));
    resources
}

/// Adds the huge pages that images set aside for a device to what a node keeps of its memory. For an Elastic Fabric
/// Adapter, these are 220 MiB for each vCPU, and one page: five known nodes with 64 and 96 vCPUs have exactly that. For
/// each Inferentia 1 device, 256 MiB, unless the configuration says how much memory is missing: one node with one device
/// is known, more devices are assumed to have as much each. User data may set others aside. Not every image does it, and
/// a kernel may not find as many, so the template has no huge pages. Where they are declared or learned, those count
/// instead.
fn set_pages_aside(input: &Input<'_>, type_name: &str, capacity: &Resources, kept: &mut Resources) {
    const PER_CPU_MIB: u64 = 220;
    const PAGE_MIB: u64 = 2;
    const PER_INFERENTIA_MIB: u64 = 256;
    let linux = input.launch.operating_system == OperatingSystem::Linux;
    if !linux || capacity.keys().any(|name| name.starts_with("hugepages-")) {
        return;
    }
    let number = |name: &str| capacity.get(name).map_or(0, |amount| amount.value.whole());
    let of_efa =
        if input.launch.has_efa { number(CPU).saturating_mul(PER_CPU_MIB).saturating_add(PAGE_MIB) } else { 0 };
    let is_inferentia = type_name.starts_with("inf1.") && input.overrides.memory_overhead.is_none();
    let of_inferentia = if is_inferentia { number(NEURON).saturating_mul(PER_INFERENTIA_MIB) } else { 0 };
    let of_user_data = input.launch.huge_pages.saturating_mul(PAGE_MIB);
    let pages = of_efa.max(of_user_data).saturating_add(of_inferentia);
    // What no machine has leaves nothing.
    let pages = Quantity::mebibytes(pages).or_else(|| capacity.get(MEMORY).map(|memory| memory.value));
    let pages = pages.unwrap_or_default();
    if let Some(memory) = kept.get_mut(MEMORY) {
        memory.value = memory.value.plus(pages);
    }
}

/// Capacity less the reserve. Memory is also reduced by the huge pages in it, as the kubelet does.
fn allocatable(capacity: &Resources, kept: &Resources) -> Resources {
    let pages = capacity.iter().filter(|(name, _)| name.starts_with("hugepages-"));
    let pages = pages.fold(Quantity::ZERO, |sum, (_, pages)| sum.plus(pages.value));
    capacity
        .iter()
        .map(|(name, capacity)| {
            let left = |kept: Quantity| {
                let left = capacity.value.less(kept);
                if name == MEMORY { left.less(pages) } else { left }
            };
            let quantity = match kept.get(name) {
                Some(kept) => kept.clone().map(left),
                None => capacity.clone().map(|value| if name == MEMORY { value.less(pages) } else { value }),
            };
            (name.clone(), quantity)
        })
        .collect()
}
