//! Turns a VM into an instance: what its provisioning state and instance view mean.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Settings;
use super::arm::{MachineList, ScaleSet, VirtualMachine};
use super::ids::provider_id;
use super::scale_set_cache::{CachedMachine, CachedMachines};
use crate::cloud::text::{MESSAGE_CHARS_MAX, shorten};
use crate::cloud::{Counts, Failure, FailureClass, Identity, Instance, InstanceState, ProviderId, differ};

/// The code of a VM that failed without a reason. The reason of the operation that created it replaces it.
pub(super) const UNEXPLAINED: &str = "provisioning-state-failed";
pub(super) const UNEXPLAINED_MESSAGE: &str = "Azure failed to provision a node for this node group";
/// The extension that joins a VM to the cluster, in AKS and in clusters built like it.
const NODE_EXTENSION: &str = "vmssCSE";
const EXTENSION_FAILED: &str = "VMExtensionProvisioningFailed";
/// A VM that is older than this was a node: no node takes this long to start.
const NODE_AGE: Duration = Duration::from_secs(20 * 60);

/// Codes of failures that another VM, size or zone would not avoid. All others count as short capacity or quota, as
/// in-tree, so that CA tries another group.
const OTHER_FAILURES: [&str; 9] = [
    "VMExtension",
    "VMAgent",
    "OSProvisioning",
    "ProvisioningFailed",
    "Invalid",
    "Image",
    "AuthorizationFailed",
    "LinkedAuthorizationFailed",
    "ReferencedResourceNotProvisioned",
];

/// Reads the VMs of one scale set.
pub(super) struct MachineReader<'a> {
    pub(super) set: &'a ScaleSet,
    pub(super) settings: &'a Settings,
    /// The VMs as last read.
    pub(super) before: Option<&'a CachedMachines>,
}

/// Reads the VMs of a scale set.
pub(super) fn read(view: &MachineReader<'_>, list: &MachineList, now: SystemTime) -> (Vec<Instance>, CachedMachines) {
    let machines = &list.machines;
    let mut known: HashMap<ProviderId, CachedMachine> = HashMap::with_capacity(machines.len());
    let mut instances = Vec::with_capacity(machines.len());
    for machine in machines {
        let entry = view.machine(machine, now);
        let instance = entry.instance.clone();
        if known.insert(instance.id.clone(), entry).is_none() {
            instances.push(instance);
        }
    }
    if view.set.overprovision {
        let was_counted = |id: &ProviderId| {
            let before = view.before.and_then(|before| before.get(id));
            before.is_some_and(|before| before.instance.counts != Counts::No)
        };
        discount_extra(&mut instances, view.set.capacity, was_counted);
        for instance in &instances {
            if let Some(entry) = known.get_mut(&instance.id) {
                entry.instance.counts = instance.counts;
            }
        }
    }
    (instances, CachedMachines { by_id: known })
}

// Overprovisioning launches more VMs than the capacity and deletes those that start last. They are not part of the
// capacity. A VM that was once part of it stays so: if deletions fail, the capacity stays too low for all that live, and
// those that were requested are not extra.
fn discount_extra(instances: &mut [Instance], capacity: Option<u32>, was_counted: impl Fn(&ProviderId) -> bool) {
    let Some(capacity) = capacity.and_then(|capacity| usize::try_from(capacity).ok()) else { return };
    let staying = instances.iter().filter(|instance| instance.state != InstanceState::Deleting).count();
    let extra = staying.saturating_sub(capacity);
    let is_coming = |one: &Instance| one.state == InstanceState::Creating && one.failure.is_none();
    let may_be_extra = |one: &&mut Instance| is_coming(one) && !was_counted(&one.id);
    for instance in instances.iter_mut().rev().filter(may_be_extra).take(extra) {
        instance.counts = Counts::No;
    }
}

/// The power state of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PowerState {
    On,
    Stopped,
    Deallocated,
    /// The instance view has no power state.
    Unknown,
    /// There is no instance view.
    NotRead,
}

impl MachineReader<'_> {
    fn machine(&self, machine: &VirtualMachine, now: SystemTime) -> CachedMachine {
        let id = provider_id(&machine.id);
        let identity = machine.vm_id.as_deref().map(|id| Identity::of(&[id]));
        // A VM that was created again under its ID is another one.
        let is_same = |before: &&CachedMachine| !differ(before.instance.identity, identity);
        let before = self.before.and_then(|before| before.get(&id)).filter(is_same);
        let (state, failure) = self.state(machine, before, now);
        // A failure keeps its time from one reading to the next.
        let earlier = before.and_then(|before| before.instance.failure.as_ref());
        let failure = failure.map(|failure| match earlier {
            Some(earlier) if earlier.code == failure.code => Failure { at: earlier.at, ..failure },
            _ => failure,
        });
        let is_ready =
            machine.provisioning_state.as_deref().is_some_and(|state| state.eq_ignore_ascii_case("Succeeded"));
        let runs = state == InstanceState::Running && (is_ready || power(machine) == PowerState::On);
        CachedMachine {
            delete_by: machine.delete_by.clone(),
            created: machine.created,
            instance: Instance {
                id,
                identity,
                state,
                counts: Counts::UntilDeleted,
                is_protected: false,
                failure: failure.map(Arc::new),
            },
            was_running: runs || before.is_some_and(|before| before.was_running),
        }
    }

    fn state(
        &self,
        machine: &VirtualMachine,
        before: Option<&CachedMachine>,
        now: SystemTime,
    ) -> (InstanceState, Option<Failure>) {
        let was_node = was_node(machine, before, now);
        let before = before.map(|before| &before.instance);
        let state = machine.provisioning_state.as_deref().unwrap_or_default().to_ascii_lowercase();
        if state == "deleting" {
            return (InstanceState::Deleting, None);
        }
        if self.settings.detailed_extension_messages
            && !was_node
            && let Some(failure) = node_extension_failure(machine, now)
        {
            return (InstanceState::Creating, Some(failure));
        }
        match (state.as_str(), power(machine)) {
            ("creating", _) => (InstanceState::Creating, None),
            ("updating" | "", _) => last_known(before),
            ("failed", PowerState::NotRead) => last_known(before),
            // Without an instance view, the state of extensions is unknown, too.
            (_, PowerState::NotRead) if failed_by_extension(before) => last_known(before),
            // It was evicted, and its deallocation or its start failed: listed as failed, as in-tree.
            ("failed", PowerState::Deallocated) => {
                (InstanceState::Creating, Some(Failure { is_eviction: true, ..failure(machine, now) }))
            }
            ("failed", PowerState::Stopped | PowerState::Unknown) if !was_node => {
                (InstanceState::Creating, Some(failure(machine, now)))
            }
            _ => (InstanceState::Running, None),
        }
    }
}

// An update does not show the state of the VM, only that it is no longer being deleted. What Headcount itself deletes
// is known from its operation. A VM that may live must not be missing from the target.
fn last_known(before: Option<&Instance>) -> (InstanceState, Option<Failure>) {
    match before {
        Some(before) if before.state != InstanceState::Deleting => (before.state, before.failure.as_deref().cloned()),
        _ => (InstanceState::Running, None),
    }
}

// CA deletes VMs that are listed as failed to be created, without a drain. That must not happen to a node whose state
// is temporarily unknown. A VM that this process has listed as failed stays failed at any age, and one that it has only
// seen being created never was a node: Azure ends some of those after more than 20 minutes (OSProvisioningTimedOut).
fn was_node(machine: &VirtualMachine, before: Option<&CachedMachine>, now: SystemTime) -> bool {
    let age = machine.created.and_then(|created| now.duration_since(created).ok());
    let was_created = before.is_none_or(|before| before.instance.state != InstanceState::Creating);
    before.is_some_and(|before| before.was_running) || (age.is_some_and(|age| age > NODE_AGE) && was_created)
}

fn failed_by_extension(before: Option<&Instance>) -> bool {
    before.and_then(|before| before.failure.as_ref()).is_some_and(|failure| failure.code == EXTENSION_FAILED)
}

fn power(machine: &VirtualMachine) -> PowerState {
    let Some(statuses) = &machine.statuses else { return PowerState::NotRead };
    let codes = statuses.iter().map(|status| status.code.to_ascii_lowercase());
    let powers = codes.filter_map(|code| match code.strip_prefix("powerstate/")? {
        "running" | "starting" => Some(PowerState::On),
        "stopping" | "stopped" => Some(PowerState::Stopped),
        "deallocating" | "deallocated" => Some(PowerState::Deallocated),
        "unknown" => Some(PowerState::Unknown),
        _ => None,
    });
    powers.into_iter().next().unwrap_or(PowerState::Unknown)
}

/// Why a VM failed, according to its instance view.
fn failure(machine: &VirtualMachine, now: SystemTime) -> Failure {
    const FAILED: &str = "provisioningstate/failed";
    let statuses = machine.statuses.as_deref().unwrap_or_default();
    let failed = statuses
        .iter()
        .find(|status| status.code.get(..FAILED.len()).is_some_and(|start| start.eq_ignore_ascii_case(FAILED)));
    let code = failed.and_then(|status| status.code.get(FAILED.len()..)?.strip_prefix('/'));
    let message = failed.and_then(|status| status.message.as_deref()).filter(|message| !message.is_empty());
    if let Some(code) = code.filter(|code| !code.is_empty()) {
        let message = message.unwrap_or(UNEXPLAINED_MESSAGE);
        return Failure {
            class: class(code),
            code: code.to_owned(),
            message: short(message),
            at: now,
            is_explained: true,
            is_eviction: false,
        };
    }
    if let Some(extension) = machine.failed_extensions.first() {
        let said = extension.message.as_deref().unwrap_or("failed");
        return Failure {
            class: FailureClass::Other,
            code: EXTENSION_FAILED.to_owned(),
            message: short(&format!("{}: {said}", extension.code)),
            at: now,
            is_explained: true,
            is_eviction: false,
        };
    }
    Failure {
        class: FailureClass::OutOfResources,
        code: UNEXPLAINED.to_owned(),
        message: short(message.unwrap_or(UNEXPLAINED_MESSAGE)),
        at: now,
        is_explained: false,
        is_eviction: false,
    }
}

fn node_extension_failure(machine: &VirtualMachine, now: SystemTime) -> Option<Failure> {
    let failed = machine.failed_extensions.iter().filter(|status| status.code.eq_ignore_ascii_case(NODE_EXTENSION));
    let messages: Vec<&str> = failed.map(|status| status.message.as_deref().unwrap_or_default()).collect();
    if messages.is_empty() {
        return None;
    }
    let name = machine.id.rsplit('/').next().unwrap_or_default();
    Some(Failure {
        class: FailureClass::Other,
        code: EXTENSION_FAILED.to_owned(),
        message: short(&format!("{name}: [{}]", messages.join(", "))),
        at: now,
        is_explained: true,
        is_eviction: false,
    })
}

fn class(code: &str) -> FailureClass {
    let is_other = OTHER_FAILURES.iter().any(|start| code.starts_with(start));
    if is_other { FailureClass::Other } else { FailureClass::OutOfResources }
}

fn short(message: &str) -> String {
    shorten(message, MESSAGE_CHARS_MAX)
}
