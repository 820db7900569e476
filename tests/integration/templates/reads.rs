//! What asking for a template costs.

use std::sync::Arc;

use headcount::cloud::simulated::{GroupPlan, Simulated};

use crate::faces::Face;
use crate::faces::arm::Arm;
use crate::faces::aws::Aws;
use crate::faces::scene::Scene;

const ASKED: usize = 200;

async fn assert_templates_cost_no_request(face: impl Face) {
    // Once it has started, nothing is read again by itself before the test is over.
    let mut scene = Scene::with(face, |setting| setting.refresh = "10m".to_owned()).await;
    let first = scene.client.template("g").await.expect("built").node_info;
    scene.face.forget_requests();
    for _ in 0..ASKED {
        assert_eq!(scene.client.template("g").await.expect("built").node_info, first);
    }
    let requests: Vec<_> = scene.face.requests().into_iter().map(|request| request.path + &request.body).collect();
    assert!(requests.is_empty(), "{requests:?}");
}

#[tokio::test]
async fn templates_are_answered_from_memory() {
    let simulated = |plan: GroupPlan| Arc::new(Simulated::with_groups(1, [plan.sized(0, 10, 0)]));
    assert_templates_cost_no_request(Aws::start(simulated(GroupPlan::aws("g")))).await;
    assert_templates_cost_no_request(Arm::start(simulated(GroupPlan::azure("g")))).await;
}
