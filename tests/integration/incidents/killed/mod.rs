//! Headcount is killed (SIGKILL) at any point, and starts again without any state: its first responses match the
//! cloud's own state, repeated calls have no second effect, and no unnamed instance was killed.

mod growth;
mod removal;

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{
    Accounting, Group, GroupPlan, LaunchOutcome, Member, Phase, Pick, PlannedFailure, Simulated,
};
use headcount::grpc::proto::Instance;
use tokio::task::JoinHandle;
use tonic::Status;

use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{Client, eventually};

/// Longer than any of these tests: no machine starts or ends meanwhile.
const FOREVER: Duration = Duration::from_secs(24 * 60 * 60);

/// How many run at first.
const RUNNING: u32 = 6;

/// Method and part of a request.
type RequestPattern = (&'static str, &'static str);

/// How a cloud's requests are distinguished.
#[derive(Clone, Copy)]
struct Requests {
    read: RequestPattern,
    resize: RequestPattern,
    delete: RequestPattern,
}

/// A cloud with a group called `pool`, and Headcount in front of it.
struct KillTest<F> {
    setup: Setup<F>,
    requests: Requests,
    /// Those that run at first.
    first: Vec<String>,
}

/// Whether launches take forever or fail at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Launches {
    Slow,
    Fail,
}

fn plan(plan: GroupPlan, launches: Launches) -> GroupPlan {
    let mut plan = plan.sized(0, 50, RUNNING).launch_time(FOREVER..=FOREVER).delete_time(FOREVER..=FOREVER);
    plan.retry_every = FOREVER;
    match launches {
        Launches::Slow => plan,
        Launches::Fail => {
            let failure = PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "none");
            let soon = Duration::from_millis(100)..=Duration::from_millis(200);
            plan.launches(Pick::Always, LaunchOutcome::fails(failure, soon))
        }
    }
}

async fn over_aws(launches: Launches) -> KillTest<Aws> {
    let simulated = Simulated::with_groups(1, [plan(GroupPlan::aws("pool"), launches)]);
    let requests = Requests {
        read: ("POST", "Action=DescribeAutoScalingGroups"),
        resize: ("POST", "Action=SetDesiredCapacity"),
        delete: ("POST", "Action=TerminateInstanceInAutoScalingGroup"),
    };
    KillTest::open(Aws::start(Arc::new(simulated)), requests).await
}

async fn over_azure(accounting: Accounting, launches: Launches) -> KillTest<Arm> {
    let simulated = Simulated::with_groups(1, [plan(GroupPlan::azure("pool"), launches).accounting(accounting)]);
    let requests = Requests {
        read: ("GET", "virtualMachineScaleSets"),
        resize: ("PATCH", "virtualMachineScaleSets/pool"),
        delete: ("POST", "virtualMachineScaleSets/pool/delete"),
    };
    KillTest::open(Arm::start(Arc::new(simulated)), requests).await
}

impl<F: Emulator> KillTest<F> {
    async fn open(emulator: F, requests: Requests) -> Self {
        let mut setup = Setup::open(emulator).await;
        let first = setup.client.nodes_in("pool", 1).await;
        assert_eq!(first.len(), usize::try_from(RUNNING).expect("a few"));
        Self { setup, requests, first }
    }

    fn pool<R>(&self, look: impl FnOnce(&Group) -> R) -> R {
        self.setup.emulator.simulated().world(|world, _| look(world.group("pool").expect("it exists")))
    }

    fn capacity(&self) -> u32 {
        self.pool(Group::capacity)
    }

    /// The cloud's IDs of the instances in a phase, sorted.
    fn in_phase(&self, phase: Phase) -> Vec<String> {
        let ids = |group: &Group| {
            let mut ids: Vec<String> =
                group.members().filter(|member| member.phase == phase).map(|member| member.id.clone()).collect();
            ids.sort();
            ids
        };
        self.pool(ids)
    }

    /// How many such requests were sent.
    fn sent(&self, pattern: RequestPattern) -> usize {
        self.setup.emulator.requests_with(pattern.0, pattern.1).len()
    }

    fn hold(&self, pattern: RequestPattern, moment: HoldPoint) {
        self.setup.emulator.hold(pattern.0, pattern.1, moment);
    }

    /// Makes a call during which Headcount is killed.
    fn begin<C>(&self, call: impl FnOnce(Client) -> C) -> JoinHandle<Result<(), Status>>
    where
        C: Future<Output = Result<(), Status>> + Send + 'static,
    {
        tokio::spawn(call(self.setup.client.clone()))
    }

    /// Kills Headcount during a call.
    async fn kill_under(&mut self, call: JoinHandle<Result<(), Status>>) {
        self.setup.kill();
        call.await.expect("no panic").expect_err("the server is gone");
    }

    /// Starts Headcount again, and checks its first responses.
    async fn start(&mut self) {
        self.setup.start().await;
        self.setup.client.refresh().await.expect("read");
        self.assert_true().await;
    }

    /// Headcount reports the cloud's own state, and no unnamed instance was killed.
    async fn assert_true(&mut self) {
        let counted = |member: &&Member| member.phase == Phase::Deleting && member.counts();
        let going = self.pool(|group| group.members().filter(counted).count());
        let target = i32::try_from(self.capacity()).expect("small") - i32::try_from(going).expect("small");
        let (running, deleting) = (self.in_phase(Phase::Running), self.in_phase(Phase::Deleting));
        let client = &mut self.setup.client;
        assert_eq!(client.target("pool").await, target);
        assert_eq!(numbers(client.nodes_in("pool", 1).await), running);
        assert_eq!(numbers(client.nodes_in("pool", 3).await), deleting);
        let missing = usize::try_from(target).expect("not negative") - running.len();
        client
            .until("what is missing is listed", async |client| client.nodes_in("pool", 2).await.len() == missing)
            .await;
        assert!(self.setup.emulator.simulated().killed_unnamed().is_empty());
        let of_first = running.len() + deleting.len();
        assert_eq!(of_first, self.first.len(), "no instance that ran is gone, as deletions take forever");
    }

    /// Waits until Headcount reports this many failed launches.
    async fn until_failed(&mut self, number: usize) {
        let failed = |node: &Instance| node.status.as_ref().is_some_and(|status| status.error_info.is_some());
        let told = async |client: &mut Client| client.nodes("pool").await.iter().filter(|node| failed(node)).count();
        self.setup.client.until("they have failed", async |client| told(client).await == number).await;
    }

    /// Two of those that run at first, to be deleted.
    fn victims(&self) -> Vec<String> {
        self.first[1..3].to_vec()
    }

    /// Checks that two of the first instances are being deleted, and no others.
    async fn assert_two_are_going(&mut self) {
        self.setup
            .client
            .until("they are being deleted", async |client| client.nodes_in("pool", 3).await.len() == 2)
            .await;
        self.assert_true().await;
        self.assert_two_are_listed_as_going().await;
    }

    async fn assert_two_are_listed_as_going(&mut self) {
        assert_eq!(self.in_phase(Phase::Deleting), numbers(self.victims()));
        assert_eq!(numbers(self.setup.client.nodes_in("pool", 3).await), numbers(self.victims()));
    }

    /// Waits until this many such requests were sent.
    async fn until_sent(&self, pattern: RequestPattern, number: usize) {
        eventually("it is sent", || self.sent(pattern) == number).await;
    }
}

/// The cloud's own IDs in provider IDs, sorted.
fn numbers(provider_ids: Vec<String>) -> Vec<String> {
    let of = |id: &String| id.rsplit('/').next().unwrap_or_default().to_owned();
    let mut numbers: Vec<String> = provider_ids.iter().map(of).collect();
    numbers.sort();
    numbers
}

async fn delete(mut client: Client, nodes: Vec<String>) -> Result<(), Status> {
    client.delete("pool", &nodes.iter().map(String::as_str).collect::<Vec<_>>()).await
}
