//! Sets a capacity, and deletes exactly the named VMs with one call.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::arm::operations::{DELETE_INSTANCES, UPDATE_SCALE_SET};
use super::arm::{FORCE_DELETE_NOT_ALLOWED, OPERATION_NOT_ALLOWED};
use super::arm::{ReadPurpose, ScaleSet};
use super::ids::{self, MachineName, provider_id};
use super::scale_set_cache::CachedMachines;
use super::{Azure, sizes};
use crate::cloud::{
    Acceptance, CloudError, Deletion, GroupName, GroupReading, InstanceState, OperationHandle, ProviderId,
};

/// How long the list of VMs may take that shows which of them are gone. Callers wait for 5 s by default, and the others
/// are sent again within that time.
const LIST_LIMIT: Duration = Duration::from_secs(2);

/// A VM to delete: the ID that the caller uses, and the name that Azure uses.
#[derive(Clone, Debug)]
struct MachineToDelete {
    id: ProviderId,
    name: String,
}

impl Azure {
    /// Sets the capacity if the scale set has not changed since it was read.
    pub(super) async fn resize(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        let group = basis.name.as_str();
        // A VM without an ID is not among the instances, so a lower capacity could delete it.
        if to < basis.desired && basis.without_id > 0 {
            let message =
                format!("the list shows VMs without an ID ({}), so the capacity is not lowered", basis.without_id);
            return Err(CloudError::conflict(UPDATE_SCALE_SET, group, message));
        }
        let handle = match basis.etag.as_deref().filter(|etag| !etag.is_empty()) {
            Some(etag) => self.api.set_capacity(group, Some(etag), to).await?,
            None => self.resize_without_etag(basis, to).await?,
        };
        Ok(Acceptance { handle })
    }

    // A capacity is an absolute number: without a precondition it undoes changes that others made in between (#9452).
    // It is therefore read again immediately before.
    async fn resize_without_etag(&self, basis: &GroupReading, to: u32) -> Result<Option<OperationHandle>, CloudError> {
        let group = basis.name.as_str();
        let gone = || CloudError::not_found(UPDATE_SCALE_SET, group, "the scale set does not exist");
        let set = self.api.get_scale_set(group, ReadPurpose::Write).await?.ok_or_else(gone)?;
        if set.capacity != Some(basis.desired) {
            let message = "the capacity has changed since it was read";
            return Err(CloudError::conflict(UPDATE_SCALE_SET, group, message));
        }
        let etag = set.etag.as_deref().filter(|etag| !etag.is_empty());
        if etag.is_none() {
            let warning = "Azure returns no etag for the scale set; its capacity is written without a precondition";
            self.warnings.log_new(&basis.name, vec![warning.to_owned()]);
        }
        self.api.set_capacity(group, etag, to).await
    }

    /// Deletes the named VMs with one call. If that fails because some of them are gone, the others are refused with a
    /// conflict: whether there is still time to send them again, only the caller knows (law 9).
    pub(super) async fn delete(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        let group = &basis.name;
        let mut deletion = Deletion::default();
        let machines = self.known_machines(group).await?;
        let targets = self.targets(basis, &machines, ids, &mut deletion);
        match self.post(group, &targets).await {
            Err(error) if names_missing_machines(&error) => {
                let rest = self.still_there(group, targets, &error, &mut deletion).await?;
                let busy = CloudError::conflict(DELETE_INSTANCES, group.as_str(), error.to_string());
                deletion.refused.extend(rest.into_iter().map(|target| (target.id, busy.clone())));
            }
            outcome => {
                deletion.handle = outcome?;
                deletion.accepted.extend(targets.into_iter().map(|target| target.id));
            }
        }
        Ok(deletion)
    }

    async fn known_machines(&self, group: &GroupName) -> Result<Arc<CachedMachines>, CloudError> {
        if let Some(machines) = self.cache.machines(group) {
            return Ok(machines);
        }
        self.observe_one(group, ReadPurpose::Write).await?;
        let gone = || CloudError::not_found(DELETE_INSTANCES, group.as_str(), "the scale set does not exist");
        self.cache.machines(group).ok_or_else(gone)
    }

    // A VM that the scale set does not list is left out, unless the deletion was decided on a list that has it: the last
    // list may be one that is not believed (law 5). Azure answers for it then. A VM that it lists as being deleted is named again: the caller
    // names such VMs only if this deletion would otherwise cancel theirs. VMs that are protected from scale-in are
    // deleted too, because the protection only covers deletions that the scale set chooses itself.
    fn targets(
        &self,
        basis: &GroupReading,
        machines: &CachedMachines,
        ids: &[ProviderId],
        deletion: &mut Deletion,
    ) -> Vec<MachineToDelete> {
        let group = &basis.name;
        let lives = |id: &ProviderId| {
            let mut listed = basis.instances.iter().flatten();
            listed.any(|one| one.id == *id && one.state != InstanceState::Deleting)
        };
        let mut targets: Vec<MachineToDelete> = Vec::with_capacity(ids.len());
        for id in ids {
            if !self.has_form_of(group, id) {
                let message = format!("the ID does not have the form of a VM in {group}");
                deletion.refused.push((id.clone(), CloudError::refused(DELETE_INSTANCES, id.as_str(), message)));
                continue;
            }
            let of_id =
                || ids::parse(id.as_str()).filter(|_| lives(id)).map(|parsed| parsed.machine.in_set().to_owned());
            let known = machines.get(id).map(|known| known.delete_by.clone());
            match known.or_else(of_id) {
                None => deletion.already_gone.push(id.clone()),
                Some(name) if targets.iter().any(|target| target.name == name) => {}
                Some(name) => targets.push(MachineToDelete { id: id.clone(), name }),
            }
        }
        targets
    }

    fn has_form_of(&self, group: &GroupName, id: &ProviderId) -> bool {
        match ids::parse(id.as_str()).filter(|parsed| self.is_ours(parsed)).map(|parsed| parsed.machine) {
            Some(MachineName::Uniform(set, _)) => set.eq_ignore_ascii_case(group.as_str()),
            Some(MachineName::Standalone(_)) => true,
            None => false,
        }
    }

    /// Sends the deletion, with force if that is configured and allowed. A conflict if it turns out not to be allowed:
    /// the next attempt is sent without.
    async fn post(
        &self,
        group: &GroupName,
        targets: &[MachineToDelete],
    ) -> Result<Option<OperationHandle>, CloudError> {
        // Azure takes an empty list for all VMs.
        if targets.is_empty() {
            return Ok(None);
        }
        let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
        let force = self.may_force(group);
        match self.api.delete_machines(group.as_str(), &names, force).await {
            Err(error) if force && forbids_force(&error) => {
                tracing::info!(%group, %error, "Azure does not allow force deletion here; VMs are shut down first");
                self.cache.note_force_refused(group);
                Err(CloudError::conflict(DELETE_INSTANCES, group.as_str(), error.to_string()))
            }
            outcome => outcome,
        }
    }

    fn may_force(&self, group: &GroupName) -> bool {
        let allowed = |set: Arc<ScaleSet>| {
            let mut of_set = set.size.iter().chain(&set.mixed_sizes);
            !set.has_host_group && !of_set.any(|size| sizes::is_isolated(size))
        };
        self.settings.enable_force_delete
            && !self.cache.is_force_refused(group)
            && self.cache.set(group).is_some_and(allowed)
    }

    /// Reads the VMs again and returns those of `targets` that exist and are not being deleted. Where the list still
    /// shows all of them, it lags, and the one that `error` names is gone.
    async fn still_there(
        &self,
        group: &GroupName,
        targets: Vec<MachineToDelete>,
        error: &CloudError,
        deletion: &mut Deletion,
    ) -> Result<Vec<MachineToDelete>, CloudError> {
        let Some(set) = self.cache.set(group) else { return Err(error.clone()) };
        let listed = timeout(LIST_LIMIT, self.machines_of(&set, ReadPurpose::Write)).await;
        // The first error is more useful than that of the list. Nothing was deleted.
        let Ok(Ok(list)) = listed else { return Err(error.clone()) };
        // A VM without an ID may be one of these.
        if list.without_id > 0 {
            return Err(error.clone());
        }
        let is_going = |state: Option<&str>| state.is_some_and(|state| state.eq_ignore_ascii_case("Deleting"));
        let staying = list.machines.iter().filter(|machine| !is_going(machine.provisioning_state.as_deref()));
        let staying: HashSet<ProviderId> = staying.map(|machine| provider_id(&machine.id)).collect();
        let is_listed = |target: &MachineToDelete| staying.contains(&target.id);
        let named = missing_machine(error).filter(|_| targets.iter().all(is_listed));
        let is_named =
            |target: &MachineToDelete| named.as_deref().is_some_and(|named| named.eq_ignore_ascii_case(&target.name));
        let is_there = |target: &MachineToDelete| is_listed(target) && !is_named(target);
        let (there, gone): (Vec<_>, Vec<_>) = targets.into_iter().partition(is_there);
        if gone.is_empty() {
            let message = format!("Azure does not know a VM that its list of VMs shows: {error}");
            return Err(CloudError::conflict(DELETE_INSTANCES, group.as_str(), message));
        }
        deletion.already_gone.extend(gone.into_iter().map(|target| target.id));
        Ok(there)
    }
}

// Uniform scale sets return 400 InvalidParameter, "The provided instanceId 5 is not an active Virtual Machine Scale Set
// VM instanceId.", with the target instanceIds.
fn names_missing_machines(error: &CloudError) -> bool {
    match error {
        CloudError::NotFound(_) => true,
        CloudError::Refused(fault) => {
            fault.code.as_deref() == Some("InvalidParameter")
                && fault.message.to_ascii_lowercase().contains("instanceid")
        }
        _ => false,
    }
}

/// The name of the VM that an error of Azure's calls missing.
fn missing_machine(error: &CloudError) -> Option<String> {
    let message = error.fault().message.to_ascii_lowercase();
    let name = message.split_once("instanceid ")?.1.split_whitespace().next()?;
    Some(name.trim_matches(['\'', '"']).to_owned())
}

// Not every refusal says that it is about the force. A quota, a throttle and an operation in progress are other errors.
fn forbids_force(error: &CloudError) -> bool {
    let is = |code: &str| error.fault().code.as_deref() == Some(code);
    is(FORCE_DELETE_NOT_ALLOWED) || (matches!(error, CloudError::Refused(_)) && is(OPERATION_NOT_ALLOWED))
}
