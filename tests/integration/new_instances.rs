//! `grpc: {newInstances: list}` of the real binary.

use std::sync::Arc;

use headcount::clouds::simulated::{Group, GroupPlan, Simulated};

use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::peers::headcount::Client;

/// By default, an instance is listed some seconds after Headcount knows it, so this fails without the setting.
#[tokio::test]
async fn a_new_instance_is_listed_as_soon_as_it_is_known_on_request() {
    let cloud = Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 9, 0)]));
    let at_once = "grpc: {newInstances: list}";
    let mut setup = Setup::with(Aws::start(cloud), |options| options.more = at_once.to_owned()).await;
    setup.client.increase("web", 1).await.expect("there is room");
    let cloud = setup.emulator.simulated().clone();
    let new = || {
        let first = |group: &Group| group.members().next().map(|member| member.provider_id.to_string());
        cloud.world(|world, _| world.group("web").and_then(first))
    };
    let is_known = async |client: &mut Client| match new() {
        Some(id) => client.group_of(&id).await.is_some(),
        None => false,
    };
    setup.client.until("the instance is known", is_known).await;
    let listed = setup.client.nodes("web").await;
    assert_eq!(listed.iter().map(|node| &node.id).collect::<Vec<_>>(), [&new().expect("it exists")]);
}
