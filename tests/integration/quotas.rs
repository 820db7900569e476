//! Quotas of an Azure subscription: the real binary over the ARM emulator, which lists their usage and refuses what
//! exceeds them.

use std::sync::Arc;

use headcount::cloud::Family;
use headcount::clouds::simulated::{GroupPlan, Simulated};
use tonic::Code;

use crate::commands::texts;
use crate::emulators::Emulator;
use crate::emulators::arm::{Arm, denied};
use crate::emulators::setup::Setup;
use crate::peers::headcount::{Client, eventually, run};

/// Sizes of 4 vCPUs, of two families.
const D4: &str = "Standard_D4s_v5";
const E8: &str = "Standard_E8-4ds_v5";

/// `web` with one VM and `more`, of the same family, and `other` of another one. The family of the first two has room
/// for three more VMs.
fn arm() -> Arm {
    let pool = |name: &str, size: &str, running| GroupPlan::azure(name).instance_types(&[size]).sized(0, 10, running);
    let plans = [pool("web", D4, 1), pool("more", D4, 0), pool("other", E8, 0)];
    let arm = Arm::start(Arc::new(Simulated::with_groups(5, plans).of_family(Family::Azure)));
    let quotas = [("standardDSv5Family", 16), ("standardEDSv5Family", 400), ("cores", 500), ("lowPriorityCores", 8)];
    arm.behavior(|behavior| behavior.quotas = quotas.map(|(name, limit)| (name.to_owned(), limit)).into());
    arm
}

async fn max_of(client: &mut Client, id: &str) -> i32 {
    client.node_groups().await.into_iter().find(|group| group.id == id).expect(id).max_size
}

async fn until_max(client: &mut Client, id: &str, max: i32) {
    client.until(&format!("the maximum of {id} is {max}"), async |client| max_of(client, id).await == max).await;
}

fn patches(arm: &Arm) -> usize {
    arm.requests().iter().filter(|request| request.method == "PATCH").count()
}

#[tokio::test]
async fn a_group_is_offered_up_to_what_the_quota_of_its_family_leaves() {
    let mut setup = Setup::open(arm()).await;
    until_max(&mut setup.client, "web", 4).await;
    assert_eq!((max_of(&mut setup.client, "more").await, max_of(&mut setup.client, "other").await), (3, 10));
    let refused = setup.client.increase("web", 4).await.expect_err("more than the quota leaves");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let why = "the quota standarddsv5family in eastus has 4 of 16 vCPUs used and leaves room for 3 nodes, not for 4";
    assert!(refused.message().contains(why), "{refused}");
    assert_eq!(patches(&setup.emulator), 0, "no launch is tried that must fail");

    setup.client.increase("more", 2).await.expect("there is room");
    assert_eq!(max_of(&mut setup.client, "web").await, 2, "what one group takes, the other one no longer has");
    assert_eq!(max_of(&mut setup.client, "more").await, 3);
    setup.client.increase("web", 2).await.expect_err("one is left");
    setup.client.increase("web", 1).await.expect("the last one");
    assert_eq!(
        (max_of(&mut setup.client, "web").await, max_of(&mut setup.client, "more").await),
        (2, 2),
        "the targets"
    );
    setup.client.increase("other", 5).await.expect("another family");

    let page = setup.server().probe("/statusz?format=json");
    let reason = "the quota standarddsv5family in eastus has 16 of 16 vCPUs used; its own maximum is 10";
    assert!(page.contains(reason), "{page}");
    let metrics = setup.server().probe("/metrics");
    for (series, value) in [("quota_headroom", 0), ("max_size", 2), ("target_size", 2)] {
        let sample = format!("headcount_node_group_{series}{{node_group=\"web\",source=\"here\"}} {value}");
        assert!(metrics.contains(&sample), "{sample} in {metrics}");
    }
    setup.server().logged("a quota of the account leaves the node group less room than its maximum");
}

#[tokio::test]
async fn spot_vms_count_against_their_own_quota() {
    let arm = arm();
    arm.group_details("more", |details| details.spot = true);
    let mut setup = Setup::open(arm).await;
    until_max(&mut setup.client, "more", 2).await;
    assert_eq!(max_of(&mut setup.client, "web").await, 4);
}

#[tokio::test]
async fn vms_in_reserved_capacity_need_no_quota() {
    let arm = arm();
    arm.group_details("more", |details| details.reserved = true);
    let mut setup = Setup::open(arm).await;
    until_max(&mut setup.client, "web", 4).await;
    assert_eq!(max_of(&mut setup.client, "more").await, 10, "the reservation has used it already");
    setup.client.increase("more", 5).await.expect("accepted");
}

#[tokio::test]
async fn vms_on_dedicated_hosts_need_no_quota() {
    let arm = arm();
    arm.group_details("more", |details| {
        let host_group = serde_json::json!({"id": "/subscriptions/s/hostGroups/h"});
        details.properties.insert("hostGroup".to_owned(), host_group);
    });
    let mut setup = Setup::open(arm).await;
    until_max(&mut setup.client, "web", 4).await;
    assert_eq!(max_of(&mut setup.client, "more").await, 10, "the hosts have used it already");
}

#[tokio::test]
async fn a_quota_that_is_below_what_runs_never_lowers_the_maximum_below_the_target() {
    let arm = arm();
    arm.behavior(|behavior| {
        behavior.quotas.insert("standardDSv5Family".to_owned(), 0);
    });
    let mut setup = Setup::open(arm).await;
    until_max(&mut setup.client, "web", 1).await;
    assert_eq!(max_of(&mut setup.client, "more").await, 0);
}

#[tokio::test]
async fn without_the_permission_and_on_request_groups_are_offered_up_to_their_own_maximum() {
    let arm = arm();
    arm.script("GET", "/usages", 99, denied("Microsoft.Compute/locations/usages/read"));
    let mut setup = Setup::open(arm).await;
    setup.server().logged("quotas of the account cannot be read");
    assert_eq!(max_of(&mut setup.client, "web").await, 10);
    setup.client.increase("web", 4).await.expect_err("Azure refuses it, as it would without Headcount");
    assert_eq!(patches(&setup.emulator), 1);

    let ignoring = |options: &mut crate::emulators::setup::SetupOptions| {
        options.more = "groups: [{match: web, quota: ignore}]".to_owned();
    };
    let mut setup = Setup::with(self::arm(), ignoring).await;
    until_max(&mut setup.client, "more", 3).await;
    assert_eq!(max_of(&mut setup.client, "web").await, 10);
}

#[tokio::test]
async fn the_quotas_are_read_again_after_azure_has_refused_vms_for_lack_of_one() {
    let arm = arm();
    let mut setup = Setup::open(arm).await;
    until_max(&mut setup.client, "other", 10).await;
    let usages = |arm: &Arm| arm.requests().iter().filter(|request| request.path.ends_with("/usages")).count();
    until_max(&mut setup.client, "web", 4).await;
    let before = usages(&setup.emulator);
    // Somebody else has used the quota up.
    setup.emulator.behavior(|behavior| {
        behavior.quotas.insert("standardDSv5Family".to_owned(), 4);
    });
    let refused = setup.client.increase("web", 1).await.expect_err("Azure refuses it");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    eventually("the quotas are read again", || usages(&setup.emulator) > before).await;
    until_max(&mut setup.client, "web", 1).await;
}

#[tokio::test]
async fn check_and_compare_name_the_quota() {
    let mut setup = Setup::open(arm()).await;
    until_max(&mut setup.client, "web", 4).await;
    let (table, _) = texts(&run(&["check", "--config", &setup.config()]));
    let line = table.lines().find(|line| line.contains("HC417") && line.contains(" web ")).expect("a finding");
    let what = "its maximum of 10 is 9 more than it has, but the quota standarddsv5family in eastus has 4 of 16 vCPUs \
                used and leaves room for 3";
    assert!(line.starts_with("warning") && line.contains(what), "{line}");
    assert!(!table.lines().any(|line| line.contains("HC417") && line.contains(" other ")), "{table}");
    let server = format!("http://{}", setup.server().admin());
    let (table, _) = texts(&run(&["compare", "--config", &setup.config(), "--server", &server]));
    assert!(table.contains("offered up to 4 nodes: the quota standarddsv5family in eastus"), "{table}");
    setup.emulator.script("GET", "/usages", 99, denied("Microsoft.Compute/locations/usages/read"));
    let (table, _) = texts(&run(&["check", "--config", &setup.config()]));
    assert!(
        table.contains("the quotas of the account cannot be read, so groups are offered up to their own maximum"),
        "{table}"
    );
}
