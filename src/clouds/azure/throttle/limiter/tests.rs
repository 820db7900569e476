use hyper::{HeaderMap, StatusCode};
use serde_json::json;
use std::time::SystemTime;

use super::super::call_budgets::{DEFAULT_PAUSE, REFILL};
use super::*;
use crate::clouds::azure::http::HttpResponse;

const SECOND: Duration = Duration::from_secs(1);

fn info(status: u16, headers: &[(&'static str, &str)], body: &serde_json::Value) -> ThrottleInfo {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().expect("a value"));
    }
    let status = StatusCode::from_u16(status).expect("a status");
    ThrottleInfo::read(&HttpResponse { status, headers: map, body: body.to_string().into() }, SystemTime::now())
}

fn refusal(headers: &[(&'static str, &str)], policy: Option<&str>) -> ThrottleInfo {
    let detail = json!({ "code": "TooManyRequests", "target": policy, "message": "{}" });
    info(429, headers, &json!({ "error": { "code": "OperationNotAllowed", "message": "no", "details": [detail] } }))
}

impl CallLimiter {
    fn admit(&self, bucket: Bucket, target: &str) -> Result<(), Duration> {
        self.admit_call(bucket, target, bucket.can_wait())
    }
}

fn left(headers: &[(&'static str, &str)]) -> ThrottleInfo {
    info(200, headers, &json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_refusal_suspends_its_budget_until_its_time_has_passed() {
    let limiter = CallLimiter::default();
    limiter.record(Bucket::MachineList, "one", refusal(&[("retry-after", "120")], None));
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Err(120 * SECOND));
    assert_eq!(limiter.admit(Bucket::MachineList, "two"), Err(120 * SECOND), "the budget is shared by all sets");
    assert_eq!(limiter.admit(Bucket::Update, "one"), Ok(()), "another budget");
    tokio::time::advance(119 * SECOND).await;
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Err(SECOND));
    tokio::time::advance(SECOND).await;
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_later_refusal_never_shortens_a_suspension() {
    let limiter = CallLimiter::default();
    limiter.record(Bucket::Update, "one", refusal(&[("retry-after", "100")], None));
    limiter.record(Bucket::Update, "one", refusal(&[("retry-after", "1")], None));
    assert_eq!(limiter.admit(Bucket::Update, "one"), Err(100 * SECOND));
    limiter.record(Bucket::Delete, "one", refusal(&[], None));
    assert_eq!(limiter.admit(Bucket::Delete, "one"), Err(DEFAULT_PAUSE));
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_one_set_suspends_that_set_alone() {
    let limiter = CallLimiter::default();
    limiter.record(Bucket::Update, "one", refusal(&[("retry-after", "15")], Some("UpdateVMScaleSetResource")));
    assert_eq!(limiter.admit(Bucket::Update, "one"), Err(15 * SECOND));
    assert_eq!(limiter.admit(Bucket::Update, "two"), Ok(()));
    assert_eq!(limiter.admit(Bucket::SetGet, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_policy_suspends_all_calls_that_are_charged_to_it() {
    let limiter = CallLimiter::default();
    let shared = [("x-ms-ratelimit-remaining-resource", "Microsoft.Compute/HighCostGet30Min;700")];
    limiter.record(Bucket::SetList, "rg", left(&shared));
    limiter.record(
        Bucket::SetGet,
        "one",
        left(&[("x-ms-ratelimit-remaining-resource", "Microsoft.Compute/LowCostGet;9")]),
    );
    limiter.record(Bucket::MachineList, "one", refusal(&[("retry-after", "60")], Some("HighCostGet30Min")));
    assert_eq!(limiter.admit(Bucket::SetList, "rg"), Err(60 * SECOND));
    assert_eq!(limiter.admit(Bucket::SetGet, "one"), Ok(()));
    let closed: Vec<_> = limiter.remaining().into_iter().filter(|budget| budget.closed_for.is_some()).collect();
    let shown: Vec<_> = closed.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["HighCostGet30Min: 700 of 700, closed for 60 s", "VM lists, closed for 60 s"]);
}

#[tokio::test(start_paused = true)]
async fn resource_manager_suspends_all_reads_or_all_writes() {
    let limiter = CallLimiter::default();
    let refused = info(429, &[("retry-after", "9"), ("x-ms-failure-cause", "gateway")], &json!({}));
    limiter.record(Bucket::Poll, "op", refused);
    assert_eq!(limiter.admit(Bucket::SetGet, "one"), Err(9 * SECOND));
    assert_eq!(limiter.admit(Bucket::Delete, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_last_of_a_budget_is_kept_for_writes() {
    let limiter = CallLimiter::default();
    let reads = |left| [("x-ms-ratelimit-remaining-subscription-reads", left)];
    limiter.record(Bucket::MachineList, "one", left(&reads("250")));
    limiter.record(Bucket::SetGet, "one", left(&reads("24")));
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Err(REFILL));
    assert_eq!(limiter.admit_call(Bucket::SetGet, "one", false), Ok(()), "a read for a write");
    assert_eq!(limiter.admit(Bucket::SetList, "rg"), Ok(()));
    tokio::time::advance(REFILL).await;
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Ok(()), "a level from a minute ago is outdated");
    limiter.record(Bucket::MachineList, "one", left(&reads("25")));
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn small_budgets_of_single_sets_do_not_delay_others() {
    let limiter = CallLimiter::default();
    let header = "x-ms-ratelimit-remaining-resource";
    limiter.record(
        Bucket::MachineList,
        "one",
        left(&[(header, "Microsoft.Compute/GetVMScaleSetResource;1, Microsoft.Compute/All;-3")]),
    );
    let budgets = limiter.remaining();
    let shown = |budget: &Budget| (budget.name.clone(), budget.group.clone(), budget.remaining);
    assert_eq!(
        budgets.iter().map(shown).collect::<Vec<_>>(),
        [("All".to_owned(), None, 0), ("GetVMScaleSetResource".to_owned(), Some("one".to_owned()), 1)]
    );
    limiter.record(Bucket::MachineList, "one", left(&[(header, "Microsoft.Compute/All;30")]));
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Err(REFILL));
    assert_eq!(limiter.admit(Bucket::MachineList, "two"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_503_with_retry_after_suspends_calls() {
    let limiter = CallLimiter::default();
    limiter.record(Bucket::SetList, "rg", info(503, &[("retry-after", "5")], &json!({})));
    assert_eq!(limiter.admit(Bucket::SetList, "rg"), Err(5 * SECOND));
    limiter.record(Bucket::SetGet, "one", info(503, &[], &json!({})));
    assert_eq!(limiter.admit(Bucket::SetGet, "one"), Ok(()));
    limiter.record(Bucket::SetGet, "two", info(503, &[("retry-after", "86400")], &json!({})));
    assert_eq!(limiter.admit(Bucket::SetGet, "two"), Err(60 * SECOND), "a gateway may name any time");
}

#[tokio::test(start_paused = true)]
async fn a_throttled_write_that_names_no_policy_suspends_no_write_to_another_scale_set() {
    let limiter = CallLimiter::default();
    for write in [Bucket::Update, Bucket::Delete, Bucket::SetGet] {
        limiter.record(write, "one", refusal(&[("retry-after", "60")], None));
        assert_eq!((limiter.admit(write, "one"), limiter.admit(write, "two")), (Err(60 * SECOND), Ok(())), "{write}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_set_has_one_budget_however_its_name_is_spelled() {
    let limiter = CallLimiter::default();
    limiter.record(Bucket::SetGet, "Pool", info(503, &[("retry-after", "60")], &json!({})));
    assert_eq!(limiter.admit(Bucket::SetGet, "pool"), Err(60 * SECOND));
    assert_eq!(limiter.closed_for(Bucket::SetGet, "POOL"), Some(60 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_503_for_one_scale_set_suspends_no_call_for_another() {
    let limiter = CallLimiter::default();
    let gateway = info(503, &[("retry-after", "60"), ("x-ms-failure-cause", "gateway")], &json!({}));
    limiter.record(Bucket::MachineList, "one", gateway);
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Err(60 * SECOND));
    assert_eq!(limiter.admit(Bucket::MachineList, "two"), Ok(()));
    assert_eq!(limiter.admit(Bucket::SetGet, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn each_subscription_and_location_has_its_own_limiter() {
    let one = CallLimiter::shared("https://test.invalid/", "sub", "westus");
    one.record(Bucket::SetList, "rg", refusal(&[("retry-after", "9")], None));
    for location in ["WestUS", "West US"] {
        let same = CallLimiter::shared("https://test.invalid/", "SUB", location);
        assert_eq!(same.admit(Bucket::SetList, "other-rg"), Err(9 * SECOND), "{location}");
    }
    for (subscription, location) in [("other", "westus"), ("sub", "eastus")] {
        let other = CallLimiter::shared("https://test.invalid/", subscription, location);
        assert_eq!(other.admit(Bucket::SetList, "rg"), Ok(()), "{subscription} {location}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_low_budget_refuses_no_read_that_a_write_needs() {
    let limiter = CallLimiter::default();
    let header = "x-ms-ratelimit-remaining-resource";
    for remaining in ["900", "80"] {
        let policies = format!("Microsoft.Compute/HighCostGetVMScaleSet3Min;{remaining}");
        limiter.record(Bucket::MachineList, "one", left(&[(header, &policies)]));
        limiter.record(Bucket::SetGet, "one", left(&[(header, &policies)]));
    }
    assert_eq!(limiter.admit_call(Bucket::MachineList, "one", true), Err(REFILL), "a listing waits");
    assert_eq!(limiter.admit(Bucket::SetGet, "one"), Err(REFILL), "and so does the capacity of a spot scale set");
    for bucket in [Bucket::MachineList, Bucket::SetGet] {
        assert_eq!(limiter.admit_call(bucket, "one", false), Ok(()), "a read for a write does not");
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_machine_list_suspends_no_other_call() {
    for policy in [None, Some("HighCostGetVMScaleSet30Min"), Some("GetVMScaleSetResource")] {
        let limiter = CallLimiter::default();
        limiter.record(Bucket::MachineList, "one", refusal(&[("retry-after", "1800")], policy));
        assert_eq!(limiter.admit_call(Bucket::MachineList, "one", false), Err(1800 * SECOND));
        for bucket in [Bucket::SetList, Bucket::SetGet, Bucket::Update, Bucket::Delete, Bucket::Poll] {
            assert_eq!(limiter.admit(bucket, "one"), Ok(()), "{bucket} {policy:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn budgets_of_the_subscription_are_known_by_both_names() {
    let limiter = CallLimiter::default();
    let reads = |left| [("x-ms-ratelimit-remaining-subscription-global-reads", left)];
    limiter.record(Bucket::MachineList, "one", left(&reads("16499")));
    limiter.record(Bucket::MachineList, "one", left(&reads("1000")));
    assert_eq!(limiter.admit(Bucket::MachineList, "one"), Err(REFILL));
    let spent = [("x-ms-ratelimit-remaining-subscription-global-writes", "0"), ("retry-after", "7")];
    limiter.record(Bucket::Update, "one", info(429, &spent, &json!({})));
    assert_eq!(limiter.admit(Bucket::Delete, "two"), Err(7 * SECOND), "all writes of the subscription");
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_not_an_exhausted_budget() {
    let limiter = CallLimiter::default();
    let policies = |queued: u32| {
        format!("Microsoft.Compute/DeleteVMScaleSetResource;11,Microsoft.Compute/VmssQueuedVMOperations;{queued}")
    };
    for queued in [4800, 0] {
        limiter.record(Bucket::Delete, "one", left(&[("x-ms-ratelimit-remaining-resource", &policies(queued))]));
    }
    let queued = limiter.remaining().into_iter().find(|budget| budget.name == "VmssQueuedVMOperations");
    assert_eq!(queued.map(|budget| budget.remaining), Some(4800), "0 says nothing");
    let policies = "Microsoft.Compute/VmssQueuedVMOperations;0,Microsoft.Compute/DeleteVMScaleSetResource;0";
    let spent = [("x-ms-ratelimit-remaining-resource", policies), ("retry-after", "30")];
    limiter.record(Bucket::Delete, "one", info(429, &spent, &json!({})));
    assert_eq!(limiter.admit(Bucket::Delete, "one"), Err(30 * SECOND));
    assert_eq!(limiter.admit(Bucket::Delete, "two"), Ok(()), "the other budget is that of one set");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_other_clients_keep_low_does_not_hold_back_a_set_without_end() {
    let limiter = CallLimiter::default();
    let reads = |left| [("x-ms-ratelimit-remaining-subscription-reads", left)];
    limiter.record(Bucket::MachineList, "one", left(&reads("250")));
    for admitted in [false, false, false, true, false] {
        limiter.record(Bucket::SetList, "rg", left(&reads("10")));
        assert_eq!(limiter.admit(Bucket::MachineList, "one").is_ok(), admitted);
        tokio::time::advance(REFILL / 3).await;
    }
}
