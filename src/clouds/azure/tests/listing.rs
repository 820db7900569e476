//! Listing scale sets.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::cloud::CallMeter;
use crate::clouds::azure::arm::{ArmScaleSets, RepairAction};
use crate::clouds::azure::http::{Loopback, Reply};

#[tokio::test]
async fn explicit_sets_are_found_in_any_case_and_missing_ones_are_absent() {
    let fake = FakeApi::with(vec![set("aks-Pool-vmss", 3), set("other", 1)]);
    let azure = fake.azure(named(&["AKS-pool-VMSS", "nowhere", "Nowhere"]));
    let listing = azure.list().await.expect("listed");
    assert_eq!(names(&listing.groups), ["AKS-pool-VMSS"], "served under the configuration's name");
    assert_eq!((listing.groups[0].desired, listing.groups[0].instances.is_none()), (3, true));
    assert_eq!(listing.absent, ["Nowhere".into()]);
    assert!(listing.broken.is_empty());
    assert_eq!(fake.calls("get").len() + fake.calls("uniform").len(), 0, "a list is one call");
}

#[tokio::test]
async fn a_query_finds_sets_with_all_its_tags_and_several_queries_are_a_union() {
    let fake = FakeApi::with(vec![
        tagged(set("both", 1), &[("Cluster", "prod"), ("pool", "a")]),
        tagged(set("one", 1), &[("cluster", "prod")]),
        tagged(set("case", 1), &[("cluster", "Prod"), ("pool", "a")]),
        tagged(set("gpu", 1), &[("gpu", "yes"), ("MIN", "1"), ("max", "5")]),
        tagged(set("explicit", 1), &[("gpu", "yes"), ("min", "1"), ("max", "5")]),
        set("plain", 1),
    ]);
    let prod = query(&[("cluster", "prod"), ("POOL", "a")], Some(0), Some(10));
    let gpu = query(&[("gpu", "yes")], Some(2), None);
    let none = query(&[], Some(1), Some(2));
    let explicit = vec!["0:4:explicit".parse().expect("good")];
    let azure = fake.azure(Settings { node_groups: explicit, ..discovering(vec![prod, gpu, none]) });
    let listing = azure.list().await.expect("listed");
    let found: Vec<_> = listing.groups.iter().map(bounds).collect();
    assert_eq!(found, [("both", 0, 10), ("explicit", 1, 4), ("gpu", 1, 5)], "tags before queries, explicit first");
}

#[tokio::test]
async fn the_tags_of_a_configured_set_narrow_its_bounds() {
    for (tags, expected) in [
        (&[][..], (1, 10)),
        (&[("min", "3"), ("MAX", "20")], (3, 10)),
        (&[("max", "5")], (1, 5)),
        // Azure does not know these bounds: they are no reason to grow past what is configured.
        (&[("min", "11"), ("max", "20")], (1, 10)),
        // Invalid tags do not prevent a scale set that the configuration names from being served.
        (&[("min", "11")], (1, 10)),
        (&[("min", "few"), ("max", "5")], (1, 10)),
    ] {
        let fake = FakeApi::with(vec![tagged(set("pool", 3), tags)]);
        let azure = fake.azure(Settings { node_groups: vec!["1:10:pool".parse().expect("good")], ..settings() });
        let (listing, read) = (azure.list().await.expect("listed"), observed(&azure, "pool").await);
        for group in [&listing.groups[0], &read] {
            assert_eq!((group.min, group.max), expected, "{tags:?}");
        }
    }
}

/// A single placement group holds 100 VMs: a scale-up past them would be refused.
#[tokio::test]
async fn a_set_with_a_single_placement_group_is_offered_up_to_100_machines() {
    for (is_single, capacity, spec, expected) in [
        (true, 3, "1:300:pool", (1, 100)),
        (true, 3, "1:100:pool", (1, 100)),
        (true, 3, "1:50:pool", (1, 50)),
        (false, 3, "1:300:pool", (1, 300)),
        // What is there already, or at least wanted, stays within the bounds.
        (true, 120, "1:300:pool", (1, 120)),
        (true, 3, "150:300:pool", (150, 150)),
    ] {
        let fake = FakeApi::with(vec![ScaleSet { has_single_placement_group: is_single, ..set("pool", capacity) }]);
        let azure = fake.azure(Settings { node_groups: vec![spec.parse().expect("good")], ..settings() });
        let (listing, read) = (azure.list().await.expect("listed"), observed(&azure, "pool").await);
        for group in [&listing.groups[0], &read] {
            assert_eq!((group.min, group.max), expected, "{is_single} {capacity} {spec}");
        }
        let is_told = azure.warnings().iter().any(|(_, warning)| warning.contains("singlePlacementGroup"));
        assert_eq!(is_told, is_single && spec.contains("300"), "{is_single} {capacity} {spec}");
    }
}

#[tokio::test]
async fn if_several_queries_match_the_tightest_bounds_apply() {
    let fake = FakeApi::with(vec![tagged(set("pool", 1), &[("a", "1"), ("b", "1")])]);
    let queries = vec![query(&[("a", "1")], Some(2), Some(5)), query(&[("b", "1")], Some(1), Some(4))];
    let listing = fake.azure(discovering(queries)).list().await.expect("listed");
    assert_eq!(bounds(&listing.groups[0]), ("pool", 2, 4));
}

#[tokio::test]
async fn a_set_without_good_bounds_is_left_out() {
    let bad = [
        ("no-min", [("a", "1"), ("max", "3")]),
        ("no-max", [("a", "1"), ("min", "3")]),
        ("text", [("a", "1"), ("min", "random")]),
        ("negative", [("a", "1"), ("max", "-5")]),
    ];
    let mut sets: Vec<_> = bad.iter().map(|(name, tags)| tagged(set(name, 1), tags)).collect();
    sets.push(tagged(set("reversed", 1), &[("a", "1"), ("min", "5"), ("max", "1")]));
    sets.push(tagged(set("good", 1), &[("a", "1"), ("min", "0"), ("max", "1")]));
    let fake = FakeApi::with(sets);
    let azure = fake.azure(discovering(vec![query(&[("a", "1")], None, None)]));
    let listing = azure.list().await.expect("listed");
    assert_eq!((names(&listing.groups), listing.broken.len()), (vec!["good"], 0));
    assert!(azure.observe(&"no-min".into()).await.expect("readable").is_none(), "and is gone if it was served");
}

#[tokio::test]
async fn an_item_that_cannot_be_decoded_affects_only_its_own_group() {
    let fake = FakeApi::with(vec![set("good", 1), ScaleSet { capacity: None, ..set("unknown", 0) }]);
    let item = |name: Option<&str>| BadItem { name: name.map(str::to_owned), reason: "bad date".to_owned() };
    fake.state(|state| state.bad = vec![item(Some("BAD")), item(Some("foreign")), item(None)]);
    let listing = fake.azure(named(&["good", "bad", "unknown"])).list().await.expect("listed");
    assert_eq!(names(&listing.groups), ["good"]);
    let broken = [("bad", "bad date"), ("unknown", "its capacity is not known")];
    assert_eq!(listing.broken, broken.map(|(name, reason)| (name.into(), reason.to_owned())));
    assert!(listing.absent.is_empty(), "{:?}", listing.absent);
}

#[tokio::test]
async fn a_discovered_set_that_can_no_longer_be_decoded_is_broken_and_not_gone() {
    let fake = FakeApi::with(vec![tagged(set("pool", 2), &[("a", "1")])]);
    let azure = fake.azure(discovering(vec![query(&[("a", "1")], Some(0), Some(9))]));
    assert_eq!(azure.list().await.expect("listed").groups.len(), 1);
    fake.state(|state| {
        state.sets.clear();
        state.bad = vec![BadItem { name: Some("pool".to_owned()), reason: "bad date".to_owned() }];
    });
    for _ in 0..2 {
        let listing = azure.list().await.expect("listed");
        assert_eq!(listing.broken, [("pool".into(), "bad date".to_owned())]);
    }
    fake.state(|state| state.bad.clear());
    assert!(azure.list().await.expect("listed").broken.is_empty());
}

#[tokio::test]
async fn an_unknown_capacity_is_an_error_and_not_a_number() {
    let fake = FakeApi::with(vec![ScaleSet { capacity: None, ..set("pool", 0) }]);
    let azure = fake.azure(named(&["pool"]));
    let error = azure.observe(&"pool".into()).await.expect_err("unknown");
    assert!(matches!(error, CloudError::Unintelligible(_)), "{error}");
}

#[tokio::test]
async fn the_capacity_of_a_spot_set_is_read_from_the_set_itself() {
    let spot = |name| ScaleSet { spot: true, ..set(name, 1) };
    let fake = FakeApi::with(vec![set("steady", 3), spot("spot"), spot("unreadable")]);
    fake.state(|state| state.listed_capacities.insert("spot".to_owned(), 5));
    let azure = fake.azure(named(&["steady", "spot", "unreadable"]));
    let listing = azure.list().await.expect("listed");
    let desired: Vec<_> = listing.groups.iter().map(|group| (group.name.as_str(), group.desired)).collect();
    assert_eq!(desired, [("spot", 1), ("steady", 3), ("unreadable", 1)]);
    assert_eq!(fake.calls("get"), ["spot", "unreadable"], "exactly one call each");
    let throttled = CloudError::Throttled { retry_after: None, fault: fault("TooManyRequests", "slow down") };
    fake.fail("get", throttled);
    let listing = azure.list().await.expect("listed");
    assert_eq!((names(&listing.groups), listing.broken.len()), (vec!["steady", "unreadable"], 1), "one of them");
}

/// Otherwise, a budget that other clients keep low would be spent before the read that a write needs.
#[tokio::test]
async fn the_last_of_a_budget_is_not_spent_on_spot_sets() {
    let set = json!({ "id": "/sets/spot", "name": "spot", "location": "westus", "sku": { "capacity": 1 },
                      "properties": { "virtualMachineProfile": { "priority": "Spot" } } });
    let list = || Reply::json(json!({ "value": [set] }));
    let get = |left: u32| {
        let left = format!("Microsoft.Compute/LowCostGetVMScaleSet3Min;{left}");
        Reply::json(set.clone()).header("x-ms-ratelimit-remaining-resource", &left)
    };
    let server = Loopback::start([list(), get(100), list(), get(5), list(), get(4)]).await;
    let settings = Settings { endpoint: Some(server.base()), subscription_id: Some("sub".into()), ..named(&["spot"]) };
    let arm = ArmScaleSets::connect(&settings, CallMeter::default()).expect("a connection");
    let azure = Azure::over(settings, "sub".to_owned(), Arc::new(arm));
    for _ in 0..2 {
        assert_eq!(names(&azure.list().await.expect("listed").groups), ["spot"]);
    }
    let listing = azure.list().await.expect("listed");
    assert!(listing.groups.is_empty() && listing.broken[0].1.contains("kept for writes"), "{listing:?}");
    assert_eq!(server.received().len(), 5, "it was listed, and not read");
    azure.read_capacity(&"spot".into()).await.expect("a read for a write is sent").expect("it exists");
    assert_eq!(server.received().len(), 6);
}

/// A listing that takes a minute is given up.
#[tokio::test(start_paused = true)]
async fn spot_sets_whose_reads_hang_do_not_keep_others_from_being_listed() {
    let spots: Vec<String> = (0..200).map(|number| format!("spot-{number}")).collect();
    let sets = spots.iter().map(|name| ScaleSet { spot: true, ..set(name, 1) });
    let fake = FakeApi::with(sets.chain([set("steady", 3)]).collect());
    fake.state(|state| state.hanging = spots.iter().cloned().collect());
    let names: Vec<&str> = spots.iter().map(String::as_str).chain(["steady"]).collect();
    let (azure, began) = (fake.azure(named(&names)), tokio::time::Instant::now());
    let listing = azure.list().await.expect("listed");
    assert_eq!((listing.groups.len(), listing.broken.len()), (1, 200));
    assert_eq!(began.elapsed(), Duration::from_secs(30));
}

#[tokio::test]
async fn a_spot_set_that_is_gone_when_it_is_read_is_absent() {
    let fake = FakeApi::with(vec![ScaleSet { spot: true, ..set("spot", 1) }]);
    let gone = set("other-name-now", 1);
    let azure = fake.azure(named(&["spot"]));
    assert_eq!(azure.list().await.expect("listed").groups.len(), 1);
    fake.state(|state| {
        let listed = std::mem::replace(&mut state.sets[0], gone);
        state.bad.clear();
        state.vanishing = Some(listed);
    });
    let listing = azure.list().await.expect("listed");
    assert_eq!((listing.groups.len(), listing.broken.len(), listing.absent), (0, 0, vec!["spot".into()]));
}

#[tokio::test]
async fn a_set_being_deleted_cannot_be_scaled_and_one_being_updated_can() {
    let state = |name, state: &str| ScaleSet { provisioning_state: Some(state.to_owned()), ..set(name, 1) };
    let sets = vec![state("deleting", "Deleting"), state("failed", "Failed"), state("updating", "Updating")];
    let listing = FakeApi::with(sets).azure(named(&["deleting", "failed", "updating"])).list().await.expect("listed");
    let withheld: Vec<_> = listing
        .groups
        .iter()
        .map(|group| (group.growth != Permit::Granted, group.removal != Permit::Granted))
        .collect();
    assert_eq!(withheld, [(true, true), (false, false), (false, false)]);
}

#[tokio::test]
async fn a_throttled_list_is_an_error_and_not_an_empty_list() {
    let fake = FakeApi::with(vec![set("pool", 200)]);
    let azure = fake.azure(named(&["pool"]));
    let wait = Some(std::time::Duration::from_secs(120));
    let throttled = || CloudError::Throttled { retry_after: wait, fault: fault("TooManyRequests", "slow down") };
    fake.fail("list", throttled());
    assert!(matches!(azure.list().await, Err(CloudError::Throttled { retry_after, .. }) if retry_after == wait));
    fake.fail("uniform", throttled());
    assert!(matches!(azure.observe(&"pool".into()).await, Err(CloudError::Throttled { .. })));
}

#[tokio::test]
async fn the_launch_fingerprint_changes_with_the_properties_of_new_machines() {
    let launch_fingerprint = |set: ScaleSet| async {
        let fake = FakeApi::with(vec![set]);
        fake.azure(named(&["pool"])).list().await.expect("listed").groups[0].launch_fingerprint
    };
    let plain = || tagged(set("pool", 1), &[("owner", "me")]);
    let first = launch_fingerprint(plain()).await;
    let same = ScaleSet { capacity: Some(7), etag: None, ..tagged(set("pool", 1), &[("owner", "you")]) };
    assert_eq!(first, launch_fingerprint(same).await);
    for other in [
        ScaleSet { size: Some("Standard_D8s_v3".to_owned()), ..plain() },
        ScaleSet { mixed_sizes: vec!["Standard_D8s_v3".to_owned()], ..plain() },
        ScaleSet { zones: vec!["1".to_owned()], ..plain() },
        ScaleSet { os_disk_gb: Some(1), ..plain() },
        ScaleSet { spot: true, ..plain() },
        ScaleSet { mixes_priorities: true, ..plain() },
        ScaleSet { image_name: Some("other".to_owned()), ..plain() },
        ScaleSet { cpus_available: Some(1), ..plain() },
        ScaleSet { addresses: Some(31), ..plain() },
        ScaleSet { image: Some("other".to_owned()), ..plain() },
        tagged(plain(), &[("k8s.io_cluster-autoscaler_node-template_label_a", "b")]),
        tagged(plain(), &[("poolName", "b")]),
    ] {
        assert_ne!(first, launch_fingerprint(other.clone()).await, "{other:?}");
    }
}

#[tokio::test]
async fn ids_in_any_case_belong_to_their_group_and_others_are_foreign() {
    let fake = FakeApi::with(vec![set("Pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    azure.list().await.expect("listed");
    let recognised = |id: &str| azure.recognise(id);
    for id in [id("Pool", 0).as_str().to_owned(), id("POOL", 99).as_str().to_ascii_lowercase()] {
        assert_eq!(recognised(&id), Recognition::OursInGroup("pool".into()), "{id}");
        assert_eq!(recognised(&id.to_ascii_uppercase()), Recognition::OursInGroup("pool".into()), "{id}");
    }
    assert_eq!(recognised(id("Unknown", 1).as_str()), Recognition::OursInGroup("Unknown".into()));
    assert_eq!(recognised(vm("flex_0").as_str()), Recognition::Ours);
    let ours = vm("flex_0");
    for foreign in [
        ours.as_str().replace(SUBSCRIPTION, "Sub-2"),
        ours.as_str().replace("mc_group", "mc_other"),
        ours.as_str().replace("azure:", "aazure:"),
        String::new(),
        "kwok://node".to_owned(),
    ] {
        assert_eq!(recognised(&foreign), Recognition::Foreign, "{foreign}");
    }
}

#[tokio::test]
async fn placeholders_have_the_form_of_machines() {
    let fake = FakeApi::with(vec![set("pool", 1), flexible(set("flex", 1))]);
    let azure = fake.azure(named(&["pool", "flex"]));
    for (group, expected) in [("pool", "Sets/pool/virtualMachines/placeholder-9-1"), ("flex", "/flex-placeholder-9-1")]
    {
        let reading = observed(&azure, group).await;
        let placeholder = reading.placeholder("9-1");
        assert!(placeholder.as_str().ends_with(expected), "{placeholder}");
        assert!(placeholder.as_str().contains("/resourceGroups/mc_group/"), "{placeholder}");
        assert_ne!(azure.recognise(placeholder.as_str()), Recognition::Foreign);
    }
}

#[tokio::test]
async fn the_settings_of_a_scale_set_say_whether_it_makes_vms_beyond_its_capacity() {
    let own = |change: fn(&mut ScaleSet)| async move {
        let mut set = set("pool", 1);
        change(&mut set);
        let listing = FakeApi::with(vec![set]).azure(named(&["pool"])).list().await.expect("listed");
        listing.groups[0].has_own_surplus
    };
    assert!(!own(|_| {}).await);
    assert!(!own(|set| set.own_changes.repairs = Some(RepairAction::Keep)).await);
    assert!(own(|set| set.overprovision = true).await);
    assert!(own(|set| set.own_changes.surge = true).await);
    assert!(own(|set| set.own_changes.zone_balance = true).await);
    assert!(own(|set| set.own_changes.repairs = Some(RepairAction::Replace)).await);
}
