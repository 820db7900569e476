//! Refusals that would last: CA is told that the group cannot grow, and turns to another one.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::grpc;
use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::{NodeGroupIncreaseSizeRequest, NodeGroupsRequest, RefreshRequest};
use tonic::Code;

use super::refresh::timed;
use crate::in_process;

#[tokio::test(start_paused = true)]
async fn no_refusal_without_an_end() {
    let interval = Duration::from_secs(15);
    let for_good = Duration::from_secs(3600);
    let mut plan = GroupPlan::aws("web").sized(0, 20, 8);
    plan.scale_in_lag = for_good..=for_good;
    let cloud = Arc::new(Simulated::with_groups(1, [plan]));
    let fleet = in_process::fleet(vec![("sim".into(), Arc::clone(&cloud) as SharedCloud)], interval);
    let mut client = CloudProviderClient::new(grpc::service(in_process::service(fleet)).0);
    // Somebody lowers the desired capacity, and the instances stay: their termination is suspended.
    cloud.set_desired_externally("web", 3).expect("it exists");
    let mut refusals = 0;
    let max = loop {
        tokio::time::sleep(interval).await;
        client.refresh(timed(RefreshRequest {})).await.expect("refreshed");
        let groups = client.node_groups(timed(NodeGroupsRequest {})).await.expect("served").into_inner().node_groups;
        let max = groups.first().expect("served").max_size;
        if max < 20 {
            break max;
        }
        let request = NodeGroupIncreaseSizeRequest { id: "web".to_owned(), delta: 1 };
        let refused = client.node_group_increase_size(timed(request)).await.expect_err("eight live");
        assert_eq!(refused.code(), Code::Aborted, "{refused}");
        refusals += 1;
        assert!(refusals < 8, "CA would ask for hours");
    };
    assert_eq!(max, 3, "the target: CA turns to another group");
    cloud.set_desired_externally("web", 8).expect("it exists");
    let growth = loop {
        tokio::time::sleep(interval).await;
        client.refresh(timed(RefreshRequest {})).await.expect("refreshed");
        let groups = client.node_groups(timed(NodeGroupsRequest {})).await.expect("served").into_inner().node_groups;
        if groups.first().expect("served").max_size == 20 {
            let request = NodeGroupIncreaseSizeRequest { id: "web".to_owned(), delta: 1 };
            break client.node_group_increase_size(timed(request)).await;
        }
    };
    growth.expect("it has room again");
}
