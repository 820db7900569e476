//! Auto Scaling groups: finding, reading, resizing, and terminating their instances.

mod activities;
mod adverse_settings;
mod discovery;
mod eligibility;
pub(super) mod ids;
mod launches;
mod lifecycle;
mod listing;
mod reading;
mod sizes;
mod termination;
mod weights;
mod zonal_shifts;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use super::launch::LaunchSettings;
use super::sdk::api::AutoScalingApi;
use super::sdk::cache::Cache;
use super::sdk::connect::Clients;
use crate::cloud::{Acceptance, CloudError, GroupName, GroupReading};
use crate::clouds::warnings::Warnings;
use crate::config::settings::aws::Settings;
use zonal_shifts::ZonalShifts;

/// The Auto Scaling groups that one source serves.
pub(super) struct Groups {
    settings: Settings,
    region: String,
    pub(super) scaling: Arc<dyn AutoScalingApi>,
    pub(super) shifts: ZonalShifts,
    pub(super) warnings: Warnings,
    /// The launch settings of each group as last read, so that building a template needs no further read of the group.
    launch_settings: Mutex<HashMap<GroupName, Arc<LaunchSettings>>>,
    /// Holds an entry while AWS is known to lack the batch form of TerminateInstanceInAutoScalingGroup.
    no_batch_form: Cache<(), ()>,
    /// Which instance of a batch that meets a conflict is tried first.
    next_probe: AtomicUsize,
}

impl Groups {
    /// Makes no call yet.
    pub(super) fn new(settings: Settings, clients: &Clients) -> Self {
        Self {
            settings,
            region: clients.region.clone(),
            scaling: Arc::clone(&clients.scaling),
            shifts: ZonalShifts::new(Arc::clone(&clients.shifts), Arc::clone(&clients.ec2)),
            warnings: Warnings::default(),
            launch_settings: Mutex::default(),
            no_batch_form: Cache::default(),
            next_probe: AtomicUsize::new(0),
        }
    }

    /// One of the groups read so far.
    pub(super) fn any_group(&self) -> Option<GroupName> {
        let known = self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner);
        known.keys().min().cloned()
    }

    /// The cluster and the name of one of the EKS managed node groups read so far.
    pub(super) fn any_managed_nodegroup(&self) -> Option<(String, String)> {
        let known = self.launch_settings.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().find_map(|settings| settings.managed_nodegroup())
    }

    /// Sets the desired capacity to `to` nodes.
    pub(super) async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        const OPERATION: &str = "SetDesiredCapacity";
        let group = basis.name.as_str();
        let units = basis
            .units_per_node
            .ok_or_else(|| CloudError::refused(OPERATION, group, "the group's capacity is not counted in nodes"))?;
        let units = to.checked_mul(units).and_then(|units| i32::try_from(units).ok());
        let units = units.ok_or_else(|| {
            CloudError::refused(OPERATION, group, format!("a capacity of {to} nodes is more than AWS accepts"))
        })?;
        self.scaling.set_desired_capacity(group, units).await?;
        Ok(Acceptance { handle: None })
    }
}
