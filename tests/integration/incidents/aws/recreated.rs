//! Groups that are deleted and created again under their names.

use super::{FOREVER, capacity, desired_written, group, open_sleepy};
use crate::emulators::Emulator;

#[tokio::test]
async fn asg_empty_group_recreated() {
    let mut plan = group("web", (0, 20, 0));
    plan.acts_after = FOREVER..=FOREVER;
    let mut setup = open_sleepy([plan.clone()]).await;
    setup.client.increase("web", 3).await.expect("accepted");
    assert_eq!(setup.client.target("web").await, 3);
    setup.emulator.simulated().create_group(plan);
    setup.client.increase("web", 1).await.expect("the new one is empty");
    assert_eq!(desired_written(&setup.emulator, "web"), [3, 1]);
    assert_eq!((setup.client.target("web").await, capacity(&setup.emulator, "web")), (1, 1));
}
