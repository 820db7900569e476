//! Writes, their deadlines, and callers that go away or come all at once.

use std::time::Duration;

use headcount::grpc::proto::NodeGroupIncreaseSizeRequest;
use tonic::{Code, Request, Status};

use crate::emulators::scene::Scene;
use crate::emulators::{Emulator, Moment};
use crate::incidents::aws::{aws, capacity, desired_written, group, instance_id, open_sleepy, terminations};
use crate::peers::headcount::{Client, eventually, refused};

const READ: &str = "Action=DescribeAutoScalingGroups";
const SET: &str = "Action=SetDesiredCapacity";
const TERMINATE: &str = "Action=TerminateInstanceInAutoScalingGroup";

async fn increase_within(client: &mut Client, id: &str, delta: i32, timeout: Duration) -> Result<(), Status> {
    let mut request = Request::new(NodeGroupIncreaseSizeRequest { id: id.to_owned(), delta });
    request.set_timeout(timeout);
    client.stub().node_group_increase_size(request).await.map(|_| ())
}

#[tokio::test]
async fn deadline_kept() {
    let mut scene = open_sleepy([group("web", (0, 20, 2))]).await;
    assert_eq!(scene.client.target("web").await, 2);
    // The reading before the write takes longer than the caller has. The words are the server's: it answered in time.
    scene.emulator.hold("POST", READ, Moment::Arrived);
    let (code, message) = refused(increase_within(&mut scene.client, "web", 3, Duration::from_secs(1)).await);
    assert_eq!(code, Code::DeadlineExceeded);
    assert_eq!(message, "node group web: not sent within the caller's deadline; nothing was done");
    scene.emulator.let_go();
    scene.client.decrease("web", -1).await.expect("what comes after it is served");
    assert!(desired_written(&scene.emulator, "web").is_empty(), "what CA has given up is never sent");
    assert_eq!((scene.client.target("web").await, capacity(&scene.emulator, "web")), (2, 2));

    // The write itself takes longer.
    scene.emulator.hold("POST", SET, Moment::Arrived);
    let (code, message) = refused(increase_within(&mut scene.client, "web", 3, Duration::from_secs(2)).await);
    assert_eq!(code, Code::DeadlineExceeded);
    assert_eq!(
        message,
        "node group web: sent, but not answered within the caller's deadline; the next reads show the outcome"
    );
    scene.emulator.let_go();
    scene.client.until("the outcome shows", async |client| client.target("web").await == 5).await;
    assert_eq!((desired_written(&scene.emulator, "web"), capacity(&scene.emulator, "web")), (vec![5], 5));
}

#[tokio::test]
async fn client_gone_mid_write() {
    for moment in [Moment::Arrived, Moment::Done] {
        let mut scene = open_sleepy([group("web", (0, 20, 3))]).await;
        scene.emulator.hold("POST", SET, moment);
        let mut client = scene.client.clone();
        let call = tokio::spawn(async move { client.increase("web", 2).await });
        eventually("the scale-up is sent", || desired_written(&scene.emulator, "web") == [5]).await;
        call.abort();
        assert!(call.await.expect_err("it is gone").is_cancelled());
        // What comes later over the same connection is answered: the server knows that it is gone.
        assert_eq!(scene.client.target("web").await, 3);
        scene.emulator.let_go();
        scene.client.until("the scale-up shows", async |client| client.target("web").await == 5).await;

        let victim = scene.client.nodes_in("web", 1).await.remove(0);
        scene.emulator.hold("POST", TERMINATE, moment);
        let (mut client, named) = (scene.client.clone(), victim.clone());
        let call = tokio::spawn(async move { client.delete("web", &[&named]).await });
        eventually("the deletion is sent", || !terminations(&scene.emulator).is_empty()).await;
        call.abort();
        assert!(call.await.expect_err("it is gone").is_cancelled());
        assert_eq!(scene.client.target("web").await, 5);
        scene.emulator.let_go();
        scene.client.until("the deletion shows", async |client| client.target("web").await == 4).await;
        scene.client.delete("web", &[&victim]).await.expect("again is fine");
        assert_eq!(terminations(&scene.emulator), [[instance_id(&victim)]]);
        assert_eq!((desired_written(&scene.emulator, "web"), capacity(&scene.emulator, "web")), (vec![5], 4));
    }
}

#[tokio::test]
async fn concurrent_increase() {
    let mut scene = Scene::open(aws([group("web", (0, 20, 2))])).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let mut client = scene.client.clone();
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
    assert_eq!(accepted, 6, "as many as there is room for");
    assert_eq!((scene.client.target("web").await, capacity(&scene.emulator, "web")), (20, 20), "the sum of them");
    let written = desired_written(&scene.emulator, "web");
    assert!(written.is_sorted() && written.last() == Some(&20), "{written:?}");
    scene.client.until("all run", async |client| client.nodes_in("web", 1).await.len() == 20).await;
}
