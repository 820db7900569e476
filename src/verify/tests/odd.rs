//! A simulated cloud that does one thing otherwise than Headcount assumes.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;

use super::*;
use crate::cloud::{
    Acceptance, Cloud, CloudError, Consistency, Counts, Deletion, Family, GroupReading, Instance, InstanceState,
    InstanceType, LaunchActivity, LaunchRequest, LaunchResult, LaunchSpec, Listing, OperationHandle, Progress,
    ProviderId, Recognition, Shortfall, VerifiableCloud, WritableCloud,
};

/// What the cloud does otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oddity {
    Nothing,
    /// It does not check the precondition.
    IgnoresEtags,
    /// Its etags never change.
    SameEtag,
    /// It returns no etags.
    NoEtags,
    /// It shows the new capacity with the instances as they were.
    OldInstances,
    /// A deletion does not lower the capacity.
    KeepsCapacity,
    /// A second deletion of an instance lowers the capacity of a scale set again.
    LowersTwice,
    /// A second deletion of an instance does nothing.
    LowersOnce,
    /// An instance that is being created is not deleted.
    KeepsCreating,
    /// A lower capacity terminates one more.
    TerminatesMore,
    /// It says that instances are protected which are not.
    FalseProtection,
    /// A launch that is repeated with its token launches another instance.
    LaunchesTwice,
    /// It forgets its operations.
    ForgetsOperations,
    /// Once armed, a write takes effect this much later, and its response does not come.
    Late(Duration),
}

pub(super) struct Odd {
    pub(super) cloud: Arc<Simulated>,
    oddity: Oddity,
    pub(super) is_armed: AtomicBool,
    named: Mutex<BTreeSet<ProviderId>>,
}

impl Odd {
    pub(super) fn new(cloud: &Arc<Simulated>, oddity: Oddity) -> Self {
        Self { cloud: Arc::clone(cloud), oddity, is_armed: AtomicBool::new(false), named: Mutex::default() }
    }

    fn shown(&self, mut reading: GroupReading) -> GroupReading {
        let instances = || reading.instances.clone().unwrap_or_default();
        match self.oddity {
            Oddity::SameEtag => reading.etag = Some("\"same\"".to_owned()),
            Oddity::NoEtags => {
                reading.etag = None;
                reading.consistency = Consistency::SCALE_SET_WITHOUT_ETAG;
            }
            Oddity::OldInstances => {
                let live = |one: Instance| Instance { state: InstanceState::Running, counts: Counts::Yes, ..one };
                reading.instances = Some(instances().into_iter().map(live).collect());
            }
            Oddity::FalseProtection => {
                let protect = |one: Instance| Instance { is_protected: true, ..one };
                reading.instances = Some(instances().into_iter().map(protect).collect());
            }
            _ => {}
        }
        reading
    }
}

#[async_trait]
impl Cloud for Odd {
    async fn list(&self) -> Result<Listing, CloudError> {
        let listing = self.cloud.list().await?;
        Ok(Listing { groups: listing.groups.into_iter().map(|one| self.shown(one)).collect(), ..listing })
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        Ok(self.cloud.observe(group).await?.map(|one| self.shown(one)))
    }

    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        Ok(self.cloud.read_capacity(group).await?.map(|one| self.shown(one)))
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        self.cloud.launch_activity(group, shortfall).await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        match self.oddity {
            Oddity::ForgetsOperations => Err(CloudError::not_found("Follow", "an operation", "unknown")),
            _ => self.cloud.follow(handle).await,
        }
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        self.cloud.launch_spec(reading).await
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        self.cloud.instance_types(names).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.cloud.all_instance_types().await
    }

    fn recognise(&self, id: &str) -> Recognition {
        self.cloud.recognise(id)
    }

    fn family(&self) -> Family {
        self.cloud.family()
    }

    fn now(&self) -> SystemTime {
        self.cloud.now()
    }
}

#[async_trait]
impl WritableCloud for Odd {
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        let unguarded = GroupReading { etag: None, ..basis.clone() };
        match self.oddity {
            Oddity::IgnoresEtags | Oddity::SameEtag | Oddity::NoEtags => self.cloud.set_capacity(&unguarded, to).await,
            Oddity::TerminatesMore if to < basis.desired => self.cloud.set_capacity(basis, to.saturating_sub(1)).await,
            Oddity::Late(later) if to > SIZE && self.is_armed.swap(false, Ordering::Relaxed) => {
                let (cloud, basis) = (Arc::clone(&self.cloud), basis.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(later).await;
                    cloud.set_capacity(&basis, to).await
                });
                std::future::pending().await
            }
            _ => self.cloud.set_capacity(basis, to).await,
        }
    }

    async fn launch(&self, basis: &GroupReading, launch: &LaunchRequest) -> Result<LaunchResult, CloudError> {
        let mut launch = launch.clone();
        if self.oddity == Oddity::LaunchesTwice && self.is_armed.swap(true, Ordering::Relaxed) {
            launch.token.push_str("-2");
        }
        self.cloud.launch(basis, &launch).await
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        let is_second = ids.iter().any(|id| !self.named.lock().expect("no panic").insert(id.clone()));
        let listed = || basis.instances.iter().flatten().filter(|one| ids.contains(&one.id));
        match self.oddity {
            Oddity::KeepsCapacity => {
                let uncounted = |one: Instance| Instance { counts: Counts::No, ..one };
                let instances = basis.instances.clone().unwrap_or_default().into_iter().map(uncounted).collect();
                let basis = GroupReading { instances: Some(instances), ..basis.clone() };
                self.cloud.delete_instances(&basis, ids).await
            }
            Oddity::LowersOnce if is_second => Ok(Deletion { already_gone: ids.to_vec(), ..Deletion::default() }),
            Oddity::LowersTwice if is_second => {
                let capacity = self.cloud.world(|world, _| world.group(GROUP).map(Group::capacity));
                let lower = capacity.unwrap_or_default().saturating_sub(1);
                self.cloud.set_desired_externally(GROUP, lower).expect("accepted");
                self.cloud.delete_instances(basis, ids).await
            }
            Oddity::KeepsCreating if listed().any(|one| one.state == InstanceState::Creating) => {
                let refused = CloudError::refused("DeleteInstances", "an instance", "it is being created");
                let refused = ids.iter().map(|id| (id.clone(), refused.clone())).collect();
                Ok(Deletion { refused, ..Deletion::default() })
            }
            _ => self.cloud.delete_instances(basis, ids).await,
        }
    }
}

#[async_trait]
impl VerifiableCloud for Odd {
    fn kind_of(&self, reading: &GroupReading) -> String {
        self.cloud.kind_of(reading)
    }

    async fn delete_behind(&self, group: &GroupName, id: &ProviderId) -> Result<(), CloudError> {
        self.cloud.delete_behind(group, id).await
    }
}
