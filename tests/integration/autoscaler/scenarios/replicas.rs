//! Two autoscalers of which one leads, each with its own Headcount.

use super::super::fixture::Fixture;
use super::super::scenario::Scenario;
use super::{MakeGroup, ONE_PER_NODE, follows_nine_pods};
use crate::emulators::Emulator;
use crate::peers::headcount::{ConfigFile, Server};

/// A short lease, so that the handover is short. The last flag wins over the usual one.
const LEADER_ELECTION: [&str; 4] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
];

on_both_clouds!(
    aws_hands_over_to_the_second_replica,
    azure_hands_over_to_the_second_replica,
    hands_over,
    |group: MakeGroup| [group("web", (0, 20, 1))]
);

/// The leader is killed in the middle of a scale-up. Its Headcount keeps running, as the sidecar of a killed container
/// does.
async fn hands_over(name: &'static str, emulator: impl Emulator) {
    let Some(mut fixture) = Fixture::start(Scenario::new(name).flags(&LEADER_ELECTION), emulator).await else { return };
    fixture.until("the node registered", async |fixture| fixture.nodes().await.len() == 1).await;
    let config = std::fs::read_to_string(fixture.setup.config()).expect("readable");
    let standby = Server::with_config(&ConfigFile::new(&config));
    let second = fixture.second_autoscaler(standby.grpc());
    fixture.create_pods(6, ONE_PER_NODE).await;
    fixture.until("the leader wrote the capacity", async |fixture| fixture.capacity("web") > 1).await;
    fixture.autoscaler.kill();
    fixture.create_pods(3, ONE_PER_NODE).await;
    follows_nine_pods(&mut fixture).await;
    assert_eq!(second.provider_errors(), Vec::<String>::new(), "the second replica complained");
    fixture.finish(&[]);
}
