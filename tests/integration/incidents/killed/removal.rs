//! Killed while instances are deleted.

use headcount::clouds::simulated::Accounting::{OnAccept, WhenGone};
use headcount::clouds::simulated::Phase;

use super::{Launches, Stage, delete, over_aws, over_azure};
use crate::emulators::{Emulator, Moment};
use crate::peers::headcount::eventually;

async fn open_batch(mut stage: Stage<impl Emulator>) {
    // No reading ends before the kill, so that nothing can be sent by then however slow this machine is.
    stage.hold(stage.wire.read, Moment::Arrived);
    let calls = stage.victims().into_iter().map(|victim| stage.begin(|client| delete(client, vec![victim])));
    let calls: Vec<_> = calls.collect();
    // What comes later over the same connection is answered: the deletions have come in.
    assert_eq!(stage.scene.client.target("pool").await, 6);
    stage.scene.kill();
    for call in calls {
        call.await.expect("no panic").expect_err("nobody is there to answer it");
    }
    stage.scene.emulator.let_go();
    stage.start().await;
    assert_eq!((stage.scene.client.target("pool").await, stage.sent(stage.wire.delete)), (6, 0));
    delete(stage.scene.client.clone(), stage.victims()).await.expect("asked again");
    stage.assert_two_are_going().await;
    assert_eq!(stage.sent(stage.wire.delete), 1);
}

#[tokio::test]
async fn killed_while_a_batch_of_deletions_is_open() {
    open_batch(over_aws(Launches::Slow).await).await;
    open_batch(over_azure(WhenGone, Launches::Slow).await).await;
}

async fn deletion_on_its_way(mut stage: Stage<impl Emulator>, moment: Moment) {
    stage.hold(stage.wire.delete, moment);
    let victims = stage.victims();
    let call = stage.begin(|client| delete(client, victims));
    stage.until_sent(stage.wire.delete, 1).await;
    if moment == Moment::Done {
        let going = || stage.in_phase(Phase::Deleting).len();
        eventually("it has its effect", || going() == 2).await;
    }
    stage.kill_under(call).await;
    stage.start().await;
    let seen = if moment == Moment::Done { 4 } else { 6 };
    assert_eq!(stage.scene.client.target("pool").await, seen, "the cloud's own state, whatever was asked");
    stage.scene.emulator.let_go();
    stage.assert_two_are_going().await;
    delete(stage.scene.client.clone(), stage.victims()).await.expect("again is fine");
    stage.assert_two_are_going().await;
    assert_eq!(stage.sent(stage.wire.delete), 1, "what is asked again is not done twice");
}

#[tokio::test]
async fn killed_while_a_deletion_is_on_its_way() {
    for moment in [Moment::Arrived, Moment::Done] {
        deletion_on_its_way(over_aws(Launches::Slow).await, moment).await;
        for accounting in [WhenGone, OnAccept] {
            deletion_on_its_way(over_azure(accounting, Launches::Slow).await, moment).await;
        }
    }
}

async fn accepted_deletion(mut stage: Stage<impl Emulator>) {
    delete(stage.scene.client.clone(), stage.victims()).await.expect("accepted");
    for _ in 0..2 {
        stage.scene.kill();
        stage.start().await;
        assert_eq!(stage.scene.client.target("pool").await, 4);
        delete(stage.scene.client.clone(), stage.victims()).await.expect("again is fine");
        stage.assert_two_are_going().await;
    }
    assert_eq!(stage.sent(stage.wire.delete), 1, "what is asked again is not done twice");
}

#[tokio::test]
async fn killed_while_machines_are_still_going() {
    accepted_deletion(over_aws(Launches::Slow).await).await;
    for accounting in [WhenGone, OnAccept] {
        accepted_deletion(over_azure(accounting, Launches::Slow).await).await;
    }
}

/// Two are missing and two are going, which the capacity does not count any more: as long as they are listed, it cannot
/// be lowered by those missing. `afterwards` is what the next Headcount makes of that.
async fn owed_reduction(mut stage: Stage<impl Emulator>, afterwards: i32) {
    stage.scene.client.increase("pool", 2).await.expect("accepted");
    stage.until_failed(2).await;
    delete(stage.scene.client.clone(), stage.victims()).await.expect("accepted");
    let missing = stage.scene.client.nodes_in("pool", 2).await;
    delete(stage.scene.client.clone(), missing.clone()).await.expect("taken back");
    assert_eq!(stage.scene.client.target("pool").await, 4);
    assert_eq!(stage.sent(stage.wire.resize), 1, "owed, not written");
    stage.scene.restart().await;
    assert_eq!(stage.scene.client.target("pool").await, afterwards);
    assert_eq!(stage.scene.client.nodes_in("pool", 1).await.len(), 4);
    stage.assert_two_are_listed_as_going().await;

    delete(stage.scene.client.clone(), missing).await.expect("those are gone");
    delete(stage.scene.client.clone(), stage.victims()).await.expect("those are going");
    stage.scene.client.decrease("pool", -2).await.expect("taken back again");
    assert_eq!(stage.scene.client.target("pool").await, 4);
    assert_eq!((stage.sent(stage.wire.resize), stage.sent(stage.wire.delete)), (1, 1), "still owed");
    assert!(stage.scene.emulator.simulated().killed_unnamed().is_empty());
}

#[tokio::test]
async fn killed_while_a_reduction_is_owed() {
    // An Auto Scaling group never counts what is going: two are missing.
    owed_reduction(over_aws(Launches::Fail).await, 6).await;
    // A scale set may count what is going. Nobody saw whether this one does: at most two are missing, so none is claimed.
    owed_reduction(over_azure(OnAccept, Launches::Fail).await, 4).await;
}
