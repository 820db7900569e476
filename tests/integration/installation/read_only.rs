//! `readOnly: true` and `serve --read-only`: calls that need a write are refused, and nothing is written.

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, LaunchOutcome, Pick, PlannedFailure, Simulated, Span};
use tonic::Code;

use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::peers::headcount::{Server, refused};

fn quick() -> Span {
    Duration::from_millis(100)..=Duration::from_millis(200)
}

async fn read_only<E: Emulator>(emulator: E) -> Setup<E> {
    Setup::with(emulator, |options| options.more = "readOnly: true".to_owned()).await
}

/// Checks that the server logged the refused write.
fn logged(server: &Server, intended: &str) {
    let line = server.logged(intended);
    assert!(line.contains("read-only: the write is refused"), "{line}");
}

#[tokio::test]
async fn read_only_refuses_every_write_to_a_scaling_group_and_sends_none() {
    // The launch of a fourth instance fails, and is not retried within the test.
    let no_room = PlannedFailure::out_of_resources("InsufficientInstanceCapacity", "no capacity");
    let mut plan = GroupPlan::aws("asg").sized(0, 10, 3).launches(Pick::Always, LaunchOutcome::fails(no_room, quick()));
    plan.zones.truncate(1);
    plan.retry_every = Duration::from_secs(24 * 60 * 60);
    let aws = Aws::start(Arc::new(Simulated::with_groups(1, [plan])));
    aws.simulated().set_desired_externally("asg", 4).expect("it exists");
    let setup = read_only(aws).await;
    let mut client = setup.client.clone();
    client.until("a failed instance is listed", async |client| client.nodes_in("asg", 2).await.len() == 1).await;
    let (running, failed) = (client.nodes_in("asg", 1).await, client.nodes_in("asg", 2).await);

    let (code, message) = refused(client.increase("asg", 2).await);
    assert_eq!(code, Code::FailedPrecondition, "{message}");
    assert!(message.contains("Headcount is read-only; it would set the capacity from 4 to 6"), "{message}");
    logged(setup.server(), "set the capacity from 4 to 6");

    let (code, message) = refused(client.delete("asg", &[&running[0]]).await);
    assert_eq!(code, Code::FailedPrecondition, "{message}");
    assert!(message.contains("it would delete instances (1)") && message.contains(&running[0]), "{message}");
    logged(setup.server(), "delete instances (1)");

    for outcome in [client.delete("asg", &[&failed[0]]).await, client.decrease("asg", -1).await] {
        let (code, message) = refused(outcome);
        assert_eq!(code, Code::FailedPrecondition, "{message}");
        assert!(message.contains("it would give up capacity without an instance (1)"), "{message}");
    }
    logged(setup.server(), "give up capacity without an instance (1)");

    assert_eq!((client.target("asg").await, client.nodes_in("asg", 1).await), (4, running));
    for call in ["SetDesiredCapacity", "TerminateInstance", "BatchTerminate"] {
        assert!(setup.emulator.requests_with("POST", call).is_empty(), "{call} was sent");
    }
}

#[tokio::test]
async fn read_only_refuses_every_write_to_a_scale_set_but_not_deleting_what_is_gone() {
    let plan = GroupPlan::azure("vmss").sized(0, 10, 3).delete_time(quick());
    let setup = read_only(Arm::start(Arc::new(Simulated::with_groups(2, [plan])))).await;
    let mut client = setup.client.clone();
    let before = client.nodes_in("vmss", 1).await;
    setup.emulator.simulated().evict("vmss", 1).expect("it exists");
    client.until("one is gone", async |client| client.nodes("vmss").await.len() == 2).await;
    let running = client.nodes_in("vmss", 1).await;
    let gone = before.iter().find(|id| !running.contains(id)).expect("one is gone");

    assert_eq!(refused(client.increase("vmss", 1).await).0, Code::FailedPrecondition);
    logged(setup.server(), "set the capacity from ");
    assert_eq!(refused(client.delete("vmss", &[&running[0]]).await).0, Code::FailedPrecondition);
    assert_eq!(refused(client.delete("vmss", &[gone, &running[0]]).await).0, Code::FailedPrecondition);
    client.delete("vmss", &[gone]).await.expect("deleting what is gone needs no write");

    for method in ["PUT", "PATCH", "DELETE"] {
        assert!(setup.emulator.requests_with(method, "").is_empty(), "{method} was sent");
    }
    assert!(setup.emulator.requests_with("POST", "/delete").is_empty(), "a deletion was sent");
}

#[tokio::test]
async fn the_flag_alone_makes_a_server_read_only() {
    let server = Server::start(&["--demo", "--read-only"]);
    let mut client = server.client().await;
    let before = client.target("web").await;
    assert_eq!(refused(client.increase("web", 1).await).0, Code::FailedPrecondition);
    assert_eq!(client.target("web").await, before);
    let status = server.probe_with("/statusz", "Accept: application/json\r\n");
    assert!(status.contains("\"readOnly\": true"), "{status}");
    let page = server.probe_with("/statusz", "Accept: text/html\r\n");
    assert!(page.contains("read-only: every write is refused"), "{page}");
}
