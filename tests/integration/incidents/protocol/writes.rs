//! Writes, their deadlines, and callers that disconnect or call concurrently.

use std::time::Duration;

use tonic::Code;

use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::incidents::aws::{aws, capacity, desired_written, group, instance_id, open_sleepy, terminations};
use crate::peers::headcount::{eventually, refused};

const READ: &str = "Action=DescribeAutoScalingGroups";
const SET: &str = "Action=SetDesiredCapacity";
const TERMINATE: &str = "Action=TerminateInstanceInAutoScalingGroup";

#[tokio::test]
async fn deadline_kept() {
    let mut setup = open_sleepy([group("web", (0, 20, 2))]).await;
    assert_eq!(setup.client.target("web").await, 2);
    // The reading before the write takes longer than the caller has.
    let mut caller = setup.server().untimed_client(Duration::from_secs(1)).await;
    setup.emulator.hold("POST", READ, HoldPoint::BeforeEffect);
    let (code, message) = refused(caller.increase("web", 3).await);
    assert_eq!(code, Code::DeadlineExceeded);
    assert_eq!(
        message,
        "node group web: the request was not sent to the cloud within the caller's deadline; nothing was done; try \
            again"
    );
    setup.emulator.release();
    setup.client.decrease("web", -1).await.expect("the next call is served");
    assert!(desired_written(&setup.emulator, "web").is_empty(), "a write that CA no longer waits for is never sent");
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (2, 2));

    // The write itself takes longer. The caller has enough time for the read before it, on a busy machine too.
    let mut caller = setup.server().untimed_client(Duration::from_secs(5)).await;
    setup.emulator.hold("POST", SET, HoldPoint::BeforeEffect);
    let (code, message) = refused(caller.increase("web", 3).await);
    assert_eq!(code, Code::Unavailable);
    assert_eq!(
        message,
        "node group web: the request was sent, but the cloud did not respond within the caller's deadline; the next \
            reads show the outcome"
    );
    setup.emulator.release();
    setup.client.until("the outcome shows", async |client| client.target("web").await == 5).await;
    assert_eq!((desired_written(&setup.emulator, "web"), capacity(&setup.emulator, "web")), (vec![5], 5));
}

#[tokio::test]
async fn client_gone_mid_write() {
    for moment in [HoldPoint::BeforeEffect, HoldPoint::BeforeResponse] {
        let mut setup = open_sleepy([group("web", (0, 20, 3))]).await;
        setup.emulator.hold("POST", SET, moment);
        let mut client = setup.client.clone();
        let call = tokio::spawn(async move { client.increase("web", 2).await });
        eventually("the scale-up is sent", || desired_written(&setup.emulator, "web") == [5]).await;
        call.abort();
        assert!(call.await.expect_err("it is gone").is_cancelled());
        // A later request over the same connection gets a response, so the server knows by then that the caller is
        // gone.
        assert_eq!(setup.client.target("web").await, 3);
        // The write goes on, and from now on no read shows what became of it: its own response does.
        setup.emulator.hold("POST", READ, HoldPoint::BeforeEffect);
        setup.client.until("the scale-up shows", async |client| client.target("web").await == 5).await;
        setup.emulator.release();

        let victim = setup.client.nodes_in("web", 1).await.remove(0);
        setup.emulator.hold("POST", TERMINATE, moment);
        let (mut client, named) = (setup.client.clone(), victim.clone());
        let call = tokio::spawn(async move { client.delete("web", &[&named]).await });
        eventually("the deletion is sent", || !terminations(&setup.emulator).is_empty()).await;
        call.abort();
        assert!(call.await.expect_err("it is gone").is_cancelled());
        assert_eq!(setup.client.target("web").await, 5);
        setup.emulator.release();
        setup.client.until("the deletion shows", async |client| client.target("web").await == 4).await;
        setup.client.delete("web", &[&victim]).await.expect("a repeated deletion is a success");
        assert_eq!(terminations(&setup.emulator), [[instance_id(&victim)]]);
        assert_eq!((desired_written(&setup.emulator, "web"), capacity(&setup.emulator, "web")), (vec![5], 4));
    }
}

#[tokio::test]
async fn concurrent_increase() {
    let mut setup = Setup::open(aws([group("web", (0, 20, 2))])).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let mut client = setup.client.clone();
        calls.spawn(async move { client.increase("web", 3).await });
    }
    let mut accepted = 0;
    for outcome in calls.join_all().await {
        match outcome {
            Ok(()) => accepted += 1,
            Err(status) => {
                assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
                assert!(status.message().contains("above its maximum of 20"), "{status}");
            }
        }
    }
    assert_eq!(accepted, 6, "as many as fit below the maximum");
    assert_eq!(
        (setup.client.target("web").await, capacity(&setup.emulator, "web")),
        (20, 20),
        "the sum of the \
    accepted calls"
    );
    let written = desired_written(&setup.emulator, "web");
    assert!(written.is_sorted() && written.last() == Some(&20), "{written:?}");
    setup.client.until("all run", async |client| client.nodes_in("web", 1).await.len() == 20).await;
}
