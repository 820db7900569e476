//! A caller that works through its groups as the Cluster Autoscaler does, without pauses.

use std::net::SocketAddr;
use std::ops::AddAssign;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use headcount::grpc::proto::*;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::delivery::{Client, delivered};

/// The Cluster Autoscaler's default.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a read. Reads come from memory, but the callers keep the machine busier than any autoscaler does.
const PATIENCE: Duration = Duration::from_secs(60);
const RUNNING: i32 = 1;
const DELETING: i32 = 3;

/// Groups whose size only this caller changes.
pub(super) struct Caller {
    client: Client,
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

/// Status codes that a write may end with while the cloud fails calls. The client itself ends a call as cancelled when
/// its timeout is over before the response has come: Headcount responds in time, but on such a busy machine the
/// response arrives later.
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
            let client = Client::new(channel);
            let rng = Rng::with_seed(u64::try_from(seed).expect("small"));
            let mut caller = Self { client, groups: Vec::new(), rng, done: Work::default() };
            let every = caller.node_groups().await.into_iter().enumerate();
            caller.groups = every.filter(|(at, _)| at % number == seed).map(|(_, group)| group).collect();
            callers.push(caller);
        }
        callers
    }

    /// Runs until then. On a busy machine a loop over all groups takes longer, so it may end after any of them.
    pub(super) async fn work(mut self, until: Instant) -> Self {
        while Instant::now() < until {
            self.refresh().await;
            self.node_groups().await;
            let number = self.groups.len().min(20);
            for group in self.rng.choose_multiple(self.groups.clone(), number) {
                self.visit(&group).await;
                if Instant::now() >= until {
                    return self;
                }
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
        let get = async |mut client: Client, request| client.node_group_get_options(request).await;
        delivered(&self.client, PATIENCE, options, get).await.expect("served");
        let template = NodeGroupTemplateNodeInfoRequest { id: group.id.clone() };
        // A group whose launch spec could not be read has no template.
        let build = async |mut client: Client, request| client.node_group_template_node_info(request).await;
        let template = delivered(&self.client, PATIENCE, template, build).await;
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
        let increase = async |mut client: Client, request| client.node_group_increase_size(request).await;
        let outcome = delivered(&self.client, TIMEOUT, request, increase).await.map(drop);
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
            let delete = async |mut client: Client, request| client.node_group_delete_nodes(request).await;
            let client = self.client.clone();
            async move { delivered(&client, TIMEOUT, request, delete).await.map(drop) }
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
        let decrease = async |mut client: Client, request| client.node_group_decrease_target_size(request).await;
        let outcome = delivered(&self.client, TIMEOUT, request, decrease).await.map(drop);
        self.is_done(id, outcome);
    }

    /// Gives up the missing instances, as the Cluster Autoscaler does after its provision timeout.
    pub(super) async fn tidy_up(&mut self) {
        self.refresh().await;
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

    /// A refresh that fails leaves the last readings in place.
    async fn refresh(&self) {
        let refresh = async |mut client: Client, request| client.refresh(request).await;
        let _stale_is_fine = delivered(&self.client, TIMEOUT, RefreshRequest {}, refresh).await;
    }

    async fn node_groups(&mut self) -> Vec<NodeGroup> {
        let list = async |mut client: Client, request| client.node_groups(request).await;
        self.done.reads += 1;
        let listed = delivered(&self.client, PATIENCE, NodeGroupsRequest {}, list).await;
        listed.expect("NodeGroups never fails").node_groups
    }

    async fn target(&self, id: &str) -> i32 {
        let request = NodeGroupTargetSizeRequest { id: id.to_owned() };
        let read = async |mut client: Client, request| client.node_group_target_size(request).await;
        delivered(&self.client, PATIENCE, request, read).await.expect("served").target_size
    }

    async fn nodes(&self, id: &str) -> Vec<Instance> {
        let request = NodeGroupNodesRequest { id: id.to_owned() };
        let read = async |mut client: Client, request| client.node_group_nodes(request).await;
        delivered(&self.client, PATIENCE, request, read).await.expect("served").instances
    }

    async fn group_of(&self, provider_id: &str) -> String {
        let node = ExternalGrpcNode { provider_id: provider_id.to_owned(), ..Default::default() };
        let request = NodeGroupForNodeRequest { node: Some(node) };
        let find = async |mut client: Client, request| client.node_group_for_node(request).await;
        let found = delivered(&self.client, PATIENCE, request, find).await;
        found.expect("a response").node_group.map(|group| group.id).unwrap_or_default()
    }
}
