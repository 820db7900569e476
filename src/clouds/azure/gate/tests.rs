use hyper::{HeaderMap, StatusCode};
use serde_json::json;
use std::time::SystemTime;

use super::super::ledger::{PAUSE_UNTOLD, REFILL};
use super::super::transport::Answer;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn notice(status: u16, headers: &[(&'static str, &str)], body: &serde_json::Value) -> Notice {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().expect("a value"));
    }
    let status = StatusCode::from_u16(status).expect("a status");
    Notice::read(&Answer { status, headers: map, body: body.to_string().into() }, SystemTime::now())
}

fn refusal(headers: &[(&'static str, &str)], policy: Option<&str>) -> Notice {
    let detail = json!({ "code": "TooManyRequests", "target": policy, "message": "{}" });
    notice(429, headers, &json!({ "error": { "code": "OperationNotAllowed", "message": "no", "details": [detail] } }))
}

fn left(headers: &[(&'static str, &str)]) -> Notice {
    notice(200, headers, &json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_refusal_closes_its_budget_until_its_time_has_passed() {
    let gate = Gate::default();
    gate.record(Bucket::MachineList, "one", refusal(&[("retry-after", "120")], None));
    assert_eq!(gate.admit(Bucket::MachineList, "one"), Err(120 * SECOND));
    assert_eq!(gate.admit(Bucket::MachineList, "two"), Err(120 * SECOND), "the budget is everybody's");
    assert_eq!(gate.admit(Bucket::Update, "one"), Ok(()), "another budget");
    tokio::time::advance(119 * SECOND).await;
    assert_eq!(gate.admit(Bucket::MachineList, "one"), Err(SECOND));
    tokio::time::advance(SECOND).await;
    assert_eq!(gate.admit(Bucket::MachineList, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_later_refusal_never_opens_earlier() {
    let gate = Gate::default();
    gate.record(Bucket::Update, "one", refusal(&[("retry-after", "100")], None));
    gate.record(Bucket::Update, "one", refusal(&[("retry-after", "1")], None));
    assert_eq!(gate.admit(Bucket::Update, "one"), Err(100 * SECOND));
    gate.record(Bucket::Delete, "one", refusal(&[], None));
    assert_eq!(gate.admit(Bucket::Delete, "one"), Err(PAUSE_UNTOLD));
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_each_set_closes_that_set_alone() {
    let gate = Gate::default();
    gate.record(Bucket::Update, "one", refusal(&[("retry-after", "15")], Some("UpdateVMScaleSetResource")));
    assert_eq!(gate.admit(Bucket::Update, "one"), Err(15 * SECOND));
    assert_eq!(gate.admit(Bucket::Update, "two"), Ok(()));
    assert_eq!(gate.admit(Bucket::SetGet, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_policy_closes_all_calls_that_are_charged_to_it() {
    let gate = Gate::default();
    let shared = [("x-ms-ratelimit-remaining-resource", "Microsoft.Compute/HighCostGet30Min;700")];
    gate.record(Bucket::SetList, "rg", left(&shared));
    gate.record(
        Bucket::SetGet,
        "one",
        left(&[("x-ms-ratelimit-remaining-resource", "Microsoft.Compute/LowCostGet;9")]),
    );
    gate.record(Bucket::MachineList, "one", refusal(&[("retry-after", "60")], Some("HighCostGet30Min")));
    assert_eq!(gate.admit(Bucket::SetList, "rg"), Err(60 * SECOND));
    assert_eq!(gate.admit(Bucket::SetGet, "one"), Ok(()));
    let closed: Vec<_> = gate.remaining().into_iter().filter(|budget| budget.closed_for.is_some()).collect();
    let shown: Vec<_> = closed.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["HighCostGet30Min: 700 of 700, closed for 60 s", "lists of machines, closed for 60 s"]);
}

#[tokio::test(start_paused = true)]
async fn resource_manager_itself_closes_all_reads_or_all_writes() {
    let gate = Gate::default();
    let refused = notice(429, &[("retry-after", "9"), ("x-ms-failure-cause", "gateway")], &json!({}));
    gate.record(Bucket::Poll, "op", refused);
    assert_eq!(gate.admit(Bucket::SetGet, "one"), Err(9 * SECOND));
    assert_eq!(gate.admit(Bucket::Delete, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_last_of_a_budget_is_kept_for_writes() {
    let gate = Gate::default();
    let reads = |left| [("x-ms-ratelimit-remaining-subscription-reads", left)];
    gate.record(Bucket::MachineList, "one", left(&reads("250")));
    gate.record(Bucket::SetGet, "one", left(&reads("24")));
    assert_eq!(gate.admit(Bucket::MachineList, "one"), Err(REFILL));
    assert_eq!(gate.admit(Bucket::SetGet, "one"), Ok(()), "every write reads first");
    assert_eq!(gate.admit(Bucket::SetList, "rg"), Ok(()));
    tokio::time::advance(REFILL).await;
    assert_eq!(gate.admit(Bucket::MachineList, "one"), Ok(()), "what was said a minute ago is worth nothing");
    gate.record(Bucket::MachineList, "one", left(&reads("25")));
    assert_eq!(gate.admit(Bucket::MachineList, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn small_budgets_of_single_sets_do_not_hold_up_others() {
    let gate = Gate::default();
    let header = "x-ms-ratelimit-remaining-resource";
    gate.record(
        Bucket::MachineList,
        "one",
        left(&[(header, "Microsoft.Compute/GetVMScaleSetResource;1, Microsoft.Compute/All;-3")]),
    );
    let budgets = gate.remaining();
    let shown = |budget: &Budget| (budget.name.clone(), budget.group.clone(), budget.remaining);
    assert_eq!(
        budgets.iter().map(shown).collect::<Vec<_>>(),
        [("All".to_owned(), None, 0), ("GetVMScaleSetResource".to_owned(), Some("one".to_owned()), 1)]
    );
    gate.record(Bucket::MachineList, "one", left(&[(header, "Microsoft.Compute/All;30")]));
    assert_eq!(gate.admit(Bucket::MachineList, "one"), Err(REFILL));
    assert_eq!(gate.admit(Bucket::MachineList, "two"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_says_when_it_is_back_is_believed() {
    let gate = Gate::default();
    gate.record(Bucket::SetList, "rg", notice(503, &[("retry-after", "5")], &json!({})));
    assert_eq!(gate.admit(Bucket::SetList, "rg"), Err(5 * SECOND));
    gate.record(Bucket::SetGet, "one", notice(503, &[], &json!({})));
    assert_eq!(gate.admit(Bucket::SetGet, "one"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn subscriptions_and_locations_have_gates_of_their_own() {
    let one = Gate::shared("https://test.invalid/", "sub", "westus");
    one.record(Bucket::SetList, "rg", refusal(&[("retry-after", "9")], None));
    let same = Gate::shared("https://test.invalid/", "SUB", "WestUS");
    assert_eq!(same.admit(Bucket::SetList, "other-rg"), Err(9 * SECOND));
    for (subscription, location) in [("other", "westus"), ("sub", "eastus")] {
        let other = Gate::shared("https://test.invalid/", subscription, location);
        assert_eq!(other.admit(Bucket::SetList, "rg"), Ok(()), "{subscription} {location}");
    }
}
