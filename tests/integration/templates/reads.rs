//! The number of calls that a template takes.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;

const ASKED: usize = 200;

async fn assert_templates_cost_no_request(emulator: impl Emulator) {
    // After the start, nothing is read again before the test ends.
    let mut setup = Setup::with(emulator, |options| options.refresh = "10m".to_owned()).await;
    let first = setup.client.template("g").await.expect("built").node_info;
    setup.emulator.forget_requests();
    for _ in 0..ASKED {
        assert_eq!(setup.client.template("g").await.expect("built").node_info, first);
    }
    let requests = setup.emulator.requests().into_iter().map(|request| request.path + &request.body);
    // Quotas are read beside everything else, and may come late after the start.
    let requests: Vec<_> = requests.filter(|request| !request.ends_with("/usages")).collect();
    assert!(requests.is_empty(), "{requests:?}");
}

#[tokio::test]
async fn templates_are_served_from_memory() {
    let simulated = |plan: GroupPlan| Arc::new(Simulated::with_groups(1, [plan.sized(0, 10, 0)]));
    assert_templates_cost_no_request(Aws::start(simulated(GroupPlan::aws("g")))).await;
    assert_templates_cost_no_request(Arm::start(simulated(GroupPlan::azure("g")))).await;
}
