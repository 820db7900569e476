//! Headcount is killed while the group grows, or while a failed scale-up is taken back.

use headcount::clouds::simulated::Accounting::{OnAccept, WhenGone};

use super::{KillTest, Launches, over_aws, over_azure};
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::eventually;

async fn accepted_scale_up(mut test: KillTest<impl Emulator>) {
    test.setup.client.increase("pool", 3).await.expect("accepted");
    test.setup.kill();
    test.start().await;
    assert_eq!((test.setup.client.target("pool").await, test.sent(test.requests.resize)), (9, 1));
    test.setup.client.increase("pool", 1).await.expect("the next scale-up is added to it");
    test.assert_true().await;
    assert_eq!(test.capacity(), 10);
}

#[tokio::test]
async fn killed_after_a_scale_up_was_accepted() {
    accepted_scale_up(over_aws(Launches::Slow).await).await;
    for accounting in [WhenGone, OnAccept] {
        accepted_scale_up(over_azure(accounting, Launches::Slow).await).await;
    }
}

async fn scale_up_on_its_way(mut test: KillTest<impl Emulator>, moment: HoldPoint) {
    test.hold(test.requests.resize, moment);
    let call = test.begin(|mut client| async move { client.increase("pool", 3).await });
    test.until_sent(test.requests.resize, 1).await;
    if moment == HoldPoint::BeforeResponse {
        eventually("it has its effect", || test.capacity() == 9).await;
    }
    test.kill_under(call).await;
    test.start().await;
    let seen = if moment == HoldPoint::BeforeResponse { 9 } else { 6 };
    assert_eq!(test.setup.client.target("pool").await, seen, "the cloud's own state, regardless of the request");
    test.setup.emulator.release();
    test.setup.client.until("it shows", async |client| client.target("pool").await == 9).await;
    test.assert_true().await;
    assert_eq!(test.sent(test.requests.resize), 1);
}

#[tokio::test]
async fn killed_while_a_scale_up_is_on_its_way() {
    for moment in [HoldPoint::BeforeEffect, HoldPoint::BeforeResponse] {
        scale_up_on_its_way(over_aws(Launches::Slow).await, moment).await;
        scale_up_on_its_way(over_azure(WhenGone, Launches::Slow).await, moment).await;
    }
}

async fn decrease_on_its_way(mut test: KillTest<impl Emulator>, moment: HoldPoint) {
    test.setup.client.increase("pool", 3).await.expect("accepted");
    test.until_failed(3).await;
    test.hold(test.requests.resize, moment);
    let call = test.begin(|mut client| async move { client.decrease("pool", -3).await });
    test.until_sent(test.requests.resize, 2).await;
    if moment == HoldPoint::BeforeResponse {
        eventually("it has its effect", || test.capacity() == 6).await;
    }
    test.kill_under(call).await;
    test.start().await;
    let seen = if moment == HoldPoint::BeforeResponse { 6 } else { 9 };
    assert_eq!(test.setup.client.target("pool").await, seen, "the cloud's own state, regardless of the request");
    test.setup.emulator.release();
    test.setup.client.until("it shows", async |client| client.target("pool").await == 6).await;
    test.setup.client.decrease("pool", -3).await.expect("a decrease with no missing instance is a success");
    test.assert_true().await;
    assert_eq!(
        (test.capacity(), test.sent(test.requests.resize)),
        (6, 2),
        "a repeated request is not carried out twice"
    );
}

#[tokio::test]
async fn killed_while_a_decrease_is_on_its_way() {
    for moment in [HoldPoint::BeforeEffect, HoldPoint::BeforeResponse] {
        // The capacity of a scale set is not lowered: there, a decrease is no write.
        decrease_on_its_way(over_aws(Launches::Fail).await, moment).await;
    }
}
