//! When the quotas of an account limit a node group, and when they are read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use headcount::cloud::*;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::fleet::{Cadence, Deadline, Fleet, FleetError, Mutation, Policies, Settings};
use headcount::instance_types::Catalog;
use tokio::time::{Instant, sleep, timeout};

/// A cloud with one quota of 10 vCPUs, of which some are used. A node takes one.
struct Limited {
    cloud: Simulated,
    used: AtomicU64,
}

#[async_trait]
impl Cloud for Limited {
    async fn list(&self) -> Result<Listing, CloudError> {
        self.cloud.list().await
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.cloud.observe(group).await
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        self.cloud.launch_activity(group, shortfall).await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        self.cloud.follow(handle).await
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

    fn has_quotas(&self) -> bool {
        true
    }

    async fn quotas(&self) -> Result<Quotas, CloudError> {
        let names: Vec<Arc<str>> = vec!["vcpus".into()];
        let quota = Quota { used: self.used.load(Ordering::Relaxed), limit: 10 };
        Ok(Quotas {
            by_name: [("vcpus".into(), quota)].into(),
            groups: [(GroupName::from("g"), QuotaUse { names, per_node: 1 })].into(),
        })
    }

    pass_on_what_calls_nothing!();
}

#[async_trait]
impl WritableCloud for Limited {
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        self.cloud.set_capacity(basis, to).await
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        self.cloud.delete_instances(basis, ids).await
    }
}

/// A fleet with one group of one node, which may have nine, in a source that the Cluster Autoscaler calls.
struct Setup {
    limited: Arc<Limited>,
    fleet: Fleet,
}

impl Setup {
    async fn with_used(used: u64) -> Self {
        let cloud = Simulated::with_groups(1, [GroupPlan::aws("g").sized(0, 9, 1)]);
        let limited = Arc::new(Limited { cloud, used: AtomicU64::new(used) });
        let fleet = Fleet::start(Settings {
            sources: vec![("sim".into(), Arc::clone(&limited) as SharedCloud)],
            cadence: Cadence::new(Duration::from_secs(5), None),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
            read_only: false,
        });
        fleet.wait_ready(Instant::now() + Duration::from_secs(90)).await.expect("ready in time");
        let setup = Self { limited, fleet };
        setup.call().await;
        setup
    }

    async fn call(&self) {
        self.fleet.note_call(Instant::now() + Duration::from_secs(5)).await;
    }

    fn offered(&self) -> Option<u32> {
        let snapshot = Arc::clone(&self.fleet.snapshot());
        let headrooms = self.fleet.headrooms(&snapshot);
        snapshot.group("g").map(|(_, view)| headrooms.max(view))
    }

    /// Waits until so many nodes are offered, for this long at most.
    async fn until_offered(&self, nodes: u32, within: Duration) {
        let wait = async {
            while self.offered() != Some(nodes) {
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(within, wait).await.unwrap_or_else(|_| panic!("never {nodes}: {:?}", self.offered()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_serves_again_is_not_limited_by_quotas_that_it_read_before() {
    let setup = Setup::with_used(10).await;
    setup.until_offered(1, Duration::from_secs(60)).await;
    // Another replica serves the leader for hours, and the quota is used less.
    sleep(Duration::from_secs(2 * 60 * 60)).await;
    assert_eq!(setup.offered(), Some(9), "the group's own maximum, as no quota is known");
    setup.limited.used.store(5, Ordering::Relaxed);
    setup.call().await;
    setup.until_offered(6, Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_leaves_a_group_no_room_is_read_again_every_minute() {
    let setup = Setup::with_used(10).await;
    setup.until_offered(1, Duration::from_secs(60)).await;
    // The subscription's other VMs are deleted.
    setup.limited.used.store(5, Ordering::Relaxed);
    setup.until_offered(6, Duration::from_secs(75)).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_refuses_a_scale_up_says_so_and_not_that_a_quota_is_used_up() {
    let setup = Setup::with_used(10).await;
    setup.until_offered(1, Duration::from_secs(60)).await;
    let increase = async |delta| {
        let deadline = Deadline::within(Duration::from_secs(5));
        setup.fleet.mutate("g", Mutation::Increase(delta), deadline).await.expect_err("refused")
    };
    let above = increase(20).await;
    assert!(matches!(above, FleetError::Refused { .. }), "above the maximum: {above}");
    let within = increase(3).await;
    assert!(matches!(within, FleetError::OverQuota { .. }), "{within}");
}
