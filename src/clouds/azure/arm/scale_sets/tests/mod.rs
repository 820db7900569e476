mod writes;

use hyper::Method;
use serde_json::{Value, json};

use super::*;
use crate::cloud::CallMeter;
use crate::clouds::azure::arm::ReadPurpose;
use crate::clouds::azure::http::{Loopback, Reply};
use crate::config::settings::azure::Settings;

impl Loopback {
    fn settings(&self) -> Settings {
        Settings {
            endpoint: Some(self.base()),
            subscription_id: Some("sub".to_owned()),
            resource_group: "rg".to_owned(),
            ..crate::clouds::azure::tests::settings()
        }
    }

    fn arm(&self) -> ArmScaleSets {
        ArmScaleSets::connect(&self.settings(), CallMeter::default()).expect("a connection to the loopback server")
    }
}

const VIEW: MachineQuery = MachineQuery { with_view: true, purpose: ReadPurpose::Refresh };
const SETS: &str = "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets";
const OPERATION: &str = "/subscriptions/sub/providers/Microsoft.Compute/locations/westus/operations/op-1";

fn set(name: &str, capacity: u32) -> Value {
    json!({ "id": format!("{SETS}/{name}"), "name": name, "location": "westus", "etag": "\"1\"",
            "sku": { "name": "Standard_D2s_v5", "capacity": capacity }, "properties": {} })
}

fn error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message } })
}

#[tokio::test]
async fn a_list_follows_its_pages_and_skips_an_item_that_cannot_be_decoded() {
    let bad_date = json!({ "id": "/x/broken", "name": "broken", "sku": { "capacity": "many" }, "location": "westus" });
    let dated = json!({ "id": "/x/dated", "name": "dated", "location": "westus", "sku": { "capacity": 2 },
                        "properties": { "timeCreated": "yesterday" } });
    let next = format!("{{base}}{SETS}?api-version=2024-07-01&%24skiptoken=a+b");
    let server = Loopback::start([
        Reply::json(json!({ "value": [set("one", 1), bad_date, dated], "nextLink": next })),
        Reply::json(json!({ "value": [set("two", 2), { "name": "nowhere", "id": "/x/nowhere" }], "nextLink": "" })),
    ])
    .await;
    let sets = server.arm().list_scale_sets().await.expect("a list");
    let name = |set: &Result<ScaleSet, BadItem>| match set {
        Ok(set) => format!("{}={:?}", set.name, set.capacity),
        Err(bad) => format!("{:?}: {}", bad.name.as_deref().unwrap_or_default(), bad.reason),
    };
    let names: Vec<_> = sets.iter().map(name).collect();
    assert_eq!(names[0], "one=Some(1)");
    assert!(names[1].starts_with("\"broken\": invalid type: string \"many\""), "{names:?}");
    assert_eq!(names[2..4], ["dated=Some(2)", "two=Some(2)"]);
    assert_eq!(names[4], "\"nowhere\": it has no location");
    let received = server.received();
    assert_eq!(received[0].target, format!("{SETS}?api-version=2024-07-01"));
    // The link is exactly what Azure returns.
    assert_eq!(received[1].target, format!("{SETS}?api-version=2024-07-01&%24skiptoken=a+b"));
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|received| !received.headers.contains_key("authorization")), "a token over plain http");
}

/// Otherwise, a list of several pages would never be read while other clients keep a budget low.
#[tokio::test]
async fn a_list_that_has_begun_is_finished_although_its_budget_is_low() {
    let next = format!("{{base}}{SETS}/one/virtualMachines?page=2");
    let low = |page| {
        Reply::json(page).header("x-ms-ratelimit-remaining-resource", "Microsoft.Compute/GetVMScaleSetResource;1")
    };
    let pages = [json!({ "value": [], "nextLink": next }), json!({ "value": [] })];
    let server = Loopback::start(pages.map(low)).await;
    let arm = server.arm();
    arm.list_uniform_machines("one", VIEW).await.expect("both pages");
    let later = arm.list_uniform_machines("one", VIEW).await.expect_err("the next list waits");
    assert!(matches!(later, CloudError::Throttled { .. }), "{later}");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn a_flexible_set_has_no_vm_that_names_another_set() {
    let vm = |name: &str, set: Value| json!({ "id": format!("/vms/{name}"), "name": name, "properties": { "virtualMachineScaleSet": set } });
    let (own, other) = (json!({ "id": "/SUBSCRIPTIONS/sub/sets/ONE" }), json!({ "id": "/subscriptions/sub/sets/two" }));
    let all = [vm("own", own), vm("other", other), vm("silent", Value::Null)];
    let silent = [vm("silent", Value::Null)];
    let replies = [json!({ "value": all }), json!({ "value": silent })].map(Reply::json);
    let server = Loopback::start(replies).await;
    for expected in ["own", "silent"] {
        let list = server.arm().list_flexible_machines("/subscriptions/sub/sets/one", VIEW).await.expect("a list");
        let names: Vec<_> = list.machines.iter().map(|machine| machine.delete_by.as_str()).collect();
        assert_eq!((names, list.without_id), (vec![expected], 0));
    }
}

#[tokio::test]
async fn connections_are_kept() {
    let server = Loopback::start((0..3).map(|_| Reply::json(set("one", 1)))).await;
    let arm = server.arm();
    for _ in 0..3 {
        arm.get_scale_set("one", ReadPurpose::Write).await.expect("a set");
    }
    assert_eq!((server.received().len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn a_link_to_another_host_is_refused() {
    for next in [
        "http://localhost:1/next",
        "http://127.0.0.1/next",
        "https://evil.example/next",
        "//evil.example/next",
        "\\\\evil.example\\next",
        "file:///etc/passwd",
        "http://evil.example\r\n/next",
        "{base}@evil.example/next",
        "http://evil.example#{base}/next",
    ] {
        let server = Loopback::start([Reply::json(json!({ "value": [set("one", 1)], "nextLink": next }))]).await;
        let refused = server.arm().list_scale_sets().await.expect_err("a foreign link");
        assert!(matches!(refused, CloudError::Refused(_)), "{next}: {refused}");
        assert_eq!(server.received().len(), 1, "{next}");
    }
}

#[tokio::test]
async fn a_page_that_links_to_itself_is_an_error() {
    let next = format!("{{base}}{SETS}?api-version=2024-07-01");
    let server = Loopback::start([Reply::json(json!({ "value": [], "nextLink": next }))]).await;
    let endless = server.arm().list_scale_sets().await.expect_err("a circle");
    assert!(matches!(endless, CloudError::Unintelligible(_)), "{endless}");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn after_a_429_nothing_is_sent_until_its_time_has_passed() {
    let too_many = json!({ "error": { "code": "OperationNotAllowed", "message": "too many requests: quota",
        "details": [{ "code": "TooManyRequests", "target": "HighCostGet30Min", "message": "{}" }] } });
    let server =
        Loopback::start([Reply::new(429, too_many).header("retry-after", "120"), Reply::json(set("one", 1))]).await;
    let arm = server.arm();
    for _ in 0..2 {
        let error = arm.list_uniform_machines("one", VIEW).await.expect_err("throttled");
        let CloudError::Throttled { retry_after: Some(wait), .. } = error else { panic!("{error}") };
        assert!((Duration::from_secs(60)..=Duration::from_secs(120)).contains(&wait), "{wait:?}");
    }
    assert_eq!(server.received().len(), 1, "nothing was sent the second time");
    arm.get_scale_set("one", ReadPurpose::Write).await.expect("another budget is open");
}

#[tokio::test]
async fn a_404_means_none_only_if_azure_sent_it() {
    let server = Loopback::start([
        Reply::new(404, error("ResourceNotFound", "no such set")),
        Reply::new(404, "<html>not found</html>"),
        Reply::new(404, error("SubscriptionNotFound", "no such subscription")),
        Reply::new(403, error("AuthorizationFailed", "no role")),
        Reply::new(200, "not json"),
    ])
    .await;
    let arm = server.arm();
    assert_eq!(arm.get_scale_set("one", ReadPurpose::Write).await.expect("a response"), None);
    assert!(matches!(arm.get_scale_set("one", ReadPurpose::Write).await, Err(CloudError::Unintelligible(_))));
    assert!(matches!(arm.get_scale_set("one", ReadPurpose::Write).await, Err(CloudError::Denied(_))));
    assert!(matches!(arm.get_scale_set("one", ReadPurpose::Write).await, Err(CloudError::Denied(_))));
    assert!(matches!(arm.get_scale_set("one", ReadPurpose::Write).await, Err(CloudError::Unintelligible(_))));
}

#[tokio::test]
async fn lists_ask_for_what_is_needed_and_spell_spaces_as_percent_20() {
    let machine = json!({ "id": "/subscriptions/sub/x/virtualMachines/vm-a", "name": "vm-a" });
    let size = json!({ "resourceType": "virtualMachines", "name": "Standard_B1ls",
                       "capabilities": [{ "name": "MemoryGB", "value": "0.5" }] });
    let server = Loopback::start([
        Reply::json(json!({ "value": [machine] })),
        Reply::json(
            json!({ "value": [{ "id": "/s/virtualMachineScaleSets/one/virtualMachines/7", "instanceId": "7" }] }),
        ),
        Reply::json(json!({ "value": [size, { "resourceType": "disks", "name": "Premium_LRS" }] })),
        Reply::json(json!({ "value": [{ "name": "vm-b" }, { "id": "" }, { "id": "/s/virtualMachines/8" }] })),
    ])
    .await;
    let arm = server.arm();
    let flexible = arm.list_flexible_machines("/subscriptions/sub/sets/one", VIEW).await.expect("machines");
    assert_eq!(flexible.machines[0].delete_by, "vm-a");
    assert_eq!(arm.list_uniform_machines("one", VIEW).await.expect("machines").machines[0].delete_by, "7");
    let sizes = arm.list_sizes("west us").await.expect("sizes");
    assert_eq!((sizes.len(), sizes[0].capabilities["MemoryGB"].as_str()), (1, "0.5"));
    let plain = MachineQuery { with_view: false, ..VIEW };
    let nameless = arm.list_uniform_machines("one", plain).await.expect("the rest of the list");
    assert_eq!((nameless.machines.len(), nameless.without_id), (1, 2), "counted, but left out");
    let received: Vec<_> = server.received().into_iter().map(|received| received.target).collect();
    let machines = SETS.replace("virtualMachineScaleSets", "virtualMachines");
    let filter = "%27virtualMachineScaleSet%2Fid%27%20eq%20%27%2Fsubscriptions%2Fsub%2Fsets%2Fone%27";
    assert_eq!(received[0], format!("{machines}?api-version=2024-07-01&%24filter={filter}&%24expand=instanceView"));
    assert_eq!(received[1], format!("{SETS}/one/virtualMachines?api-version=2024-07-01&%24expand=instanceView"));
    assert_eq!(
        received[2],
        "/subscriptions/sub/providers/Microsoft.Compute/skus?api-version=2021-07-01&%24filter=location%20eq%20%27west%20us%27"
    );
    assert_eq!(received[3], format!("{SETS}/one/virtualMachines?api-version=2024-07-01"));
}

#[tokio::test]
async fn a_write_to_a_closed_port_was_not_sent() {
    let server = Loopback::start([]).await;
    let settings = server.settings();
    drop(server);
    let arm = ArmScaleSets::connect(&settings, CallMeter::default()).expect("settings");
    let error = arm.set_capacity("one", Some("1"), 1).await.expect_err("nothing listens there");
    assert!(matches!(error, CloudError::NotSent(_)), "{error}");
}

#[tokio::test]
async fn autoscale_settings_are_read_from_all_pages_and_invalid_ones_skipped() {
    const PATH: &str = "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Insights/autoscalesettings";
    let setting = |name: &str, properties: Value| json!({ "name": name, "properties": properties });
    let next = format!("{{base}}{PATH}?api-version=2022-10-01&page=2");
    let server = Loopback::start([
        Reply::json(json!({ "value": [setting("one", json!({ "targetResourceUri": "/a", "enabled": false })),
                                      setting("odd", json!({}))], "nextLink": next })),
        Reply::json(json!({ "value": [setting("two", json!({ "targetResourceUri": "/b", "profiles": [] }))] })),
    ])
    .await;
    let settings = server.arm().list_autoscale_settings().await.expect("a list");
    let of = |name: &str, target: &str, enabled| AutoscaleSetting { name: name.into(), target: target.into(), enabled };
    assert_eq!(settings, [of("one", "/a", false), of("two", "/b", true)]);
    let received: Vec<_> = server.received().into_iter().map(|received| received.target).collect();
    assert_eq!(
        received,
        ["?api-version=2022-10-01", "?api-version=2022-10-01&page=2"].map(|query| format!("{PATH}{query}"))
    );
}

#[test]
fn a_list_has_a_limit_on_its_items() {
    let context = ErrorContext { operation: operations::LIST_USAGES, name: "westus" };
    assert!(check_number(context, AZURE_LIST_ITEMS_MAX).is_ok());
    let error = check_number(context, AZURE_LIST_ITEMS_MAX + 1).expect_err("one too many");
    assert!(error.to_string().contains("more than 100000 items"), "{error}");
}
