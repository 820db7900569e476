//! Tests of the ARM emulator itself.

use std::sync::Arc;
use std::time::Duration;

use headcount::clouds::simulated::{
    CallFault, CallKind, DeleteOutcome, GroupPlan, LaunchOutcome, Pick, PlannedFailure, ReadFault, Simulated, Span,
};
use serde_json::Value;

use super::super::http_client::{Reply, send};
use super::super::{Emulator, HttpResponse};
use super::{Arm, Etags, MissingInstance, Tracking, WriteAnswer, error};

const COMPUTE: &str =
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/demo/providers/Microsoft.Compute";
const SETS: &str = "/virtualMachineScaleSets";

fn quick() -> Span {
    Duration::from_millis(100)..=Duration::from_millis(200)
}

fn endless() -> Span {
    Duration::from_secs(600)..=Duration::from_secs(600)
}

fn pool(name: &str, running: u32) -> GroupPlan {
    GroupPlan::azure(name).sized(0, 100, running).launch_time(quick()).delete_time(quick())
}

fn arm(plans: impl IntoIterator<Item = GroupPlan>) -> Arm {
    Arm::start(Arc::new(Simulated::with_groups(1, plans)))
}

async fn get(arm: &Arm, target: &str) -> Reply {
    send(arm.address(), "GET", target, &[], "").await.expect("a response")
}

async fn at(arm: &Arm, rest: &str) -> Reply {
    let joint = if rest.contains('?') { "&" } else { "?" };
    get(arm, &format!("{COMPUTE}{rest}{joint}api-version=2024-07-01")).await
}

async fn write(arm: &Arm, method: &str, rest: &str, headers: &[(&str, &str)], body: &str) -> Option<Reply> {
    let joint = if rest.contains('?') { "&" } else { "?" };
    send(arm.address(), method, &format!("{COMPUTE}{rest}{joint}api-version=2024-07-01"), headers, body).await
}

/// A link in a response, without the host.
fn target(link: &str) -> &str {
    let after = link.strip_prefix("http://").expect("absolute");
    &after[after.find('/').expect("a path")..]
}

/// Follows an operation to its end.
async fn ended(arm: &Arm, accepted: &Reply) -> Value {
    loop {
        let reply = get(arm, target(accepted.header("azure-asyncoperation"))).await;
        assert_eq!(reply.status, 200);
        if reply.json()["status"] != "InProgress" {
            return reply.json();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn scale_sets_are_listed_in_pages_and_read_one_by_one() {
    let arm = arm([pool("a", 1), pool("b", 2), pool("c", 3)]);
    arm.behavior(|behavior| behavior.page = 2);
    let first = at(&arm, SETS).await.json();
    let second = get(&arm, target(first["nextLink"].as_str().expect("there is more"))).await.json();
    assert_eq!(second["nextLink"], Value::Null);
    let items: Vec<&Value> =
        [&first, &second].into_iter().flat_map(|page| page["value"].as_array().expect("items")).collect();
    let sizes: Vec<_> = items.iter().map(|item| (item["name"].as_str(), item["sku"]["capacity"].as_u64())).collect();
    assert_eq!(sizes, [(Some("a"), Some(1)), (Some("b"), Some(2)), (Some("c"), Some(3))]);
    assert!(items[0]["id"].as_str().expect("an ID").contains("/resourceGroups/DEMO/"), "{}", items[0]["id"]);

    let reply = at(&arm, "/VirtualMachineScaleSets/B").await;
    let own = reply.json();
    assert!(
        own["id"]
            .as_str()
            .expect("an ID")
            .ends_with("/resourceGroups/demo/providers/Microsoft.Compute/virtualMachineScaleSets/b")
    );
    assert_eq!((&own["etag"], own["etag"].as_str()), (&items[1]["etag"], Some(reply.header("etag"))));
    assert_eq!((&own["location"], &own["zones"]), (&"eastus".into(), &serde_json::json!(["1", "2", "3"])));
    assert!(
        !reply.header("x-ms-request-id").is_empty() && !reply.header("x-ms-ratelimit-remaining-resource").is_empty()
    );
    arm.behavior(|behavior| behavior.etags = Etags::NotInLists);
    assert_eq!(at(&arm, SETS).await.json()["value"][0]["etag"], Value::Null);

    assert_eq!(at(&arm, &format!("{SETS}/nobody")).await.json()["error"]["code"], "ResourceNotFound");
    assert_eq!(get(&arm, &format!("{COMPUTE}{SETS}")).await.json()["error"]["code"], "MissingApiVersionParameter");
    let elsewhere = format!("{COMPUTE}{SETS}?api-version=1").replace("/demo/", "/other/");
    assert_eq!(get(&arm, &elsewhere).await.json()["error"]["code"], "ResourceGroupNotFound");
}

#[tokio::test]
async fn a_capacity_is_written_under_its_etag_and_can_be_followed() {
    let failure = PlannedFailure::out_of_resources("AllocationFailed", "There is no capacity.");
    let arm = arm([pool("p", 2)]);
    let etag = at(&arm, &format!("{SETS}/p")).await.header("etag").to_owned();
    let grow = |to: u32| format!(r#"{{"sku":{{"capacity":{to}}}}}"#);
    let set = format!("{SETS}/p");
    let accepted = write(&arm, "PATCH", &set, &[("if-match", &etag)], &grow(4)).await.expect("a response");
    assert_eq!((accepted.status, accepted.header("retry-after")), (200, ""));
    for address in [accepted.header("azure-asyncoperation"), accepted.header("location")] {
        assert!((3_000..4_500).contains(&address.len()), "{}", address.len());
    }
    assert_eq!(accepted.json()["properties"]["provisioningState"], "Updating");
    let outdated = write(&arm, "PATCH", &set, &[("if-match", &etag)], &grow(5)).await.expect("a response");
    assert_eq!((outdated.status, &outdated.json()["error"]["code"]), (412, &"PreconditionFailed".into()));
    assert_eq!(ended(&arm, &accepted).await["status"], "Succeeded");
    assert_eq!(at(&arm, &format!("{SETS}/p/virtualMachines")).await.json()["value"].as_array().map(Vec::len), Some(4));

    let outcome = LaunchOutcome::rolls_back(failure, quick());
    arm.simulated().replan("p", |plan| plan.launches_now(Pick::Always, outcome)).expect("there is one");
    arm.behavior(|behavior| behavior.write_answer = WriteAnswer::Accepted);
    let accepted = write(&arm, "PUT", &set, &[("if-match", "*")], &grow(5)).await.expect("a response");
    assert_eq!((accepted.status, accepted.body.as_str()), (202, ""));
    let end = ended(&arm, &accepted).await;
    assert_eq!((&end["status"], &end["error"]["code"]), (&"Failed".into(), &"AllocationFailed".into()));
    let located = get(&arm, target(accepted.header("location"))).await;
    assert_eq!((located.status, &located.json()["error"]["code"]), (409, &"AllocationFailed".into()));
    assert_eq!(at(&arm, &set).await.json()["sku"]["capacity"], 4);

    arm.behavior(|behavior| behavior.tracking = Tracking::Location);
    let accepted = write(&arm, "PATCH", &set, &[], &grow(4)).await.expect("a response");
    assert_eq!((accepted.header("azure-asyncoperation"), accepted.header("location").is_empty()), ("", false));
    assert!(arm.simulated().killed_unnamed().is_empty());
    let writes = arm.requests_with("PATCH", &set);
    assert_eq!(writes.iter().map(|request| request.status).collect::<Vec<_>>(), [Some(200), Some(412), Some(202)]);
    assert_eq!((writes[0].header("if-match"), &writes[0].json()["sku"]["capacity"]), (Some(etag.as_str()), &4.into()));
}

#[tokio::test]
async fn named_machines_are_deleted_and_their_states_shown() {
    let arm = arm([pool("p", 3), pool("slow", 3).delete_time(endless())]);
    arm.behavior(|behavior| behavior.missing_instance = MissingInstance::Tolerated);
    let machines = |set: &str| format!("{SETS}/{set}/virtualMachines?$expand=instanceView");
    let delete = |set: &str| format!("{SETS}/{set}/delete?forceDeletion=false");
    let accepted =
        write(&arm, "POST", &delete("slow"), &[], r#"{"instanceIds":["1","77"]}"#).await.expect("a response");
    assert_eq!(accepted.status, 202);
    let listed = at(&arm, &machines("slow")).await.json();
    let states: Vec<_> = (0..3).map(|at| listed["value"][at]["properties"]["provisioningState"].as_str()).collect();
    assert_eq!(states, [Some("Succeeded"), Some("Deleting"), Some("Succeeded")]);
    let created = listed["value"][0]["properties"]["timeCreated"].as_str().expect("a time");
    assert!(created.ends_with("+00:00") && created.len() == "2026-01-01T00:00:00.1234567+00:00".len(), "{created}");
    let etag = at(&arm, &format!("{SETS}/slow")).await.json()["etag"].clone();
    assert_eq!(listed["value"][0]["etag"], etag, "a machine has its set's etag");
    assert!(etag.as_str().is_some_and(|etag| etag.trim_matches('"').parse::<u64>().is_ok()), "{etag}");
    assert_eq!(listed["value"][0]["properties"]["instanceView"]["statuses"][1]["code"], "PowerState/running");

    let (machines, delete) = (machines("p"), delete("p"));
    let accepted = write(&arm, "POST", &delete, &[], r#"{"instanceIds":["1","77"]}"#).await.expect("a response");
    assert_eq!(ended(&arm, &accepted).await["status"], "Succeeded");
    assert_eq!(at(&arm, &format!("{SETS}/p")).await.json()["sku"]["capacity"], 2);

    arm.behavior(|behavior| behavior.missing_instance = MissingInstance::NotFound);
    let refused = write(&arm, "POST", &delete, &[], r#"{"instanceIds":["0","1"]}"#).await.expect("a response");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (404, &"ResourceNotFound".into()));
    arm.group_details("p", |details| details.force_refused = true);
    let forced = delete.replace("false", "true");
    let refused = write(&arm, "POST", &forced, &[], r#"{"instanceIds":["0"]}"#).await.expect("a response");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (409, &"OperationNotAllowed".into()));

    let failure = PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "x");
    let outcome = DeleteOutcome::FailsLater(failure);
    arm.simulated().replan("p", |plan| plan.deletions_now(Pick::Always, outcome)).expect("there is one");
    let accepted = write(&arm, "POST", &delete, &[], r#"{"instanceIds":["0"]}"#).await.expect("a response");
    assert_eq!(ended(&arm, &accepted).await["error"]["code"], "CannotAllocateRemainingVMsInAvailabilitySet");
    assert_eq!(at(&arm, &machines).await.json()["value"][0]["properties"]["provisioningState"], "Succeeded");
}

#[tokio::test]
async fn machines_of_a_flexible_set_have_names_and_are_beside_it() {
    let failure = PlannedFailure::other("VMExtensionProvisioningError", "the script exited with 50");
    let broken = pool("flex", 0).launches(Pick::Always, LaunchOutcome::Breaks { failure, after: quick() });
    let arm = arm([broken, pool("uniform", 2)]);
    arm.group_details("flex", |details| details.flexible = true);
    let body = r#"{"sku":{"capacity":1}}"#;
    let accepted = write(&arm, "PATCH", &format!("{SETS}/flex"), &[], body).await.expect("a response");
    assert_eq!(ended(&arm, &accepted).await["status"], "Failed");
    let of = |set: &str| {
        let id = format!("{COMPUTE}{SETS}/{set}");
        format!("/virtualMachines?$filter=%27virtualMachineScaleSet%2Fid%27%20eq%20%27{id}%27&$expand=instanceView")
    };
    let listed = at(&arm, &of("flex")).await.json();
    let machine = &listed["value"][0];
    let name = machine["name"].as_str().expect("a name");
    assert!(
        name.starts_with("flex_")
            && machine["id"].as_str().is_some_and(|id| id.ends_with(&format!("virtualMachines/{name}")))
    );
    assert_eq!(machine["properties"]["provisioningState"], "Failed");
    let view = &machine["properties"]["instanceView"];
    assert_eq!(
        (&view["extensions"][1]["name"], &view["statuses"][1]["code"]),
        (&"vmssCSE".into(), &"PowerState/running".into())
    );
    assert_eq!(at(&arm, &of("uniform")).await.json()["value"], serde_json::json!([]));
    assert_eq!(at(&arm, "/virtualMachines?$expand=instanceView").await.status, 400);
    assert_eq!(at(&arm, &format!("{SETS}/flex/virtualMachines")).await.status, 409);

    let body = format!(r#"{{"instanceIds":["{name}"]}}"#);
    let accepted = write(&arm, "POST", &format!("{SETS}/flex/delete"), &[], &body).await.expect("a response");
    assert_eq!(ended(&arm, &accepted).await["status"], "Succeeded");
    assert_eq!(at(&arm, &of("flex")).await.json()["value"], serde_json::json!([]));
}

#[tokio::test]
async fn faults_of_the_simulated_cloud_change_responses() {
    let arm = arm([pool("p", 2), pool("q", 1)]);
    let (set, machines) = (format!("{SETS}/p"), format!("{SETS}/p/virtualMachines"));
    let retry_after = Some(Duration::from_secs(7));
    arm.simulated().faults(|faults| {
        faults.script(Some(CallKind::List), None, 1, CallFault::Throttled { retry_after });
        faults.script(Some(CallKind::SetCapacity), Some("p"), 1, CallFault::LostResponse);
        faults.script_read(Some(CallKind::Observe), "p", 1, ReadFault::Capacity(0));
        faults.script_read(Some(CallKind::List), "q", 1, ReadFault::Broken);
    });
    let throttled = at(&arm, SETS).await;
    assert_eq!((throttled.status, throttled.header("retry-after")), (429, "7"));
    let error_body = &throttled.json()["error"];
    assert_eq!(
        (&error_body["code"], &error_body["details"][0]["code"]),
        (&"OperationNotAllowed".into(), &"TooManyRequests".into())
    );

    assert_eq!(
        at(&arm, &machines).await.json()["value"].as_array().map(Vec::len),
        Some(2),
        "a list of machines has no capacity that could be wrong"
    );
    assert_eq!(at(&arm, &set).await.json()["sku"]["capacity"], 0);
    assert_eq!(at(&arm, &set).await.json()["sku"]["capacity"], 2);
    let listed = at(&arm, SETS).await.json();
    assert!(listed["value"][0]["sku"]["capacity"].is_number() && listed["value"][1]["sku"]["capacity"].is_string());

    assert!(write(&arm, "PATCH", &set, &[], r#"{"sku":{"capacity":3}}"#).await.is_none(), "the response is lost");
    assert_eq!(at(&arm, &set).await.json()["sku"]["capacity"], 3);
    arm.simulated().faults(|faults| faults.down = true);
    assert!(write(&arm, "GET", &set, &[], "").await.is_none());
    arm.simulated().faults(|faults| faults.down = false);
    arm.script("GET", &set, 1, error(403, "AuthorizationFailed", "no"));
    arm.script("GET", &set, 1, HttpResponse::new(500).header("x-ms-failure-cause", "gateway").body("<html>"));
    assert_eq!(at(&arm, &set).await.json()["error"]["code"], "AuthorizationFailed");
    assert_eq!((at(&arm, &set).await.status, at(&arm, &set).await.status), (500, 200));
}

#[tokio::test]
async fn sizes_and_tokens_are_served() {
    let arm = arm([]);
    let filter = "api-version=2021-07-01&$filter=location%20eq%20'eastus'";
    let skus = format!("{}/skus?{filter}", COMPUTE.replace("/resourceGroups/demo", ""));
    let listed = get(&arm, &skus).await.json();
    let named =
        |name: &str| listed["value"].as_array().and_then(|all| all.iter().find(|item| item["name"] == name).cloned());
    let capability = |name: &str, wanted: &str| {
        let item = named(name).expect("listed");
        let all = item["capabilities"].as_array().cloned().unwrap_or_default();
        all.iter().find(|one| one["name"] == wanted).and_then(|one| one["value"].as_str().map(str::to_owned))
    };
    assert_eq!(capability("Standard_E8-4ds_v5", "vCPUsAvailable").as_deref(), Some("4"));
    assert_eq!(capability("Standard_B1ls", "MemoryGB").as_deref(), Some("0.5"));
    assert_eq!(capability("Standard_D4ps_v5", "CpuArchitectureType").as_deref(), Some("Arm64"));
    assert_eq!(capability("Standard_NC24ads_A100_v4", "GPUs").as_deref(), Some("1"));

    let form = "grant_type=client_credentials&client_id=me&client_assertion=eyJ.x";
    let token = send(arm.address(), "POST", "/tenant/oauth2/v2.0/token", &[], form).await.expect("a response");
    assert_eq!((token.status, &token.json()["token_type"]), (200, &"Bearer".into()));
    let asked = arm.requests_with("POST", "/tenant/oauth2").remove(0);
    assert_eq!(asked.field("client_assertion").as_deref(), Some("eyJ.x"));
    let machine = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fmanagement.azure.com";
    assert_eq!(get(&arm, machine).await.status, 400);
    let token = send(arm.address(), "GET", machine, &[("Metadata", "true")], "").await.expect("a response").json();
    assert_eq!(token["resource"], "https://management.azure.com");
}
