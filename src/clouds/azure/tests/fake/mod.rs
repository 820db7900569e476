//! An Azure in memory for the tests of this module. It has scale sets and machines, counts calls, and fails as a test
//! configures.

mod api;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Azure, Settings};
use crate::cloud::{CloudError, Fault, OperationHandle, Progress};
use crate::clouds::azure::arm::{
    AgentPool, AksCluster, AutoscaleSetting, BadItem, InstanceViewStatus, MachineList, MachineQuery, Orchestration,
    ScaleSet, Size, Usage, VirtualMachine,
};
use crate::clouds::azure::throttle::Pace;

pub(super) const SUBSCRIPTION: &str = "Sub-1";
pub(super) const RESOURCE_GROUP: &str = "MC_Group";

/// The contents of the fake, and the calls it received.
#[derive(Default)]
pub(super) struct State {
    pub(super) sets: Vec<ScaleSet>,
    /// By the name of their scale set.
    pub(super) machines: BTreeMap<String, Vec<VirtualMachine>>,
    pub(super) bad: Vec<BadItem>,
    pub(super) sizes: Vec<Size>,
    pub(super) autoscale: Vec<AutoscaleSetting>,
    /// The quotas of every location.
    pub(super) usages: Vec<Usage>,
    /// The node pools of every AKS cluster.
    pub(super) pools: Vec<AgentPool>,
    /// Outdated capacities that the list shows, by scale set.
    pub(super) listed_capacities: HashMap<String, u32>,
    /// A deleted scale set that the list still contains.
    pub(super) vanishing: Option<ScaleSet>,
    /// What a scale set is replaced with when it is read next.
    pub(super) recreated: Option<ScaleSet>,
    /// Machines that the list still shows and a deletion does not know.
    pub(super) ghosts: Vec<String>,
    /// Scale sets and AKS clusters whose reads never return.
    pub(super) hanging: HashSet<String>,
    /// Whether the list leaves etags out.
    pub(super) lists_no_etags: bool,
    /// Every call, in order, as `operation subject`.
    pub(super) calls: Vec<String>,
    /// The errors of the next calls, by operation.
    pub(super) failures: HashMap<&'static str, VecDeque<CloudError>>,
    /// The progress of operations, by handle. All others are running.
    pub(super) progress: HashMap<String, Progress>,
    pub(super) writes: u32,
}

/// A handle on the fake.
#[derive(Clone, Default)]
pub(super) struct FakeApi {
    state: Arc<Mutex<State>>,
    pace: Option<Arc<Pace>>,
}

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

/// The circumstances of a failed call.
pub(super) fn fault(code: &str, message: &str) -> Box<Fault> {
    let code = Some(code.to_owned()).filter(|code| !code.is_empty());
    Box::new(Fault {
        operation: "call".into(),
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

    /// The same Azure, whose lists of machines are spread over time.
    pub(super) fn paced(self) -> Self {
        Self { pace: Some(Arc::default()), ..self }
    }

    pub(super) fn add(&self, set: ScaleSet) {
        let count = usize::try_from(set.capacity.unwrap_or_default()).expect("small");
        let machines = (0..count).map(|number| machine(&set, number)).collect();
        self.state(|state| {
            state.machines.insert(set.name.clone(), machines);
            state.sets.push(set);
        });
    }

    /// The [`Azure`] under test, over this fake.
    pub(super) fn azure(&self, settings: Settings) -> Azure {
        Azure::over(settings, SUBSCRIPTION.to_owned(), Arc::new(self.clone()))
    }

    /// Reads or changes the state.
    pub(super) fn state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes a scale set, as another client would.
    pub(super) fn change(&self, name: &str, change: impl FnOnce(&mut ScaleSet)) {
        self.state(|state| state.change(name, change));
    }

    /// Changes a machine.
    pub(super) fn change_machine(&self, set: &str, number: usize, change: impl FnOnce(&mut VirtualMachine)) {
        self.state(|state| change(&mut state.machines.get_mut(set).expect("a scale set")[number]));
    }

    /// Makes the next call of the operation fail.
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
        response: impl FnOnce(&mut State) -> Result<R, CloudError>,
    ) -> Result<R, CloudError> {
        self.state(|state| {
            state.calls.push(format!("{operation} {subject}"));
            match state.failures.get_mut(operation).and_then(VecDeque::pop_front) {
                Some(error) => Err(error),
                None => response(state),
            }
        })
    }
}
