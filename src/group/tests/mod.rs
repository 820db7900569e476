//! The code that decides, without a keeper or a cloud: every rule of the status on hand-made observations.

mod accounting;
mod deletions;
mod doubts;
mod etags;
mod late_deletions;
mod launching;
mod lowering;
mod machine;
mod placeholders;
mod plans;
mod search;
mod status;
mod undo;
mod unfilled;
mod zones;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::time::Time;

use super::census::census;
use super::cluster_nodes::{ClusterNodes, WatchedNodes};
use super::observation::Observation;
use super::operation::{Attempt, OperationId};
use super::plan::{self, DeletePlan};
use super::request::{NamedNode, NodeKind};
use super::state::{CapacityWrite, DeletionWrite, GroupState, WriteReason};
use crate::cloud::{
    CapacityIs, Consistency, Counts, Failure, FailureClass, GroupHints, GroupReading, Identity, Instance,
    InstanceState, LaunchActivity, Launched, OperationHandle, OwnLaunches, Permit, ProviderId, Provisioning, Zones,
};

/// A group under test: a clock, a state, and short words for what happens to it.
#[derive(Clone)]
struct Group {
    state: GroupState,
    now: Time,
    operations: u64,
    /// What the capacity of a group with an etag is.
    capacity_is: CapacityIs,
}

fn id(number: u32) -> ProviderId {
    ProviderId::from(format!("i-{number}"))
}

fn ids(numbers: std::ops::Range<u32>) -> Vec<ProviderId> {
    numbers.map(id).collect()
}

fn running(numbers: std::ops::Range<u32>) -> Vec<Instance> {
    numbers.map(|number| instance(number, InstanceState::Running, Counts::UntilDeleted)).collect()
}

/// Live instances that the capacity is documented to count, as on AWS.
fn counted(numbers: std::ops::Range<u32>) -> Vec<Instance> {
    numbers.map(|number| instance(number, InstanceState::Running, Counts::Yes)).collect()
}

fn deleting(numbers: std::ops::Range<u32>, counts: Counts) -> Vec<Instance> {
    numbers.map(|number| instance(number, InstanceState::Deleting, counts)).collect()
}

fn instance(number: u32, state: InstanceState, counts: Counts) -> Instance {
    Instance { id: id(number), identity: None, state, counts, is_protected: false, failure: None }
}

fn wall(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn shortage(at: SystemTime) -> Failure {
    let code = "InsufficientInstanceCapacity".to_owned();
    Failure {
        class: FailureClass::OutOfResources,
        code,
        message: "none left".to_owned(),
        at,
        is_explained: true,
        is_eviction: false,
    }
}

fn all(parts: &[Vec<Instance>]) -> Vec<Instance> {
    parts.concat()
}

/// What a read at this moment returns.
fn observation(desired: u32, instances: Vec<Instance>, now: Time, seconds: u64) -> Observation {
    let reading = GroupReading {
        name: "g".into(),
        identity: None,
        consistency: Consistency::AUTO_SCALING,
        min: 1,
        max: 100,
        floor: 0,
        desired,
        etag: None,
        units_per_node: Some(1),
        is_detail_outdated: false,
        without_id: 0,
        retained: 0,
        has_own_surplus: false,
        provisioning: Provisioning::Running,
        growth: Permit::Granted,
        removal: Permit::Granted,
        launch: Permit::Granted,
        instances: Some(instances),
        hints: Arc::new(GroupHints::default()),
        zones: Zones::default(),
        launch_fingerprint: 0,
        placeholder_prefix: "placeholder-".to_owned(),
    };
    Observation::new(reading, now, wall(seconds)).expect("it has instances")
}

impl Group {
    fn new(desired: u32, instances: Vec<Instance>) -> Self {
        let now = Time::default() + Duration::from_secs(1);
        let state = GroupState::new(observation(desired, instances, now, 0));
        Self { state, now, operations: 0, capacity_is: CapacityIs::Unknown }
    }

    /// The same group, where the configuration says that its capacity is compared with the live instances.
    fn with_actual_capacity(mut self) -> Self {
        self.capacity_is = CapacityIs::Actual;
        self
    }

    fn reading(&self, desired: u32, instances: Vec<Instance>) -> Observation {
        observation(desired, instances, self.now, self.seconds())
    }

    fn seconds(&self) -> u64 {
        self.operations
    }

    fn see(&mut self, desired: u32, instances: Vec<Instance>) {
        self.now = self.now + Duration::from_secs(1);
        let observation = self.reading(desired, instances);
        self.state.observe(observation);
    }

    /// A read this long after the first one, by the cloud's clock, too.
    fn see_at(&mut self, seconds: u64, desired: u32, instances: Vec<Instance>) {
        self.now = Time::default() + Duration::from_secs(1 + seconds);
        self.state.observe(observation(desired, instances, self.now, seconds));
    }

    /// A read of the capacity alone.
    fn see_capacity(&mut self, desired: u32) {
        self.now = self.now + Duration::from_secs(1);
        let mut reading = self.reading(desired, vec![]).reading;
        reading.instances = None;
        let observation = self.observation().with_capacity_of(reading, self.now, wall(self.seconds()));
        self.state.observe(observation);
    }

    /// The same, of a group that had this etag when its capacity was read.
    fn see_etag(&mut self, etag: &str, desired: u32, instances: Vec<Instance>) {
        self.now = self.now + Duration::from_secs(1);
        let observation = self.tagged(etag, desired, instances);
        self.state.observe(observation);
    }

    fn tagged(&self, etag: &str, desired: u32, instances: Vec<Instance>) -> Observation {
        let mut observation = self.reading(desired, instances);
        observation.reading.etag = Some(etag.to_owned());
        observation.reading.consistency = Consistency { capacity_is: self.capacity_is, ..Consistency::SCALE_SET };
        observation
    }

    /// A write that raises the capacity back.
    fn write_undo(&mut self, from: u32, to: u32) {
        self.operations += 1;
        self.state.send_capacity();
        let write = CapacityWrite { reason: WriteReason::Undo, ..self.capacity_write(from, to, None) };
        self.state.accept_capacity(OperationId(self.operations), write);
    }

    /// A write that got no response.
    fn lose(&mut self, from: u32, to: u32) {
        self.state.send_capacity();
        let write = self.capacity_write(from, to, None);
        self.state.lose_capacity(&write, self.now);
    }

    fn capacity_write(&self, from: u32, to: u32, handle: Option<OperationHandle>) -> CapacityWrite {
        let (sent, without_room) = (wall(self.seconds()), self.state.without_room());
        let (accepted, answered) = (self.now, sent);
        CapacityWrite { from, to, reason: WriteReason::Requested, accepted, sent, answered, without_room, handle }
    }

    fn write(&mut self, from: u32, to: u32, handle: Option<&str>) -> OperationId {
        self.operations += 1;
        let operation = OperationId(self.operations);
        let handle = handle.map(|handle| OperationHandle(handle.to_owned()));
        let write = self.capacity_write(from, to, handle);
        self.state.send_capacity();
        self.state.accept_capacity(operation, write);
        operation
    }

    fn delete(&mut self, numbers: std::ops::Range<u32>) -> OperationId {
        self.delete_with(numbers, Some(OperationHandle("delete".into())))
    }

    fn delete_with(&mut self, numbers: std::ops::Range<u32>, handle: Option<OperationHandle>) -> OperationId {
        self.operations += 1;
        let operation = OperationId(self.operations);
        let ids = ids(numbers);
        self.state.send_deletion(&ids, plan::not_lowering(&self.state, &ids), self.now);
        let ids = ids.into_iter().collect();
        let sent = wall(self.seconds());
        let write = DeletionWrite { ids, sent, accepted: self.now, handle, attempt: Attempt::First };
        self.state.accept_deletion(operation, write);
        operation
    }

    fn fail(&mut self, operation: OperationId, desired: u32, instances: Vec<Instance>) {
        self.now = self.now + Duration::from_secs(1);
        let observation = self.reading(desired, instances);
        self.fail_with(operation, observation);
    }

    fn fail_with(&mut self, operation: OperationId, observation: Observation) {
        self.state.fail(operation, &shortage(wall(self.seconds())), observation);
    }

    fn target(&self) -> u32 {
        self.state.status().target
    }

    fn reported(&self, state: InstanceState) -> u32 {
        self.state.status().in_state(state)
    }

    fn failed(&self) -> u32 {
        self.state.status().failed()
    }

    fn observation(&self) -> &Observation {
        self.state.observation()
    }

    fn placeholders(&self) -> Vec<ProviderId> {
        self.state.placeholders().iter().map(|placeholder| placeholder.id.clone()).collect()
    }
}
