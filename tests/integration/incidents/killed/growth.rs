//! Killed while the group grows, or while growth that came to nothing is taken back.

use headcount::clouds::simulated::Accounting::{OnAccept, WhenGone};

use super::{Launches, Stage, over_aws, over_azure};
use crate::emulators::{Emulator, Moment};
use crate::peers::headcount::eventually;

async fn accepted_scale_up(mut stage: Stage<impl Emulator>) {
    stage.scene.client.increase("pool", 3).await.expect("accepted");
    stage.scene.kill();
    stage.start().await;
    assert_eq!((stage.scene.client.target("pool").await, stage.sent(stage.wire.resize)), (9, 1));
    stage.scene.client.increase("pool", 1).await.expect("on top of it");
    stage.assert_true().await;
    assert_eq!(stage.capacity(), 10);
}

#[tokio::test]
async fn killed_after_a_scale_up_was_accepted() {
    accepted_scale_up(over_aws(Launches::Slow).await).await;
    for accounting in [WhenGone, OnAccept] {
        accepted_scale_up(over_azure(accounting, Launches::Slow).await).await;
    }
}

async fn scale_up_on_its_way(mut stage: Stage<impl Emulator>, moment: Moment) {
    stage.hold(stage.wire.resize, moment);
    let call = stage.begin(|mut client| async move { client.increase("pool", 3).await });
    stage.until_sent(stage.wire.resize, 1).await;
    if moment == Moment::Done {
        eventually("it has its effect", || stage.capacity() == 9).await;
    }
    stage.kill_under(call).await;
    stage.start().await;
    let seen = if moment == Moment::Done { 9 } else { 6 };
    assert_eq!(stage.scene.client.target("pool").await, seen, "the cloud's own state, whatever was asked");
    stage.scene.emulator.let_go();
    stage.scene.client.until("it shows", async |client| client.target("pool").await == 9).await;
    stage.assert_true().await;
    assert_eq!(stage.sent(stage.wire.resize), 1);
}

#[tokio::test]
async fn killed_while_a_scale_up_is_on_its_way() {
    for moment in [Moment::Arrived, Moment::Done] {
        scale_up_on_its_way(over_aws(Launches::Slow).await, moment).await;
        scale_up_on_its_way(over_azure(WhenGone, Launches::Slow).await, moment).await;
    }
}

async fn decrease_on_its_way(mut stage: Stage<impl Emulator>, moment: Moment) {
    stage.scene.client.increase("pool", 3).await.expect("accepted");
    stage.until_failed(3).await;
    stage.hold(stage.wire.resize, moment);
    let call = stage.begin(|mut client| async move { client.decrease("pool", -3).await });
    stage.until_sent(stage.wire.resize, 2).await;
    if moment == Moment::Done {
        eventually("it has its effect", || stage.capacity() == 6).await;
    }
    stage.kill_under(call).await;
    stage.start().await;
    let seen = if moment == Moment::Done { 6 } else { 9 };
    assert_eq!(stage.scene.client.target("pool").await, seen, "the cloud's own state, whatever was asked");
    stage.scene.emulator.let_go();
    stage.scene.client.until("it shows", async |client| client.target("pool").await == 6).await;
    stage.scene.client.decrease("pool", -3).await.expect("nothing is missing any more");
    stage.assert_true().await;
    assert_eq!((stage.capacity(), stage.sent(stage.wire.resize)), (6, 2), "what is asked again is not done twice");
}

#[tokio::test]
async fn killed_while_a_decrease_is_on_its_way() {
    for moment in [Moment::Arrived, Moment::Done] {
        decrease_on_its_way(over_aws(Launches::Fail).await, moment).await;
        decrease_on_its_way(over_azure(WhenGone, Launches::Fail).await, moment).await;
    }
}
