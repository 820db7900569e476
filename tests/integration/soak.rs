//! The real server under load: 500 groups, 10,000 instances, a cloud that fails one call in ten, and callers that
//! behave like the Cluster Autoscaler but do not wait between loops.
//!
//! Two servers get the same load. One runs in this process, on a runtime of its own: there the test checks the laws in
//! the cloud itself and counts the runtime's tasks. The other is the real binary, because this process's memory and
//! descriptors belong to all its tests.
//!
//! `HEADCOUNT_SOAK=1h cargo test --test integration soak` runs for an hour; the default is 5 s. `under_attack.rs` adds
//! attackers.

mod caller;
#[cfg(all(target_os = "linux", feature = "azure"))]
mod under_attack;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{Faults, Settings, Simulated};
use headcount::fleet::{Fleet, TemplateState};
use headcount::grpc;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};

use crate::in_process;
use crate::peers::headcount::{ConfigFile, PATIENCE, Server};
use caller::{Caller, Work};

const CLOUD: Settings = Settings { seed: 1, groups: 500, instances: 10_000, error_rate: 0.1 };
const CALLERS: usize = 100;

fn duration() -> Duration {
    let asked = std::env::var("HEADCOUNT_SOAK").ok();
    let asked = asked.map(|text| humantime::parse_duration(&text).expect("HEADCOUNT_SOAK is a duration such as 1h"));
    asked.unwrap_or(Duration::from_secs(5))
}

/// Runs all callers for this long.
async fn load(callers: Vec<Caller>, length: Duration) -> Vec<Caller> {
    let until = Instant::now() + length;
    let tasks: Vec<_> = callers.into_iter().map(|caller| tokio::spawn(caller.work(until))).collect();
    let mut back = Vec::new();
    for task in tasks {
        back.push(task.await.expect("a law was broken"));
    }
    back
}

fn work_of(callers: &[Caller]) -> Work {
    let mut sum = Work::default();
    callers.iter().for_each(|caller| sum += caller.done());
    sum
}

/// Waits until a condition holds.
async fn until(what: &str, patience: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(patience, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// A server in this process, on a runtime of its own.
struct Within {
    runtime: Runtime,
    cloud: Arc<Simulated>,
    fleet: Arc<Fleet>,
    address: SocketAddr,
}

impl Within {
    fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let cloud = Arc::new(Simulated::configured(&CLOUD));
        let (fleet, address) = runtime.block_on(async {
            let fleet =
                in_process::fleet(vec![("sim".into(), Arc::clone(&cloud) as SharedCloud)], Duration::from_secs(1));
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("bound");
            let settings = in_process::service(Arc::clone(&fleet));
            let listener = listener.try_into().expect("a listener");
            tokio::spawn(grpc::serve(listener, settings, std::future::pending()));
            fleet.wait_ready(Instant::now() + PATIENCE).await.expect("ready");
            (fleet, address)
        });
        Self { runtime, cloud, fleet, address }
    }

    fn tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }

    /// The groups whose target, instances and cloud disagree.
    fn disagreement(&self) -> Option<String> {
        let snapshot = self.fleet.snapshot();
        self.cloud.world(|world, _| {
            world.groups().find_map(|group| {
                let target = snapshot.group(group.name()).map(|(_, view)| view.status.target);
                let (capacity, live) = (group.capacity(), group.live());
                let agrees = target == Some(live) && capacity == live && live >= group.plan().min;
                (!agrees).then(|| format!("{}: target {target:?}, capacity {capacity}, live {live}", group.name()))
            })
        })
    }
}

#[test]
fn load_breaks_no_law_and_leaves_no_task_behind() {
    let server = Within::start();
    let outside = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    outside.block_on(async {
        let built = async || {
            let snapshot = server.fleet.snapshot();
            !snapshot.groups().any(|(_, view)| matches!(view.template, TemplateState::Pending))
        };
        until("every template is built or unavailable", PATIENCE, built).await;
        let idle = server.tasks();
        let callers = load(Caller::several(CALLERS, server.address).await, duration()).await;
        println!("in this process: {:?}, {idle} tasks when idle, {} under load", work_of(&callers), server.tasks());
        assert_eq!(server.cloud.killed_unnamed(), [], "a write deleted instances that no call named");

        server.cloud.faults(Faults::clear);
        let (mut callers, calmed) = (callers, Instant::now());
        let calm = async || {
            for caller in &mut callers {
                caller.tidy_up().await;
            }
            server.disagreement().is_none()
        };
        timeout(PATIENCE, until("target, instances and cloud agree", PATIENCE, calm)).await.expect("calm");
        assert_eq!(server.cloud.killed_unnamed(), [], "a write deleted instances that no call named");
        println!("in this process: calm after {:?}", calmed.elapsed());
        drop(callers);
        until("only the idle tasks are left", PATIENCE, async || server.tasks() <= idle).await;
    });
}

/// How much a process may grow beyond a quarter. In a minute on two cores it grew from 69 to 75 MiB: the simulated
/// cloud keeps its last 10,000 calls and 10,000 events, and Headcount remembers deleted nodes for ten minutes. In
/// sixteen minutes it grew to 157 MiB within the first ten and a half, and stayed there.
#[cfg(target_os = "linux")]
const GROWTH_MIB: u64 = 16;

/// The resources of a process, from `/proc`.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug)]
struct Footprint {
    resident_mib: u64,
    threads: u64,
    descriptors: usize,
}

#[cfg(target_os = "linux")]
impl Footprint {
    fn of(process: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let figure = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.split_whitespace().next().and_then(|text| text.parse().ok()).expect(name)
        };
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count();
        Self { resident_mib: figure("VmRSS:") / 1024, threads: figure("Threads:"), descriptors }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_leaks_neither_memory_nor_descriptors() {
    let Settings { seed, groups, instances, error_rate } = CLOUD;
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources:\n  - name: sim\n    simulated: {{seed: {seed}, groups: {groups}, \
         instances: {instances}, errorRate: {error_rate}}}\n"
    ));
    let path = config.path();
    // A connection that the server ends says why.
    let log = "error,headcount::cli=info,headcount::grpc::listener=debug";
    let server = Server::start(&["--config", &path, "--log", log]);
    server.logged("\"ready\"");
    let footprint = || Footprint::of(server.process_id());
    let idle = footprint();
    let callers = Caller::several(CALLERS, server.grpc()).await;
    // By then, most of the state that is kept for a while has built up (deleted nodes are kept for 10 min).
    let warm_up = (duration() / 2).min(Duration::from_secs(15 * 60));
    let callers = load(callers, warm_up).await;
    let warm = footprint();
    let callers = load(callers, duration() - warm_up).await;
    let end = footprint();
    println!("a process: {:?}\nidle {idle:?}\nwarm {warm:?}\nend  {end:?}", work_of(&callers));
    drop(callers);
    assert!(end.resident_mib <= warm.resident_mib + warm.resident_mib / 4 + GROWTH_MIB, "{warm:?}, then {end:?}");
    assert!(end.threads <= warm.threads, "{warm:?}, then {end:?}");
    let closed = async || footprint().descriptors <= idle.descriptors;
    until("every connection is closed", PATIENCE, closed).await;
}
