//! A fleet over simulated clouds, and short names for what the tests request and observe.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::{CapacityIs, GrowsBy, InstanceState, ProviderId, SharedCloud};
use headcount::clouds::simulated::{Accounting, CallKind, GroupPlan, PlannedFailure, Simulated};
use headcount::fleet::{
    Cadence, Deadline, Fleet, FleetError, Mutation, NamedNode, NodeKind, Policies, Policy, Settings,
};
use headcount::instance_types::Catalog;
use tokio::time::{Instant, sleep, timeout};

/// The interval between listings of a busy source, unless a test sets another one.
const BUSY: Duration = Duration::from_secs(5);

/// A fleet over simulated sources.
pub(super) struct Fixture {
    pub(super) fleet: Arc<Fleet>,
    pub(super) clouds: Vec<Arc<Simulated>>,
}

impl Fixture {
    /// A fleet over one source with these groups, ready to serve.
    pub(super) async fn with(plans: impl IntoIterator<Item = GroupPlan>) -> Self {
        Self::listed_every(BUSY, plans).await
    }

    /// The same, where the configuration says that capacities are compared with the live instances: they are lowered.
    pub(super) async fn that_lowers(plans: impl IntoIterator<Item = GroupPlan>) -> Self {
        let actual = Policy { capacity_is: Some(CapacityIs::Actual), ..Policy::of_all() };
        let sources = [("sim", Simulated::with_groups(7, plans))];
        let fixture = Self::start(sources, Cadence::new(BUSY, None), Policies(vec![actual]));
        fixture.ready().await;
        fixture
    }

    /// The same, where the configuration says that they grow by launches.
    pub(super) async fn that_launches(plans: impl IntoIterator<Item = GroupPlan>) -> Self {
        let launches = Policy { grows_by: Some(GrowsBy::Launch), ..Policy::of_all() };
        let sources = [("sim", Simulated::with_groups(7, plans))];
        let fixture = Self::start(sources, Cadence::new(BUSY, None), Policies(vec![launches]));
        fixture.ready().await;
        fixture
    }

    /// A fleet over one source with these groups, ready to serve, and listed at this interval while it is busy.
    pub(super) async fn listed_every(interval: Duration, plans: impl IntoIterator<Item = GroupPlan>) -> Self {
        let cadence = Cadence::new(interval, None);
        let fixture = Self::start([("sim", Simulated::with_groups(7, plans))], cadence, Policies::default());
        fixture.ready().await;
        fixture
    }

    pub(super) fn cold(sources: impl IntoIterator<Item = (&'static str, Simulated)>) -> Self {
        Self::start(sources, Cadence::new(BUSY, None), Policies::default())
    }

    /// A fleet over these sources with these policies.
    pub(super) fn with_policies(
        sources: impl IntoIterator<Item = (&'static str, Simulated)>,
        policies: Vec<Policy>,
    ) -> Self {
        Self::start(sources, Cadence::new(BUSY, None), Policies(policies))
    }

    fn start(
        sources: impl IntoIterator<Item = (&'static str, Simulated)>,
        cadence: Cadence,
        policies: Policies,
    ) -> Self {
        let sources: Vec<_> = sources.into_iter().map(|(name, cloud)| (name, Arc::new(cloud))).collect();
        let settings = Settings {
            sources: sources.iter().map(|(name, cloud)| (Arc::from(*name), Arc::clone(cloud) as SharedCloud)).collect(),
            cadence,
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(policies),
            read_only: false,
        };
        let clouds = sources.into_iter().map(|(_, cloud)| cloud).collect();
        Self { fleet: Arc::new(Fleet::start(settings)), clouds }
    }

    pub(super) async fn ready(&self) {
        self.fleet.wait_ready(Instant::now() + Duration::from_secs(90)).await.expect("ready in time");
    }

    pub(super) fn cloud(&self) -> &Simulated {
        &self.clouds[0]
    }

    pub(super) fn target(&self, group: &str) -> u32 {
        self.fleet.snapshot().group(group).expect("served").1.status.target
    }

    pub(super) fn unfilled(&self, group: &str) -> u32 {
        self.fleet.snapshot().group(group).expect("served").1.status.unfilled
    }

    pub(super) fn max(&self, group: &str) -> u32 {
        self.fleet.snapshot().group(group).expect("served").1.max
    }

    pub(super) fn instances(&self, group: &str, state: InstanceState) -> Vec<ProviderId> {
        let snapshot = self.fleet.snapshot();
        let (_, view) = snapshot.group(group).expect("served");
        view.status.instances.iter().filter(|one| one.state == state).map(|one| one.id.clone()).collect()
    }

    pub(super) fn failed(&self, group: &str) -> Vec<ProviderId> {
        let snapshot = self.fleet.snapshot();
        let (_, view) = snapshot.group(group).expect("served");
        view.status.instances.iter().filter(|one| one.failure.is_some()).map(|one| one.id.clone()).collect()
    }

    pub(super) async fn increase(&self, group: &str, delta: u32) -> Result<(), FleetError> {
        self.fleet.mutate(group, Mutation::Increase(delta), limit(5)).await
    }

    pub(super) async fn decrease(&self, group: &str, number: u32) -> Result<(), FleetError> {
        self.fleet.mutate(group, Mutation::Decrease(number), limit(5)).await
    }

    pub(super) async fn delete(&self, group: &str, ids: &[ProviderId]) -> Result<(), FleetError> {
        self.fleet.mutate(group, Mutation::Delete(named(ids)), limit(5)).await
    }

    /// Deletes instances that never became nodes: Headcount does not hold the response.
    pub(super) async fn delete_unregistered(&self, group: &str, ids: &[ProviderId]) -> Result<(), FleetError> {
        let node = |id: &ProviderId| NamedNode { id: id.clone(), kind: NodeKind::Unregistered };
        self.fleet.mutate(group, Mutation::Delete(ids.iter().map(node).collect()), limit(5)).await
    }

    pub(super) fn calls(&self, kind: CallKind) -> usize {
        self.cloud().calls().iter().filter(|call| call.kind == kind).count()
    }

    pub(super) fn capacity(&self, group: &str) -> u32 {
        self.cloud().world(|world, _| world.group(group).expect("exists").capacity())
    }

    /// Lets simulated time pass until a condition holds.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let wait = async {
            while !holds(self) {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(Duration::from_secs(600), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    pub(super) fn no_instance_was_killed(&self) {
        for cloud in &self.clouds {
            assert_eq!(cloud.killed_unnamed(), [], "a write killed instances that no call named");
        }
    }
}

pub(super) fn limit(seconds: u64) -> Deadline {
    let respond_by = Instant::now() + Duration::from_secs(seconds);
    Deadline { send_by: respond_by - Duration::from_millis(500), respond_by }
}

pub(super) fn named(ids: &[ProviderId]) -> Vec<NamedNode> {
    ids.iter().map(|id| NamedNode { id: id.clone(), kind: NodeKind::Registered }).collect()
}

pub(super) fn no_capacity() -> PlannedFailure {
    PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "no capacity here")
}

pub(super) fn seconds(seconds: u64) -> headcount::clouds::simulated::Span {
    Duration::from_secs(seconds)..=Duration::from_secs(seconds)
}

/// A group of each kind and accounting.
pub(super) fn kinds() -> [(&'static str, GroupPlan); 3] {
    [
        ("an Auto Scaling group", GroupPlan::aws("g")),
        ("a scale set that counts instances being deleted", GroupPlan::azure("g").accounting(Accounting::WhenGone)),
        ("a scale set that does not", GroupPlan::azure("g").accounting(Accounting::OnAccept)),
    ]
}
