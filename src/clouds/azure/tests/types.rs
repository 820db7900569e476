//! VM sizes, launch specs and autoscale settings.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::*;
use crate::cloud::Quotas;
use crate::clouds::azure::arm::{AgentPool, AutoscaleSetting, Usage};

fn size(name: &str) -> Size {
    let capabilities = [("vCPUs", "4"), ("MemoryGB", "16")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    Size { name: name.to_owned(), capabilities: capabilities.into(), ..Size::default() }
}

async fn found(azure: &Azure, sizes: &[&str]) -> Vec<String> {
    let sizes: Vec<String> = sizes.iter().map(|name| (*name).to_owned()).collect();
    let found = azure.instance_types(&sizes).await.expect("looked up");
    found.into_iter().map(|size| size.name).collect()
}

async fn after(time: Duration) {
    tokio::time::advance(time).await;
}

#[tokio::test(start_paused = true)]
async fn sizes_are_looked_up_once_a_day_and_rarely_after_a_miss() {
    const MINUTE: Duration = Duration::from_secs(60);
    let fake = FakeApi::with(vec![set("pool", 1)]);
    fake.state(|state| state.sizes = vec![size("Standard_D4s_v3"), size("Standard_DS2_v2")]);
    let azure = fake.azure(named(&["pool"]));
    azure.list().await.expect("listed");
    assert_eq!(
        found(&azure, &["standard_d4S_v3", "Standard_New"]).await,
        ["standard_d4S_v3"],
        "under the requested \
    name"
    );
    assert_eq!(found(&azure, &["Standard_DS2_v2_Promo"]).await, ["Standard_DS2_v2_Promo"]);
    after(9 * MINUTE).await;
    assert!(found(&azure, &["Standard_New"]).await.is_empty());
    assert_eq!(fake.calls("sizes"), ["eastus"]);
    fake.state(|state| state.sizes.push(size("Standard_New")));
    after(2 * MINUTE).await;
    assert_eq!(found(&azure, &["Standard_New"]).await, ["Standard_New"]);
    after(23 * 60 * MINUTE).await;
    assert_eq!(azure.all_instance_types().await.expect("looked up").len(), 3);
    assert_eq!(fake.calls("sizes").len(), 2);
    after(2 * 60 * MINUTE).await;
    fake.fail("sizes", CloudError::Unreachable(fault("", "reset")));
    assert_eq!(found(&azure, &["Standard_New"]).await, ["Standard_New"], "the old list is used");
    assert_eq!(fake.calls("sizes").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn sizes_that_cannot_be_looked_up_are_requested_again_only_after_a_pause() {
    let fake = FakeApi::default();
    fake.state(|state| state.sizes = vec![size("A")]);
    let azure = fake.azure(Settings { location: Some("West US".to_owned()), ..settings() });
    fake.fail("sizes", CloudError::Denied(fault("AuthorizationFailed", "no")));
    assert!(matches!(azure.all_instance_types().await, Err(CloudError::Denied(_))));
    assert!(matches!(azure.all_instance_types().await, Err(CloudError::Unreachable(_))));
    assert_eq!(fake.calls("sizes"), ["westus"]);
    after(Duration::from_secs(61)).await;
    assert_eq!(azure.all_instance_types().await.expect("looked up").len(), 1);
}

#[tokio::test]
async fn without_a_configured_location_those_of_the_scale_sets_are_used() {
    let west = ScaleSet { location: "westus".to_owned(), ..set("west", 1) };
    let fake = FakeApi::with(vec![set("east", 1), west]);
    fake.state(|state| state.sizes = vec![size("A")]);
    let azure = fake.azure(settings());
    assert_eq!(azure.all_instance_types().await.expect("looked up").len(), 1);
    assert_eq!(fake.calls("sizes"), ["eastus", "westus"]);
    let nowhere = FakeApi::default().azure(settings()).all_instance_types().await;
    assert!(matches!(nowhere, Err(CloudError::Refused(_))), "{nowhere:?}");
}

fn in_the_west() -> ScaleSet {
    ScaleSet { location: "westus".to_owned(), ..set("west", 1) }
}

/// Of the two locations, the first one that is asked fails.
#[tokio::test]
async fn sizes_that_another_location_has_do_not_need_the_one_that_cannot_be_read() {
    let fake = FakeApi::with(vec![set("east", 1), in_the_west()]);
    fake.state(|state| state.sizes = vec![size("Standard_D4s_v3")]);
    let azure = fake.azure(settings());
    azure.list().await.expect("listed");
    fake.fail("sizes", CloudError::Unreachable(fault("", "reset")));
    assert_eq!(found(&azure, &["Standard_D4s_v3"]).await, ["Standard_D4s_v3"]);
    let names = ["Standard_D4s_v3".to_owned(), "Standard_New".to_owned()];
    let missing = azure.instance_types(&names).await;
    assert!(matches!(missing, Err(CloudError::Unreachable(_))), "the other location may have it: {missing:?}");
}

#[tokio::test]
async fn the_quotas_of_a_location_do_not_need_the_one_that_cannot_be_read() {
    let mixed = ScaleSet { spot: true, mixes_priorities: true, ..in_the_west() };
    let mixed = ScaleSet { name: "mixed".to_owned(), id: set("mixed", 1).id, ..mixed };
    let fake = FakeApi::with(vec![set("east", 1), in_the_west(), mixed]);
    let usage = |name: &str| Usage { name: name.to_owned(), used: 0, limit: 9 };
    fake.state(|state| {
        state.sizes = vec![Size { family: Some("family".to_owned()), ..size("Standard_D4s_v3") }];
        state.usages = vec![usage("family"), usage("cores"), usage("lowPriorityCores")];
    });
    let azure = fake.azure(named(&["east", "west", "mixed"]));
    azure.list().await.expect("listed");
    let limited = |quotas: &Quotas| quotas.groups.keys().map(|group| group.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(limited(&azure.quotas().await.expect("read")), ["east", "west"], "how many are spot VMs is not known");
    fake.fail("usages", CloudError::Unreachable(fault("", "reset")));
    assert_eq!(limited(&azure.quotas().await.expect("one was read")), ["west"]);
    for _ in 0..2 {
        fake.fail("usages", CloudError::Unreachable(fault("", "reset")));
    }
    assert!(matches!(azure.quotas().await, Err(CloudError::Unreachable(_))));
}

#[tokio::test]
async fn a_launch_spec_comes_from_the_last_read() {
    let fake = FakeApi::with(vec![set("pool", 1), ScaleSet { size: None, ..set("sizeless", 1) }]);
    let azure = fake.azure(named(&["pool", "sizeless"]));
    let reading = observed(&azure, "pool").await;
    fake.state(|state| state.calls.clear());
    let machine = azure.launch_spec(&reading).await.expect("described");
    assert_eq!((machine.types, machine.region.as_str()), (vec!["Standard_D4s_v3".to_owned()], "eastus"));
    assert!(fake.state(|state| state.calls.is_empty()));
    let sizeless = observed(&azure, "sizeless").await;
    assert!(
        matches!(azure.launch_spec(&sizeless).await, Err(CloudError::Refused(_))),
        "an error of one group does not affect the others"
    );
    fake.state(|state| state.sets.clear());
    for _ in 0..2 {
        assert!(azure.observe(&"pool".into()).await.expect("readable").is_none());
    }
    assert!(matches!(azure.launch_spec(&reading).await, Err(CloudError::NotFound(_))));
}

#[tokio::test]
async fn only_autoscale_settings_of_served_groups_are_reported() {
    let fake = FakeApi::with(vec![set("Pool", 1), set("other", 1)]);
    let of = |name: &str, target: String, enabled| AutoscaleSetting { name: name.to_owned(), target, enabled };
    let elsewhere = set("pool", 1).id.replace(super::fake::RESOURCE_GROUP, "elsewhere");
    fake.state(|state| {
        state.autoscale = vec![
            of("cpu", set("pool", 1).id.to_uppercase(), true),
            of("off", set("pool", 1).id, false),
            of("other", set("other", 1).id, true),
            of("elsewhere", elsewhere, true),
            of(
                "plan",
                "/subscriptions/Sub-1/resourceGroups/MC_Group/providers/Microsoft.Web/serverfarms/p".into(),
                true,
            ),
        ];
    });
    let azure = fake.azure(named(&["pool"]));
    azure.list().await.expect("listed");
    let settings = azure.adverse_settings().await;
    let [found] = &settings.found[..] else { panic!("one finding: {:?}", settings.found) };
    let effect = "its size is also set by the autoscale setting cpu; the Cluster Autoscaler sees targets";
    assert!(found.group.as_str() == "pool" && found.effect.starts_with(effect), "{found:?}");
    fake.fail("autoscale", CloudError::Denied(fault("AuthorizationFailed", "no")));
    let settings = azure.adverse_settings().await;
    assert!(settings.found.is_empty() && matches!(settings.unread[..], [CloudError::Denied(_)]));
}

/// A scale set of this pool of the cluster `prod`.
fn set_of_pool(name: &str, pool: &str) -> ScaleSet {
    let tags =
        [("aks-managed-poolName", pool), ("aks-managed-cluster-name", "prod"), ("aks-managed-cluster-rg", "apps")];
    ScaleSet { tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into(), ..set(name, 1) }
}

fn agent_pool(name: &str, taint: &str) -> AgentPool {
    let labels = [("team".to_owned(), name.to_owned())].into();
    AgentPool {
        name: name.to_owned(),
        labels,
        taints: vec![taint.to_owned()],
        max_pods: Some(40),
        ..AgentPool::default()
    }
}

/// Its size is in no API.
#[tokio::test]
async fn the_os_disk_of_a_pool_whose_kubelet_uses_the_temporary_disk_is_not_promised() {
    for is_on_temporary_disk in [true, false] {
        let fake = FakeApi::with(vec![ScaleSet { os_disk_gb: Some(128), ..set_of_pool("a", "one") }]);
        let pool = AgentPool { is_on_temporary_disk, ..agent_pool("one", "x=y:NoSchedule") };
        fake.state(|state| state.pools = vec![pool]);
        let azure = fake.azure(named(&["a"]));
        let spec = azure.launch_spec(&observed(&azure, "a").await).await.expect("a spec");
        assert_eq!(spec.ephemeral_storage_bytes.is_none(), is_on_temporary_disk);
    }
}

#[tokio::test(start_paused = true)]
async fn all_scale_sets_of_a_cluster_share_one_read_of_its_pools() {
    let fake = FakeApi::with(vec![set_of_pool("a", "one"), set_of_pool("b", "two"), set_of_pool("c", "three")]);
    fake.state(|state| state.pools = vec![agent_pool("one", "x=y:NoSchedule"), agent_pool("two", "x:NoExecute")]);
    let azure = fake.azure(named(&["a", "b", "c"]));
    let spec = async |name: &str| azure.launch_spec(&observed(&azure, name).await).await.expect("a spec");
    for (name, team, taint, pods) in
        [("a", Some("one"), Some("x=y"), Some(40)), ("b", Some("two"), Some("x="), Some(40)), ("c", None, None, None)]
    {
        let spec = spec(name).await;
        assert_eq!(spec.labels.get("team").map(String::as_str), team);
        let shown = spec.taints.first().map(|taint| format!("{}={}", taint.key, taint.value));
        assert_eq!((shown.as_deref(), spec.max_pods), (taint, pods), "{name}");
    }
    assert_eq!(fake.calls("pools"), ["apps/prod"]);
    fake.state(|state| state.pools = vec![agent_pool("one", "new:NoSchedule")]);
    after(Duration::from_secs(6 * 60 + 1)).await;
    fake.fail("pools", CloudError::Unreachable(fault("", "reset")));
    assert_eq!(spec("a").await.taints[0].key, "x", "the last list counts");
    after(Duration::from_secs(61)).await;
    assert_eq!(spec("a").await.taints[0].key, "new");
    assert_eq!(fake.calls("pools").len(), 3);
    fake.state(|state| state.pools.push(agent_pool("three", "late:NoSchedule")));
    after(Duration::from_secs(6)).await;
    assert_eq!(spec("c").await.taints[0].key, "late", "a pool that the list lacks is looked for");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_pools_cannot_be_read_in_time_delays_no_other_and_its_sets_share_the_wait() {
    let mut other = set_of_pool("c", "one");
    other.tags.insert("aks-managed-cluster-name".to_owned(), "test".to_owned());
    let fake = FakeApi::with(vec![set_of_pool("a", "one"), set_of_pool("b", "one"), other]);
    fake.state(|state| state.pools = vec![agent_pool("one", "x=y:NoSchedule")]);
    let azure = fake.azure(named(&["a", "b", "c"]));
    fake.state(|state| state.hanging.insert("prod".to_owned()));
    let spec = async |name: &str| {
        let reading = observed(&azure, name).await;
        let began = Instant::now();
        let spec = timeout(Duration::from_secs(40), azure.launch_spec(&reading)).await.expect("an end");
        (spec, began.elapsed().as_secs())
    };
    let (a, b, c) = tokio::join!(spec("a"), spec("b"), spec("c"));
    assert_eq!((c.0.expect("another cluster").taints.len(), c.1), (1, 0));
    for (spec, seconds) in [a, b] {
        assert!(spec.as_ref().is_err_and(CloudError::may_pass), "{spec:?}");
        assert_eq!(seconds, 10);
    }
    assert_eq!(fake.calls("pools"), ["apps/prod", "apps/test"], "one call for both scale sets");
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_to_read_pools_a_template_lacks_them_and_a_warning_says_so_once() {
    let fake = FakeApi::with(vec![set_of_pool("a", "one")]);
    fake.state(|state| state.pools = vec![agent_pool("one", "x=y:NoSchedule")]);
    let azure = fake.azure(named(&["a"]));
    let reading = observed(&azure, "a").await;
    fake.fail("pools", CloudError::Unreachable(fault("", "reset")));
    let unreadable = azure.launch_spec(&reading).await.expect_err("its taints are not known");
    assert!(unreadable.may_pass(), "{unreadable}");
    let without_pool = async |error| {
        after(Duration::from_secs(61)).await;
        fake.fail("pools", error);
        assert!(azure.launch_spec(&reading).await.expect("a spec").taints.is_empty());
        azure.warnings().into_iter().map(|(_, warning)| warning).collect::<Vec<_>>()
    };
    let denied = || CloudError::Denied(fault("AuthorizationFailed", "no"));
    without_pool(denied()).await;
    let warnings = without_pool(denied()).await;
    assert!(warnings.len() == 1 && warnings[0].contains("agentPools/read for the resource group apps"), "{warnings:?}");
    let warnings = without_pool(CloudError::NotFound(fault("ResourceNotFound", "no cluster"))).await;
    assert!(warnings.iter().any(|warning| warning.contains("cluster prod") && warning.contains("ResourceNotFound")));
}
