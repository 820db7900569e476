//! The memory of both servers at 1,000 and 10,000 instances, under the calls of a Cluster Autoscaler.

use std::time::Duration;

use headcount::clouds::simulated::GroupPlan;

use super::upstream::{Shared, Upstream, servers};
use super::{Measured, read_all, report};
use crate::emulators::setup::Setup;
use crate::peers::headcount::{Client, Server};

const GROUPS: u32 = 50;

/// How many rounds of all reads each server gets; by then, its memory has settled.
const ROUNDS: u32 = 15;

pub(super) async fn measure<E: Shared>() {
    if servers().is_none() {
        return;
    }
    for instances in [1_000, 10_000] {
        let share = instances / GROUPS;
        let group = |number| E::group(&format!("group-{number:02}")).sized(0, share * 2, share);
        let plans: Vec<GroupPlan> = (0..GROUPS).map(group).collect();
        let what = format!("memory-at-{instances}");

        let mut setup = Setup::with(E::open(plans.clone()), |options| options.refresh = "15s".to_owned()).await;
        call(&mut setup.client, instances).await;
        report(setup.emulator.cloud(), Measured::Headcount, &what, resident(setup.server().process_id()));
        drop(setup);

        let emulator = E::open(plans);
        let folder = tempfile::tempdir().expect("a folder");
        let server = Upstream::start(&emulator, folder.path());
        // It listens once it has read everything.
        let mut client = Server::client_at(server.address()).await;
        call(&mut client, instances).await;
        report(emulator.cloud(), Measured::Upstream, &what, resident(server.process_id()));
    }
}

/// Several of the autoscaler's loops.
async fn call(client: &mut Client, instances: u32) {
    let mut seen = 0;
    for _ in 0..ROUNDS {
        // Upstream's first refresh of many instances takes longer than a deadline.
        let _late = client.refresh().await;
        seen = read_all(client).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(seen, instances as usize, "all instances are listed");
}

/// The resident memory of a process, in MiB.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}
