//! Azure VM scale sets.

mod counts;
mod deletes;
mod failures;
mod machines;
mod nominal;
mod operations;
mod preconditions;
mod recreated;
mod sizes;
mod throttling;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, Simulated, Span};

use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::peers::headcount::Client;

fn quick() -> Span {
    Duration::from_millis(200)..=Duration::from_millis(400)
}

/// Longer than any test. `Simulated::end_deletions` ends deletions that take so long.
fn endless() -> Span {
    Duration::from_secs(600)..=Duration::from_secs(600)
}

fn pool(name: &str, (min, max, running): (u32, u32, u32)) -> GroupPlan {
    GroupPlan::azure(name).sized(min, max, running).launch_time(quick()).delete_time(quick())
}

fn arm(plans: impl IntoIterator<Item = GroupPlan>) -> Arm {
    Arm::start(Arc::new(Simulated::with_groups(3, plans)))
}

/// Every capacity that was written, in order; each write must follow a GET of its set and carry an If-Match. One that
/// met a 412 and was written again counts once: how often that happens depends on the machine's speed.
fn capacities_written(arm: &Arm, name: &str) -> Vec<u64> {
    let requests = arm.requests();
    let path = format!("/virtualmachinescalesets/{}", name.to_lowercase());
    let (mut written, mut refused) = (Vec::new(), None);
    for (position, request) in requests.iter().enumerate() {
        let of_set = |path_of: &str| path_of.to_lowercase().ends_with(&path);
        if matches!(request.method.as_str(), "PATCH" | "PUT") && of_set(&request.path) {
            let read = requests[..position].iter().any(|earlier| earlier.method == "GET" && of_set(&earlier.path));
            assert!(read, "a write without a reading before it");
            assert!(request.header("if-match").is_some(), "a write without If-Match");
            let capacity = request.json()["sku"]["capacity"].as_u64().expect("a capacity");
            if refused != Some(capacity) {
                written.push(capacity);
            }
            refused = (request.status == Some(412)).then_some(capacity);
        }
    }
    written
}

/// What each deletion named, in order.
fn deletions(arm: &Arm) -> Vec<Vec<String>> {
    let texts = |ids: &serde_json::Value| {
        ids.as_array().expect("a list").iter().map(|id| id.as_str().expect("an ID").to_owned()).collect()
    };
    arm.requests_with("POST", "/delete").iter().map(|request| texts(&request.json()["instanceIds"])).collect()
}

/// The capacity that the scale set has.
fn capacity(arm: &Arm, name: &str) -> Option<u32> {
    arm.simulated().world(|world, _| world.group(name).map(|group| group.capacity()))
}

fn refs(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}

/// The class, code and message of each instance that is being created.
async fn errors(client: &mut Client, name: &str) -> Vec<(i32, String, String)> {
    let creating = client.nodes(name).await.into_iter().filter_map(|node| node.status);
    let creating = creating.filter(|status| status.instance_state == 2).filter_map(|status| status.error_info);
    creating.map(|error| (error.instance_error_class, error.error_code, error.error_message)).collect()
}
