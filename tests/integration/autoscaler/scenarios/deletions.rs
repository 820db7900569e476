//! Deletions that Azure accepts and that fail later than Headcount can hold its response. The node keeps the
//! autoscaler's taint, which the autoscaler takes for a successful deletion.

use std::time::Duration;

use headcount::clouds::simulated::{DeleteOutcome, Pick, PlannedFailure};

use super::super::fixture::Fixture;
use super::super::scenario::Scenario;
use super::{ONE_PER_NODE, azure, scale_set};
use crate::emulators::Emulator;

/// Longer than the 5 s for which a response is held at most.
const LATE: Duration = Duration::from_secs(8);

/// What the autoscaler logs about a group whose nodes never register.
const BLOCKED: &str = "Node group web is not ready for scaleup";

#[tokio::test(flavor = "multi_thread")]
async fn azure_counts_no_phantom_after_a_deletion_that_fails_late() {
    let scenario =
        Scenario::new("azure_counts_no_phantom_after_a_deletion_that_fails_late").kubernetes(", taints: true");
    let Some(fixture) = after_a_late_failure(scenario).await else { return };
    fixture.create_pods(5, ONE_PER_NODE).await;
    fixture.until("five pods have nodes", async |fixture| fixture.scheduled().await == 5).await;
    assert!(!fixture.autoscaler.has_logged(BLOCKED), "the autoscaler counted nodes that never register");
    fixture.finish(&["InternalExecutionError", "delete"]);
}

/// Without access, Headcount cannot see the taint. The count stays right, and no unnamed instance is killed.
#[tokio::test(flavor = "multi_thread")]
async fn azure_keeps_the_count_after_a_deletion_that_fails_late() {
    let scenario = Scenario::new("azure_keeps_the_count_after_a_deletion_that_fails_late");
    let Some(fixture) = after_a_late_failure(scenario).await else { return };
    fixture.until("all three are nodes again", async |fixture| fixture.nodes().await.len() == 3).await;
    assert_eq!(fixture.capacity("web"), 3);
    let target = fixture.metric("headcount_node_group_target_size{");
    assert!(target.iter().any(|sample| sample.ends_with(" 3.0")), "{target:?}");
    fixture.finish(&["InternalExecutionError", "delete"]);
}

/// Three nodes without pods; the first deletions fail, and none was tried again yet.
async fn after_a_late_failure(scenario: Scenario) -> Option<Fixture<crate::emulators::arm::Arm>> {
    let failure = PlannedFailure::other("InternalExecutionError", "An internal execution error occurred.");
    let plan = scale_set("web", (0, 10, 3))
        .delete_time(LATE..=LATE + Duration::from_secs(1))
        .deletions(Pick::Always, DeleteOutcome::FailsLater(failure));
    let fixture = Fixture::start(scenario, azure([plan])).await?;
    fixture.until("three nodes registered", async |fixture| fixture.nodes().await.len() == 3).await;
    fixture
        .until("a deletion was tried", async |fixture| {
            !fixture.setup.emulator.requests_with("POST", "/delete").is_empty()
        })
        .await;
    fixture
        .until("Headcount knows that it failed", async |fixture| {
            !fixture.setup.server().lines_with("InternalExecutionError").is_empty()
        })
        .await;
    Some(fixture)
}
