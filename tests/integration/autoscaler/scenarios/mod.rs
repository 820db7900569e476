//! The scenarios, on both clouds.

/// One scenario as two tests, one for each cloud: the scenario takes its name and an emulator with groups of this kind.
macro_rules! on_both_clouds {
    ($aws:ident, $azure:ident, $scenario:path, $groups:expr) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $aws() {
            let groups = $groups;
            $scenario(stringify!($aws), super::aws(groups(super::scaling_group))).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $azure() {
            let groups = $groups;
            $scenario(stringify!($azure), super::azure(groups(super::scale_set))).await;
        }
    };
}

mod deletions;
mod draining;
pub(super) mod failures;
mod learning;
mod options;
mod replicas;
mod sizes;
mod transports;
mod types;
pub(super) mod zones;

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, Simulated, Span};

use super::fixture::Fixture;
use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;

/// More CPU than half of a node of either cloud has: one such pod per node.
pub(super) const ONE_PER_NODE: &str = "1200m";

fn quick() -> Span {
    Duration::from_millis(500)..=Duration::from_millis(1500)
}

/// How a cloud's group is made, of this name and with these sizes: min, max and what runs.
type MakeGroup = fn(&str, (u32, u32, u32)) -> GroupPlan;

pub(super) fn aws(plans: impl IntoIterator<Item = GroupPlan>) -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, plans)))
}

pub(super) fn azure(plans: impl IntoIterator<Item = GroupPlan>) -> Arm {
    Arm::start(Arc::new(Simulated::with_groups(2, plans)))
}

/// An Auto Scaling group of m5.large in one zone.
pub(super) fn scaling_group(name: &str, (min, max, running): (u32, u32, u32)) -> GroupPlan {
    let mut plan = GroupPlan::aws(name).sized(min, max, running).launch_time(quick()).delete_time(quick());
    plan.zones.truncate(1);
    plan
}

/// A scale set of Standard_D2s_v5, which has the CPUs of an m5.large, in one zone.
pub(super) fn scale_set(name: &str, (min, max, running): (u32, u32, u32)) -> GroupPlan {
    let plan = GroupPlan::azure(name).sized(min, max, running).launch_time(quick()).delete_time(quick());
    let mut plan = plan.instance_types(&["Standard_D2s_v5"]);
    plan.zones.truncate(1);
    plan
}

/// The group `web` has a node for each of nine pods and no more; without the pods, it becomes empty.
async fn follows_nine_pods(fixture: &mut Fixture<impl Emulator>) {
    fixture.until("nine pods have nodes", async |fixture| fixture.scheduled().await == 9).await;
    fixture
        .until("nine nodes remain", async |fixture| fixture.capacity("web") == 9 && fixture.nodes().await.len() == 9)
        .await;
    fixture.delete_pods().await;
    fixture.until("the group is empty", async |fixture| fixture.capacity("web") == 0).await;
}
