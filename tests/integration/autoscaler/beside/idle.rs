//! Cloud calls of both servers while nothing happens, for groups whose launch templates have a numbered version, as
//! those of EKS have. No version can move then.

use std::time::Duration;

use super::upstream::{Shared, Upstream, servers};
use super::{Measured, read_all, report};
use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::peers::headcount::{Client, Server};

/// The autoscaler's default scan interval.
const LOOP: Duration = Duration::from_secs(10);

/// After so many loops, both servers are idle.
const TO_REST: u32 = 14;

const MINUTES: u32 = 3;

pub(super) async fn measure() {
    if servers().is_none() {
        return;
    }
    let mut setup = Setup::with(emulator(), |options| options.refresh = "15s".to_owned()).await;
    measure_calls(&setup.emulator, Measured::Headcount, &mut setup.client).await;
    drop(setup);

    let emulator = emulator();
    let folder = tempfile::tempdir().expect("a folder");
    let server = Upstream::start(&emulator, folder.path());
    let mut client = Server::client_at(server.address()).await;
    measure_calls(&emulator, Measured::Upstream, &mut client).await;
}

fn emulator() -> Aws {
    let names = ["spot", "web"];
    let aws = Aws::open(names.map(|name| Aws::group(name).sized(0, 100, 20)).to_vec());
    names.iter().for_each(|name| aws.group_details(name, |details| details.version = "1".to_owned()));
    aws
}

async fn measure_calls(emulator: &Aws, measured: Measured, client: &mut Client) {
    for _ in 0..TO_REST {
        call(client).await;
    }
    emulator.forget_requests();
    for _ in 0..MINUTES * 6 {
        call(client).await;
    }
    let calls = emulator.requests().len() as f64 / f64::from(MINUTES);
    report(emulator.cloud(), measured, "calls-per-idle-minute-numbered", format!("{calls:.1}"));
}

/// One of the autoscaler's loops.
async fn call(client: &mut Client) {
    client.refresh().await.expect("fresh");
    assert_eq!(read_all(client).await, 40, "all instances are listed");
    tokio::time::sleep(LOOP).await;
}
