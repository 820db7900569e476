//! Shapes of real responses, taken from public recordings of calls to Azure Resource Manager (2017 to 2026). Names and
//! IDs are replaced.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use azure_core::http::Url;
use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::api::{ScaleSet, VirtualMachine};
use super::client::ArmClient;
use super::decode::{self, RawMachine, RawSet};
use super::errors::{ErrorContext, classify};
use super::{lro, operations};
use crate::cloud::{CloudError, OperationHandle, Progress};
use crate::clouds::azure::http::{HttpResponse, Transport};
use crate::clouds::azure::throttle::{CallLimiter, ThrottleInfo};

const CONTEXT: ErrorContext<'_> = ErrorContext { operation: operations::UPDATE_SCALE_SET, name: "one" };

fn response(status: u16, headers: &[(&'static str, &str)], body: &Value) -> HttpResponse {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().expect("a value"));
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    HttpResponse { status: StatusCode::from_u16(status).expect("a status"), headers: map, body: body.into() }
}

fn error(code: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}

#[test]
fn an_etag_is_a_counter_with_its_quotes() {
    let item = json!({
        "name": "one", "location": "westus2", "etag": "\"5\"", "sku": {"name": "Standard_D2s_v5", "capacity": 3},
        "id": "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/one",
        "properties": {"provisioningState": "Succeeded", "orchestrationMode": "Uniform", "overprovision": true,
                       "timeCreated": "2024-05-14T08:57:51.713142+00:00"},
    });
    let set: ScaleSet = decode::item::<_, RawSet>(item).expect("a scale set");
    assert_eq!((set.etag.as_deref(), set.overprovision), (Some("\"5\""), true));
}

#[test]
fn a_machine_has_the_etag_of_its_set_and_a_time_of_six_or_seven_decimals() {
    for created in ["2024-05-14T08:57:51.713142+00:00", "2024-05-14T08:57:51.7131426+00:00"] {
        let item = json!({
            "name": "one_0", "instanceId": "0", "etag": "\"5\"",
            "id": "/subscriptions/s/resourceGroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/one/virtualMachines/0",
            "properties": {"provisioningState": "Succeeded", "timeCreated": created},
        });
        let machine: VirtualMachine = decode::item::<_, RawMachine>(item).expect("a machine");
        let created = machine.created.and_then(|created| created.duration_since(SystemTime::UNIX_EPOCH).ok());
        assert_eq!(created.map(|created| created.as_secs()), Some(1_715_677_071));
        assert_eq!((machine.delete_by.as_str(), machine.statuses), ("0", None));
    }
}

#[test]
fn an_accepted_write_is_polled_at_its_first_long_address() {
    let transport = Arc::new(Transport::plain().expect("a transport"));
    let endpoint = Url::parse("http://arm.invalid").expect("an address");
    let client = ArmClient::new(transport, endpoint, None, Arc::new(CallLimiter::default()));
    let signed = format!("t=638&c={}&s=x&h=y", "MIIH".repeat(1_000));
    let operation =
        format!("http://arm.invalid/subscriptions/s/providers/Microsoft.Compute/locations/l/operations/o?p=1&{signed}");
    let monitor = format!("{operation}&monitor=true");
    let headers = [("azure-asyncoperation", operation.as_str()), ("location", monitor.as_str())];
    for status in [200, 202] {
        let accepted = response(status, &headers, &Value::Null);
        let handle = lro::handle(&client, CONTEXT, &accepted, None).expect("a handle");
        assert_eq!(handle.0, format!("async {operation}"));
    }
}

#[test]
fn an_operation_ends_in_a_200_whatever_its_outcome() {
    let now = SystemTime::now();
    let progress = |handle: &str, polled: HttpResponse| {
        let (method, _) = lro::parse(&OperationHandle(format!("{handle} http://arm.invalid/o"))).expect("a handle");
        lro::progress(method, CONTEXT, Ok(polled), now).expect("a state")
    };
    let running =
        response(200, &[], &json!({"status": "InProgress", "startTime": "2024-05-14T08:57:51.7131426+00:00"}));
    assert_eq!(progress("async", running), Progress::Running { ask_after: None });
    assert_eq!(progress("async", response(200, &[], &json!({"status": "Succeeded"}))), Progress::Succeeded);
    let failed = json!({"status": "Failed", "error": {"code": "AllocationFailed", "message": "no capacity"}});
    let Progress::Failed(failure) = progress("async", response(200, &[], &failed)) else { panic!("failed") };
    assert_eq!(failure.code, "AllocationFailed");
    assert_eq!(progress("location", response(200, &[], &Value::Null)), Progress::Succeeded);
}

#[test]
fn refusals_are_classified_by_their_recorded_bodies() {
    let kind = |error: &CloudError| error.to_string().split(": ").next().unwrap_or_default().to_owned();
    let precondition = error(
        "PreconditionFailed",
        "Etag provided in if-match header \"4\" does not match etag \"5\" of resource /subscriptions/s/one",
    );
    assert_eq!(kind(&classify(CONTEXT, &response(412, &[], &precondition))), "conflict");
    let unknown = json!({"error": {"code": "InvalidParameter", "target": "instanceIds", "message":
        "The provided instanceId 7 is not an active Virtual Machine Scale Set VM instanceId."}});
    assert_eq!(kind(&classify(CONTEXT, &response(400, &[], &unknown))), "not found");
    for code in ["ResourceNotFound", "ResourceGroupNotFound"] {
        let gateway = [("x-ms-failure-cause", "gateway")];
        assert_eq!(kind(&classify(CONTEXT, &response(404, &gateway, &error(code, "was not found")))), "not found");
    }
    let denied = error(
        "AuthorizationFailed",
        "The client '11111111-1111-1111-1111-111111111111' with object id '11111111-1111-1111-1111-111111111111' does not have \
         authorization to perform action 'Microsoft.Compute/locations/operations/read' over scope '/subscriptions/s'",
    );
    let denied = classify(CONTEXT, &response(403, &[], &denied)).to_string();
    assert!(denied.contains("no permission for Microsoft.Compute/locations/operations/read"), "{denied}");
}

#[test]
fn headers_of_a_success_name_several_budgets() {
    let headers = [
        (
            "x-ms-ratelimit-remaining-resource",
            "Microsoft.Compute/VMScaleSetActions3Min;237,Microsoft.Compute/VMScaleSetActionsSubscriptionMaximum;1499,Microsoft.Compute/VmssQueuedVMOperations;0",
        ),
        ("x-ms-ratelimit-remaining-subscription-global-writes", "2999"),
    ];
    let info = ThrottleInfo::read(&response(202, &headers, &Value::Null), SystemTime::now());
    let remaining: Vec<_> = info.remaining.iter().map(|(name, left)| (name.as_str(), *left)).collect();
    let expected = [
        ("VMScaleSetActions3Min", 237),
        ("VMScaleSetActionsSubscriptionMaximum", 1_499),
        ("subscription-global-writes", 2_999),
    ];
    assert_eq!((remaining, info.pause), (expected.to_vec(), None));
}

#[test]
fn a_429_names_its_policy_only_sometimes() {
    let now = SystemTime::now();
    let named = json!({"error": {"code": "OperationNotAllowed", "message": "too many requests", "details": [
        {"code": "TooManyRequests", "target": "HighCostGetVMScaleSetSubscriptionMaximum", "message": "{}"}]}});
    let pause = ThrottleInfo::read(&response(429, &[("retry-after", "10")], &named), now).pause.expect("a pause");
    assert_eq!(pause.policy.as_deref(), Some("HighCostGetVMScaleSetSubscriptionMaximum"));
    assert_eq!(pause.wait, Some(Duration::from_secs(10)));
    let bare =
        ThrottleInfo::read(&response(429, &[], &error("TooManyRequests", "slow down")), now).pause.expect("a pause");
    assert_eq!((bare.policy, bare.wait), (None, None));
}
