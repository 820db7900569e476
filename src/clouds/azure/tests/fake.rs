//! An Azure in memory for the tests of this module. It has scale sets and machines, counts calls, and fails as a test
//! configures.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{Azure, Settings};
use crate::cloud::{CloudError, Fault, OperationHandle, Progress};
use crate::clouds::azure::arm::{
    AutoscaleSetting, BadItem, InstanceViewStatus, MachineList, MachineQuery, Orchestration, ScaleSet, ScaleSetApi,
    Size, VirtualMachine,
};

pub(super) const SUBSCRIPTION: &str = "Sub-1";
pub(super) const RESOURCE_GROUP: &str = "MC_Group";

/// What the fake holds, and what was asked of it.
#[derive(Default)]
pub(super) struct State {
    pub(super) sets: Vec<ScaleSet>,
    /// By the name of their scale set.
    pub(super) machines: BTreeMap<String, Vec<VirtualMachine>>,
    pub(super) bad: Vec<BadItem>,
    pub(super) sizes: Vec<Size>,
    pub(super) autoscale: Vec<AutoscaleSetting>,
    /// What the list says of a capacity that it lags behind.
    pub(super) listed_capacities: HashMap<String, u32>,
    /// What the list still has although it is gone.
    pub(super) vanishing: Option<ScaleSet>,
    /// Whether the list leaves etags out.
    pub(super) lists_no_etags: bool,
    /// Every call, in order, as `operation subject`.
    pub(super) calls: Vec<String>,
    /// What the next calls of this operation fail with.
    pub(super) failures: HashMap<&'static str, VecDeque<CloudError>>,
    /// What operations have come to, by handle; those not in here are running.
    pub(super) progress: HashMap<String, Progress>,
    pub(super) writes: u32,
}

/// A handle on the fake.
#[derive(Clone, Default)]
pub(super) struct FakeApi(Arc<Mutex<State>>);

/// A scale set with an etag and a capacity.
pub(super) fn set(name: &str, capacity: u32) -> ScaleSet {
    ScaleSet {
        id: set_id(name),
        name: name.to_owned(),
        location: "eastus".to_owned(),
        size: Some("Standard_D4s_v3".to_owned()),
        capacity: Some(capacity),
        etag: Some("\"0\"".to_owned()),
        provisioning_state: Some("Succeeded".to_owned()),
        ..ScaleSet::default()
    }
}

fn set_id(name: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/\
         virtualMachineScaleSets/{name}"
    )
}

/// A machine that runs, with the ID that its kind of scale set gives it.
pub(super) fn machine(set: &ScaleSet, number: usize) -> VirtualMachine {
    let (id, delete_by) = match set.orchestration {
        Orchestration::Uniform => (format!("{}/virtualMachines/{number}", set.id), number.to_string()),
        Orchestration::Flexible => {
            let name = format!("{}_{number}", set.name);
            let group = set.id.split("/virtualMachineScaleSets/").next().unwrap_or_default();
            (format!("{group}/virtualMachines/{name}"), name)
        }
    };
    VirtualMachine {
        id,
        delete_by,
        provisioning_state: Some("Succeeded".to_owned()),
        statuses: Some(vec![status("PowerState/running")]),
        ..VirtualMachine::default()
    }
}

pub(super) fn status(code: &str) -> InstanceViewStatus {
    InstanceViewStatus { code: code.to_owned(), message: None }
}

/// What a call can fail with.
pub(super) fn fault(code: &str, message: &str) -> Box<Fault> {
    let code = Some(code.to_owned()).filter(|code| !code.is_empty());
    Box::new(Fault {
        operation: "call",
        subject: "subject".to_owned(),
        code,
        message: message.to_owned(),
        source: None,
    })
}

impl FakeApi {
    /// An Azure with these scale sets, each with as many running machines as its capacity says.
    pub(super) fn with(sets: Vec<ScaleSet>) -> Self {
        let fake = Self::default();
        sets.into_iter().for_each(|set| fake.add(set));
        fake
    }

    pub(super) fn add(&self, set: ScaleSet) {
        let count = usize::try_from(set.capacity.unwrap_or_default()).expect("small");
        let machines = (0..count).map(|number| machine(&set, number)).collect();
        self.state(|state| {
            state.machines.insert(set.name.clone(), machines);
            state.sets.push(set);
        });
    }

    /// What is under test, over this fake.
    pub(super) fn azure(&self, settings: Settings) -> Azure {
        Azure::over(settings, SUBSCRIPTION.to_owned(), Arc::new(self.clone()))
    }

    /// Reads or changes the state.
    pub(super) fn state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes a scale set, as somebody else might.
    pub(super) fn change(&self, name: &str, change: impl FnOnce(&mut ScaleSet)) {
        self.state(|state| state.change(name, change));
    }

    /// Changes a machine.
    pub(super) fn change_machine(&self, set: &str, number: usize, change: impl FnOnce(&mut VirtualMachine)) {
        self.state(|state| change(&mut state.machines.get_mut(set).expect("a scale set")[number]));
    }

    /// Lets the next call of the operation fail.
    pub(super) fn fail(&self, operation: &'static str, error: CloudError) {
        self.state(|state| state.failures.entry(operation).or_default().push_back(error));
    }

    /// The calls of one operation, by subject.
    pub(super) fn calls(&self, operation: &str) -> Vec<String> {
        let of =
            |call: &String| call.split_once(' ').filter(|(name, _)| *name == operation).map(|(_, on)| on.to_owned());
        self.state(|state| state.calls.iter().filter_map(of).collect())
    }

    fn call<R>(
        &self,
        operation: &'static str,
        subject: &str,
        answer: impl FnOnce(&mut State) -> Result<R, CloudError>,
    ) -> Result<R, CloudError> {
        self.state(|state| {
            state.calls.push(format!("{operation} {subject}"));
            match state.failures.get_mut(operation).and_then(VecDeque::pop_front) {
                Some(error) => Err(error),
                None => answer(state),
            }
        })
    }
}

impl State {
    fn change(&mut self, name: &str, change: impl FnOnce(&mut ScaleSet)) {
        self.writes += 1;
        let etag = format!("\"{}\"", self.writes);
        let set = self.sets.iter_mut().find(|set| set.name.eq_ignore_ascii_case(name)).expect("a scale set");
        set.etag = set.etag.is_some().then_some(etag);
        change(set);
    }

    fn get(&self, name: &str) -> Option<&ScaleSet> {
        self.sets.iter().find(|set| set.name.eq_ignore_ascii_case(name))
    }

    fn listed(&self, name: &str, query: MachineQuery) -> MachineList {
        let machine = |machine: &VirtualMachine| match query.with_view {
            true => machine.clone(),
            false => VirtualMachine { statuses: None, failed_extensions: Vec::new(), ..machine.clone() },
        };
        // What has no ID is left out, as the real list leaves it out.
        let (machines, nameless): (Vec<_>, Vec<_>) =
            self.machines[name].iter().map(machine).partition(|machine| !machine.id.is_empty());
        MachineList { machines, without_id: u32::try_from(nameless.len()).expect("few") }
    }

    fn operation(&self) -> Option<OperationHandle> {
        Some(OperationHandle(format!("operation-{}", self.writes)))
    }

    fn delete(&mut self, name: &str, names: &[String]) -> Result<Option<OperationHandle>, CloudError> {
        let set = self.get(name).ok_or_else(|| CloudError::NotFound(fault("ResourceNotFound", "no such set")))?.clone();
        let machines = self.machines.get_mut(&set.name).expect("a scale set");
        for name in names {
            if !machines.iter().any(|machine| machine.delete_by == *name) {
                let message =
                    format!("The provided instanceId {name} is not an active Virtual Machine Scale Set VM instanceId.");
                return Err(match set.orchestration {
                    Orchestration::Uniform => CloudError::Refused(fault("InvalidParameter", &message)),
                    Orchestration::Flexible => CloudError::NotFound(fault("NotFound", &message)),
                });
            }
        }
        for machine in machines.iter_mut().filter(|machine| names.contains(&machine.delete_by)) {
            machine.provisioning_state = Some("Deleting".to_owned());
        }
        let number = u32::try_from(names.len()).expect("few");
        self.change(&set.name, |set| set.capacity = set.capacity.map(|capacity| capacity.saturating_sub(number)));
        Ok(self.operation())
    }
}

#[async_trait]
impl ScaleSetApi for FakeApi {
    async fn list_scale_sets(&self) -> Result<Vec<Result<ScaleSet, BadItem>>, CloudError> {
        self.call("list", "sets", |state| {
            let listed = state.sets.iter().chain(&state.vanishing).map(|set| {
                let capacity = state.listed_capacities.get(&set.name).copied().or(set.capacity);
                let etag = set.etag.clone().filter(|_| !state.lists_no_etags);
                Ok(ScaleSet { capacity, etag, ..set.clone() })
            });
            Ok(listed.chain(state.bad.iter().cloned().map(Err)).collect())
        })
    }

    async fn get_scale_set(&self, name: &str) -> Result<Option<ScaleSet>, CloudError> {
        self.call("get", name, |state| Ok(state.get(name).cloned()))
    }

    async fn list_uniform_machines(&self, name: &str, query: MachineQuery) -> Result<MachineList, CloudError> {
        self.call(if query.with_view { "uniform" } else { "uniform-plain" }, name, |state| match state.get(name) {
            Some(set) => {
                assert_eq!(set.orchestration, Orchestration::Uniform);
                Ok(state.listed(&set.name, query))
            }
            None => Err(CloudError::NotFound(fault("ResourceNotFound", "no such set"))),
        })
    }

    async fn list_flexible_machines(&self, scale_set_id: &str, query: MachineQuery) -> Result<MachineList, CloudError> {
        self.call(if query.with_view { "flexible" } else { "flexible-plain" }, scale_set_id, |state| {
            let set = state.sets.iter().find(|set| set.id.eq_ignore_ascii_case(scale_set_id));
            let set = set.filter(|set| set.orchestration == Orchestration::Flexible);
            Ok(set.map(|set| state.listed(&set.name, query)).unwrap_or_default())
        })
    }

    async fn set_capacity(
        &self,
        name: &str,
        etag: Option<&str>,
        to: u32,
    ) -> Result<Option<OperationHandle>, CloudError> {
        self.call("patch", &format!("{name}={to} if {}", etag.unwrap_or("anything")), |state| {
            let set = state.get(name).ok_or_else(|| CloudError::NotFound(fault("ResourceNotFound", "no such set")))?;
            if etag.is_some() && set.etag.as_deref() != etag {
                return Err(CloudError::Conflict(fault("PreconditionFailed", "the etag does not match")));
            }
            state.change(name, |set| set.capacity = Some(to));
            Ok(state.operation())
        })
    }

    async fn delete_machines(
        &self,
        name: &str,
        instance_ids: &[String],
        force: bool,
    ) -> Result<Option<OperationHandle>, CloudError> {
        assert!(!instance_ids.is_empty(), "a list of none is a list of all");
        let subject = format!("{name}: {} force={force}", instance_ids.join(","));
        self.call("delete", &subject, |state| state.delete(name, instance_ids))
    }

    async fn poll(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        let running = Progress::Running { ask_after: None };
        self.call("poll", &handle.0, |state| Ok(state.progress.get(&handle.0).cloned().unwrap_or(running)))
    }

    async fn may_poll(&self, location: &str) -> Result<(), CloudError> {
        self.call("may_poll", location, |_| Ok(()))
    }

    async fn list_sizes(&self, location: &str) -> Result<Vec<Size>, CloudError> {
        self.call("sizes", location, |state| Ok(state.sizes.clone()))
    }

    async fn list_autoscale_settings(&self) -> Result<Vec<AutoscaleSetting>, CloudError> {
        self.call("autoscale", "settings", |state| Ok(state.autoscale.clone()))
    }
}
