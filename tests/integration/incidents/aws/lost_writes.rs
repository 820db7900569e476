//! Writes whose response is late or lost: they are not sent again, and their effects are noticed.

use std::time::Duration;

use headcount::clouds::simulated::{CallFault, CallKind, ReadFault};
use tonic::{Code, Status};

use super::{aws, capacity, desired_written, group, instance_id, open, terminations, texts};
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{AUTOSCALER_TIMEOUT, Client, eventually, refused};

/// How long a group in these tests tolerates more instances than desired: longer than two reads of an unsettled group.
const TERMINATES_AFTER: Duration = Duration::from_secs(10);

/// Reads lag behind a write by no more than this.
const SETTLED: Duration = Duration::from_secs(30);

/// How old a stale read is.
const STALE: Duration = Duration::from_secs(2);

/// Whether the call was refused because an earlier deletion of the node has no outcome yet.
fn is_unsettled(outcome: Result<(), Status>) -> bool {
    outcome.is_err_and(|status| status.code() == Code::Unavailable && status.message().contains("an earlier deletion"))
}

/// The instances that the terminations of a group's instances named.
fn terminated(aws: &Aws, victims: &[String]) -> Vec<Vec<String>> {
    let ids: Vec<&str> = victims.iter().map(|victim| instance_id(victim)).collect();
    terminations(aws).into_iter().filter(|named| named.iter().any(|id| ids.contains(&id.as_str()))).collect()
}

async fn running(client: &mut Client, group: &str, number: usize) -> Vec<String> {
    client.nodes_in(group, 1).await[..number].to_vec()
}

async fn delete(mut client: Client, group: &'static str, nodes: Vec<String>) -> Result<(), Status> {
    client.delete(group, &texts(&nodes)).await
}

#[tokio::test]
async fn asg_slow_terminate() {
    let mut setup = open([group("one", (0, 20, 6)), group("batch", (0, 20, 6))]).await;
    let named =
        [("one", running(&mut setup.client, "one", 1).await), ("batch", running(&mut setup.client, "batch", 3).await)];
    setup.emulator.hold("POST", "Action=TerminateInstanceInAutoScalingGroup", HoldPoint::BeforeEffect);
    let caller = setup.server().untimed_client(AUTOSCALER_TIMEOUT).await;
    let calls = named.clone().map(|(group, victims)| tokio::spawn(delete(caller.clone(), group, victims)));
    for call in calls {
        let (code, _) = refused(call.await.expect("no panic"));
        assert_eq!(code, Code::Unavailable, "sent, and its outcome is unknown");
    }
    // AWS takes longer than Headcount waits for a response.
    for (group, victims) in &named {
        let client = &mut setup.client;
        client.until("no response", async |client| is_unsettled(client.delete(group, &texts(victims)).await)).await;
        assert_eq!(usize::try_from(client.target(group).await).expect("small"), 6 - victims.len());
        let mut deleting = client.nodes_in(group, 3).await;
        deleting.sort();
        let mut expected = victims.clone();
        expected.sort();
        assert_eq!(deleting, expected, "they count as being deleted");
        assert_eq!(capacity(&setup.emulator, group), 6, "it has had no effect yet");
    }
    setup.emulator.release();
    for (group, victims) in &named {
        let client = &mut setup.client;
        client.until("it is settled", async |client| client.delete(group, &texts(victims)).await.is_ok()).await;
        client.until("they are gone", async |client| client.nodes(group).await.len() == 6 - victims.len()).await;
        assert_eq!(terminated(&setup.emulator, victims).len(), 1, "sent once");
        let left = u32::try_from(6 - victims.len()).expect("small");
        assert_eq!(capacity(&setup.emulator, group), left, "each is counted once");
        assert_eq!(client.target(group).await, i32::try_from(left).expect("small"));
    }
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_growth_after_lagging_deletion() {
    let aws = aws([group("web", (0, 20, 6)), group("full", (0, 6, 6))]);
    aws.simulated().world(|world, now| world.keep_past_readings(now, STALE * 2));
    let mut setup = Setup::open(aws).await;
    eventually("the past is old enough", || setup.emulator.simulated().elapsed() > STALE * 2).await;
    let client = &mut setup.client;
    for name in ["web", "full"] {
        let victims = running(client, name, 2).await;
        client.delete(name, &texts(&victims)).await.expect("accepted");
        assert_eq!(client.target(name).await, 4);
        // For a moment, reads show the capacity and the instances as they were before the deletion.
        setup.emulator.simulated().faults(|faults| {
            faults.script_read(Some(CallKind::Observe), name, 3, ReadFault::Stale(STALE));
        });
        client.increase(name, 1).await.expect("computed on a read that shows the deletion");
        assert_eq!((client.target(name).await, capacity(&setup.emulator, name)), (5, 5));
        assert_eq!(desired_written(&setup.emulator, name), [5]);
    }
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_lost_terminate_answer() {
    let names = ["one", "batch", "never"];
    let aws = aws(names.map(|name| group(name, (0, 20, 6))));
    aws.simulated().world(|world, now| world.keep_past_readings(now, STALE * 2));
    // Listings are rare, so that none takes one of the old reads.
    let mut setup = Setup::with(aws, |options| options.refresh = "60s".to_owned()).await;
    eventually("the past is old enough", || setup.emulator.simulated().elapsed() > STALE * 2).await;
    setup.emulator.simulated().faults(|faults| {
        for name in ["one", "batch"] {
            faults.script(Some(CallKind::DeleteInstances), Some(name), 1, CallFault::LostResponse);
            // The read before the write, which shows nothing else, and the one after it.
            faults.script_read(Some(CallKind::Observe), name, 2, ReadFault::Stale(STALE));
        }
        faults.script(Some(CallKind::DeleteInstances), Some("never"), 1, CallFault::Unreachable);
    });
    let client = &mut setup.client;
    let never = running(client, "never", 1).await;
    assert_eq!(refused(client.delete("never", &texts(&never)).await).0, Code::Unavailable);
    let lost = tokio::time::Instant::now();

    for (group, number, left) in [("one", 1, 5), ("batch", 3, 3)] {
        let victims = running(client, group, number).await;
        assert_eq!(refused(client.delete(group, &texts(&victims)).await).0, Code::Unavailable);
        assert_eq!(client.target(group).await, left, "they count as being deleted");
        client.until("it is settled", async |client| client.delete(group, &texts(&victims)).await.is_ok()).await;
        assert_eq!(terminated(&setup.emulator, &victims).len(), 1, "sent once");
        let left = u32::try_from(left).expect("small");
        eventually("it has taken effect once", || capacity(&setup.emulator, group) == left).await;
    }

    // A termination that never took effect: reads show that only once they are too new to lag behind it.
    assert!(is_unsettled(client.delete("never", &texts(&never)).await));
    assert_eq!((client.target("never").await, client.nodes_in("never", 3).await), (5, never.clone()));
    let runs = async |client: &mut Client| client.nodes_in("never", 1).await.len() == 6;
    client.until_within(SETTLED * 2, "it runs again", runs).await;
    assert!(lost.elapsed() > SETTLED, "not before");
    assert_eq!((client.target("never").await, terminated(&setup.emulator, &never).len()), (6, 1));
    client.delete("never", &texts(&never)).await.expect("named again");
    assert_eq!(client.target("never").await, 5);
    eventually("this one has an effect", || capacity(&setup.emulator, "never") == 5).await;
    assert!(setup.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn asg_growth_write_lands_late() {
    let mut plan = group("web", (0, 20, 6));
    plan.scale_in_lag = TERMINATES_AFTER..=TERMINATES_AFTER;
    let mut setup = Setup::with(aws([plan]), |options| options.refresh = "60s".to_owned()).await;
    let aws = &setup.emulator;
    aws.hold("POST", "Action=SetDesiredCapacity", HoldPoint::BeforeEffect);
    let (code, _) = refused(setup.server().untimed_client(AUTOSCALER_TIMEOUT).await.increase("web", 2).await);
    assert_eq!(code, Code::Unavailable, "sent, and its outcome is unknown");
    setup.server().logged("the outcome of a capacity write is unknown; reading the node group");
    let failed = setup.server().logged("a request of the Cluster Autoscaler failed");
    assert!(failed.contains("\"increase by 2\"") && failed.contains("\"unknown\""), "{failed}");
    // Another client grows the group, and a read shows it. Then the write takes effect, and the group is about to
    // terminate three.
    aws.simulated().set_desired_externally("web", 11).expect("it exists");
    let live = || aws.simulated().world(|world, _| world.group("web").map(|group| group.live()));
    eventually("the other client's instances are launched", || live() == Some(11)).await;
    setup.client.until("a read shows them", async |client| client.target("web").await == 11).await;
    aws.release();
    eventually("the write lands", || capacity(aws, "web") == 8).await;
    eventually("the capacity is raised back in time", || capacity(aws, "web") == 11).await;
    assert_eq!(desired_written(aws, "web"), [8, 11]);
    setup.server().logged("a read shows that a capacity write whose outcome was unknown took effect");
    let landed = aws.simulated().elapsed();
    eventually("the group would have terminated some", || aws.simulated().elapsed() > landed + TERMINATES_AFTER).await;
    assert_eq!(live(), Some(11));
    assert!(aws.simulated().killed_unnamed().is_empty());
    setup.client.until("it shows", async |client| client.target("web").await == 11).await;
}
