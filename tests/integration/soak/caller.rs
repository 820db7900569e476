//! A caller that works through its groups as the Cluster Autoscaler does, without pauses.

use std::net::SocketAddr;
use std::ops::AddAssign;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::*;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// The Cluster Autoscaler's default.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a read. Reads come from memory, but the callers keep the machine busier than any autoscaler does.
const PATIENCE: Duration = Duration::from_secs(60);
const RUNNING: i32 = 1;
const DELETING: i32 = 3;

/// Groups whose size only this caller changes.
pub(super) struct Caller {
    stub: CloudProviderClient<Channel>,
    groups: Vec<NodeGroup>,
    rng: Rng,
    done: Work,
}

/// The number of successful calls of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) refusals: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.refusals += other.refusals;
    }
}

fn timed<T>(message: T) -> Request<T> {
    within(TIMEOUT, message)
}

fn patient<T>(message: T) -> Request<T> {
    within(PATIENCE, message)
}

fn within<T>(timeout: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

/// Status codes that a write may end with while the cloud fails calls. The client itself ends a call as cancelled when its timeout is
/// over before the response has come: Headcount responds in time, but on such a busy machine the response arrives later.
fn is_fair(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable
            | Code::Aborted
            | Code::FailedPrecondition
            | Code::ResourceExhausted
            | Code::DeadlineExceeded
            | Code::Cancelled
    )
}

fn in_state(instances: &[Instance], state: i32) -> Vec<&str> {
    let of_state = |one: &&Instance| one.status.as_ref().is_some_and(|status| status.instance_state == state);
    instances.iter().filter(of_state).map(|one| one.id.as_str()).collect()
}

impl Caller {
    /// This many callers, each with its share of the groups.
    pub(super) async fn several(number: usize, address: SocketAddr) -> Vec<Self> {
        let mut channels = Vec::new();
        for _ in 0..number {
            let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
            channels.push(endpoint.connect().await.expect("connects"));
        }
        Self::over(channels).await
    }

    /// A caller on each of these connections, each with its share of the groups.
    pub(super) async fn over(channels: Vec<Channel>) -> Vec<Self> {
        let (mut callers, number) = (Vec::new(), channels.len());
        for (seed, channel) in channels.into_iter().enumerate() {
            let stub = CloudProviderClient::new(channel);
            let rng = Rng::with_seed(u64::try_from(seed).expect("small"));
            let mut caller = Self { stub, groups: Vec::new(), rng, done: Work::default() };
            let every = caller.node_groups().await.into_iter().enumerate();
            caller.groups = every.filter(|(at, _)| at % number == seed).map(|(_, group)| group).collect();
            callers.push(caller);
        }
        callers
    }

    /// Runs until then.
    pub(super) async fn work(mut self, until: Instant) -> Self {
        while Instant::now() < until {
            let _stale_is_fine = self.stub.refresh(timed(RefreshRequest {})).await;
            self.node_groups().await;
            let number = self.groups.len().min(20);
            for group in self.rng.choose_multiple(self.groups.clone(), number) {
                self.visit(&group).await;
            }
        }
        self
    }

    /// One of its groups.
    #[cfg(all(target_os = "linux", feature = "azure"))]
    pub(super) fn group(&self) -> String {
        self.groups[0].id.clone()
    }

    pub(super) fn done(&self) -> Work {
        self.done
    }

    /// One loop over a group: all reads, and one write.
    async fn visit(&mut self, group: &NodeGroup) {
        let (target, nodes) = (self.target(&group.id).await, self.nodes(&group.id).await);
        let defaults = Some(NodeGroupAutoscalingOptions::default());
        let options = NodeGroupAutoscalingOptionsRequest { id: group.id.clone(), defaults };
        self.stub.node_group_get_options(patient(options)).await.expect("served");
        let template = NodeGroupTemplateNodeInfoRequest { id: group.id.clone() };
        // A group whose launch spec could not be read has no template.
        let template = self.stub.node_group_template_node_info(patient(template)).await;
        assert!(template.as_ref().err().is_none_or(|status| status.code() == Code::Unimplemented), "{template:?}");
        if let Some(node) = nodes.first() {
            assert_eq!(self.group_of(&node.id).await, group.id);
        }
        self.done.reads += 5;
        let middle = (group.min_size + group.max_size) / 2;
        match self.rng.u32(..8) {
            0 => self.decrease(&group.id).await,
            _ if target <= middle => self.grow(group, target).await,
            _ => self.shrink(&group.id, &nodes).await,
        }
    }

    /// Law 4: an accepted scale-up shows at once.
    async fn grow(&mut self, group: &NodeGroup, target: i32) {
        let delta = self.rng.i32(1..5).min(group.max_size - target).max(1);
        let request = NodeGroupIncreaseSizeRequest { id: group.id.clone(), delta };
        let outcome = self.stub.node_group_increase_size(timed(request)).await.map(drop);
        if self.is_done(&group.id, outcome) {
            assert!(self.target(&group.id).await >= delta, "{} grew by {delta}", group.id);
        }
    }

    /// One node per call, several calls at once. Law 4: an accepted deletion is no longer listed as running.
    async fn shrink(&mut self, id: &str, nodes: &[Instance]) {
        let mut victims = in_state(nodes, RUNNING);
        self.rng.shuffle(&mut victims);
        victims.truncate(self.rng.usize(1..5));
        let calls = victims.iter().map(|victim| {
            let node = ExternalGrpcNode { provider_id: (*victim).to_owned(), ..Default::default() };
            let request = NodeGroupDeleteNodesRequest { id: id.to_owned(), nodes: vec![node] };
            let mut stub = self.stub.clone();
            async move { stub.node_group_delete_nodes(timed(request)).await.map(drop) }
        });
        let outcomes = join_all(calls).await;
        let now = self.nodes(id).await;
        let running = in_state(&now, RUNNING);
        for (victim, outcome) in victims.iter().zip(outcomes) {
            if self.is_done(id, outcome) {
                assert!(
                    !running.contains(victim),
                    "{victim} of {id} was accepted for deletion and is listed as running"
                );
            }
        }
    }

    /// With a delta that is far too large, as after a scale-up that timed out.
    async fn decrease(&mut self, id: &str) {
        let request = NodeGroupDecreaseTargetSizeRequest { id: id.to_owned(), delta: -100 };
        let outcome = self.stub.node_group_decrease_target_size(timed(request)).await.map(drop);
        self.is_done(id, outcome);
    }

    /// Gives up the missing instances, as the Cluster Autoscaler does after its provision timeout.
    pub(super) async fn tidy_up(&mut self) {
        let _stale_is_fine = self.stub.refresh(timed(RefreshRequest {})).await;
        for group in self.groups.clone() {
            let nodes = self.nodes(&group.id).await;
            let settled = in_state(&nodes, RUNNING).len() + in_state(&nodes, DELETING).len() == nodes.len();
            if !settled {
                self.decrease(&group.id).await;
            }
        }
    }

    fn is_done(&mut self, id: &str, outcome: Result<(), Status>) -> bool {
        match outcome {
            Ok(()) => self.done.writes += 1,
            Err(ref status) => {
                assert!(is_fair(status), "{id}: {status}");
                self.done.refusals += 1;
            }
        }
        outcome.is_ok()
    }

    async fn node_groups(&mut self) -> Vec<NodeGroup> {
        let response = self.stub.node_groups(patient(NodeGroupsRequest {})).await;
        self.done.reads += 1;
        response.expect("NodeGroups never fails").into_inner().node_groups
    }

    async fn target(&mut self, id: &str) -> i32 {
        let response =
            self.stub.node_group_target_size(patient(NodeGroupTargetSizeRequest { id: id.to_owned() })).await;
        response.expect("served").into_inner().target_size
    }

    async fn nodes(&mut self, id: &str) -> Vec<Instance> {
        let response = self.stub.node_group_nodes(patient(NodeGroupNodesRequest { id: id.to_owned() })).await;
        response.expect("served").into_inner().instances
    }

    async fn group_of(&mut self, provider_id: &str) -> String {
        let node = ExternalGrpcNode { provider_id: provider_id.to_owned(), ..Default::default() };
        let response = self.stub.node_group_for_node(patient(NodeGroupForNodeRequest { node: Some(node) })).await;
        response.expect("a response").into_inner().node_group.map(|group| group.id).unwrap_or_default()
    }
}
