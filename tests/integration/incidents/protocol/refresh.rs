//! A cloud that cannot be read, for so long that only a paused clock can wait for it: the real service and the real
//! codec over the simulated cloud, in one process.

use std::sync::Arc;
use std::time::Duration;

use headcount::cloud::SharedCloud;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::grpc;
use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::{NodeGroup, NodeGroupTargetSizeRequest, NodeGroupsRequest, RefreshRequest};
use tonic::{Code, Request};

use crate::in_process;

pub(super) fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(5));
    request
}

#[tokio::test(start_paused = true)]
async fn node_groups_never_fail() {
    let plans = [GroupPlan::aws("web").sized(1, 9, 3), GroupPlan::aws("gpu").sized(0, 4, 0)];
    let cloud = Arc::new(Simulated::with_groups(1, plans));
    let interval = Duration::from_secs(15);
    let fleet = in_process::fleet(vec![("sim".into(), Arc::clone(&cloud) as SharedCloud)], interval);
    let mut client = CloudProviderClient::new(grpc::service(in_process::service(fleet)).0);
    let asking = client.clone();
    let listed = async || -> Vec<NodeGroup> {
        let response = asking.clone().node_groups(timed(NodeGroupsRequest {})).await;
        let mut groups = response.expect("CA would treat an error as an empty list of groups").into_inner().node_groups;
        groups.sort_by(|one, other| one.id.cmp(&other.id));
        groups
    };
    let good = listed().await;
    assert_eq!(good.iter().map(|group| group.id.as_str()).collect::<Vec<_>>(), ["gpu", "web"]);

    cloud.faults(|faults| faults.down = true);
    let mut refreshed = 0;
    let failure = loop {
        tokio::time::sleep(interval).await;
        assert_eq!(listed().await, good, "the last good list");
        match client.refresh(timed(RefreshRequest {})).await {
            Ok(_) => refreshed += 1,
            Err(status) => break status,
        }
        assert!(refreshed < 100, "Refresh never fails");
    };
    assert!(refreshed > 1, "a short failure does not stop scaling");
    assert_eq!(failure.code(), Code::Unavailable);
    assert!(failure.message().starts_with("no source has been read in the last 2m: sim: "), "{}", failure.message());
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(listed().await, good, "the same list an hour later");
    let target = client.node_group_target_size(timed(NodeGroupTargetSizeRequest { id: "web".to_owned() })).await;
    assert_eq!(target.expect("served").into_inner().target_size, 3);

    cloud.faults(|faults| faults.down = false);
    while client.refresh(timed(RefreshRequest {})).await.is_err() {
        tokio::time::sleep(interval).await;
    }
    assert_eq!(listed().await, good);
}
