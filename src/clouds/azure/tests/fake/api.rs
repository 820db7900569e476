//! The API of the fake, which behaves like Azure.

use async_trait::async_trait;

use super::*;
use crate::clouds::azure::arm::{ReadPurpose, ScaleSetApi};

impl State {
    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut ScaleSet)) {
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
        // Machines without an ID are left out, as in the real list.
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
            if self.ghosts.contains(name) || !machines.iter().any(|machine| machine.delete_by == *name) {
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
    fn pace(&self) -> Option<&Pace> {
        self.pace.as_deref()
    }

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

    async fn get_scale_set(&self, name: &str, _purpose: ReadPurpose) -> Result<Option<ScaleSet>, CloudError> {
        if self.state(|state| state.hanging.contains(name)) {
            std::future::pending::<()>().await;
        }
        if let Some(set) = self.state(|state| state.recreated.take()) {
            self.state(|state| state.sets.retain(|old| old.name != set.name));
            self.add(set);
        }
        self.call("get", name, |state| Ok(state.get(name).cloned()))
    }

    async fn list_uniform_machines(&self, name: &str, query: MachineQuery) -> Result<MachineList, CloudError> {
        if self.state(|state| state.hanging.contains(name)) {
            std::future::pending::<()>().await;
        }
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
        assert!(!instance_ids.is_empty(), "Azure takes an empty list for all machines");
        let subject = format!("{name}: {} force={force}", instance_ids.join(","));
        self.call("delete", &subject, |state| state.delete(name, instance_ids))
    }

    async fn delete_machine(&self, name: &str) -> Result<(), CloudError> {
        self.call("delete_machine", name, |_| Ok(()))
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

    async fn list_agent_pools(&self, cluster: &AksCluster) -> Result<Vec<AgentPool>, CloudError> {
        let answer = self
            .call("pools", &format!("{}/{}", cluster.resource_group, cluster.name), |state| Ok(state.pools.clone()));
        if self.state(|state| state.hanging.contains(&cluster.name)) {
            std::future::pending::<()>().await;
        }
        answer
    }

    async fn list_usages(&self, location: &str) -> Result<Vec<Usage>, CloudError> {
        self.call("usages", location, |state| Ok(state.usages.clone()))
    }

    async fn list_autoscale_settings(&self) -> Result<Vec<AutoscaleSetting>, CloudError> {
        self.call("autoscale", "settings", |state| Ok(state.autoscale.clone()))
    }
}
