//! Listing and reading scale sets.

use super::*;

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
async fn a_query_finds_what_has_all_its_tags_and_several_are_a_union() {
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
async fn a_set_that_the_configuration_names_keeps_within_its_own_tags_too() {
    for (tags, expected) in [
        (&[][..], (1, 10)),
        (&[("min", "3"), ("MAX", "20")], (3, 10)),
        (&[("max", "5")], (1, 5)),
        (&[("min", "11"), ("max", "20")], (11, 20)),
        // What cannot be meant so is no reason not to serve what is named.
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

#[tokio::test]
async fn where_several_queries_match_the_tightest_bounds_hold() {
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
async fn one_bad_item_costs_its_own_group_only() {
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
async fn a_discovered_set_that_turns_bad_is_broken_and_not_gone() {
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
async fn a_set_being_deleted_can_neither_grow_nor_shrink_and_one_being_updated_can() {
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
async fn a_throttled_list_is_an_error_and_no_empty_list() {
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
async fn machines_are_read_before_the_capacity() {
    for kind in [|set| set, flexible] {
        let fake = FakeApi::with(vec![kind(set("pool", 3))]);
        let azure = fake.azure(named(&["pool"]));
        azure.list().await.expect("listed");
        let reading = observed(&azure, "pool").await;
        assert_eq!((reading.desired, reading.etag.as_deref()), (3, Some("\"0\"")));
        let calls = fake.state(|state| state.calls.split_off(1));
        assert!(calls.len() == 2 && calls[1] == "get pool", "{calls:?}");
        let instances = reading.instances.expect("read with the group");
        let running = |instance: &Instance| {
            (instance.state, instance.counts) == (InstanceState::Running, Counts::UntilDeleted)
                && instance.failure.is_none()
        };
        assert!(instances.len() == 3 && instances.iter().all(running), "{instances:?}");
    }
}

#[tokio::test]
async fn a_capacity_and_its_precondition_are_one_call_whatever_the_machines() {
    for kind in [|set| set, flexible] {
        let fake = FakeApi::with(vec![kind(set("pool", 1_000))]);
        let azure = fake.azure(named(&["pool"]));
        let reading = azure.read_capacity(&"pool".into()).await.expect("readable").expect("present");
        assert_eq!((reading.desired, reading.etag.as_deref()), (1_000, Some("\"0\"")));
        assert!(reading.instances.is_none());
        assert_eq!(fake.state(|state| state.calls.clone()), ["get pool"]);
        assert!(azure.read_capacity(&"nowhere".into()).await.expect("readable").is_none());
    }
}

#[tokio::test]
async fn a_change_that_a_capacity_read_saw_shows_until_the_machines_were_read() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    let listed = async || azure.list().await.expect("listed").groups[0].is_detail_outdated;
    observed(&azure, "pool").await;
    assert!(!listed().await);
    fake.change("pool", |_| {});
    azure.read_capacity(&"pool".into()).await.expect("readable");
    assert!(listed().await && listed().await);
    observed(&azure, "pool").await;
    assert!(!listed().await);
}

#[tokio::test]
async fn ids_are_those_of_the_kubelets_in_both_forms() {
    let fake = FakeApi::with(vec![set("Pool", 2), flexible(set("flex", 1))]);
    fake.change_machine("Pool", 1, |machine| machine.id = machine.id.replace(RESOURCE_GROUP, "MC_GROUP"));
    let azure = fake.azure(named(&["pool", "flex"]));
    let ids = |instances: Vec<Instance>| instances.into_iter().map(|instance| instance.id).collect::<Vec<_>>();
    assert_eq!(ids(instances(&azure, "pool").await), [id("Pool", 0), id("Pool", 1)]);
    assert_eq!(ids(instances(&azure, "flex").await), [vm("flex_0")]);
}

#[tokio::test]
async fn a_set_that_is_gone_is_none_and_the_others_go_on() {
    let fake = FakeApi::with(vec![set("pool", 1), set("other", 1)]);
    let azure = fake.azure(named(&["pool", "other"]));
    assert_eq!(azure.list().await.expect("listed").groups.len(), 2);
    fake.state(|state| state.sets.remove(0));
    assert!(azure.observe(&"pool".into()).await.expect("readable").is_none());
    let listing = azure.list().await.expect("listed");
    assert_eq!((names(&listing.groups), listing.absent), (vec!["other"], vec!["pool".into()]));
}

#[tokio::test]
async fn machines_that_are_not_found_in_a_set_that_is_there_are_an_error() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    fake.fail("uniform", CloudError::NotFound(fault("ResourceNotFound", "?")));
    assert!(matches!(azure.observe(&"pool".into()).await, Err(CloudError::NotFound(_))));
}

#[tokio::test]
async fn a_set_made_anew_the_other_way_is_read_with_its_machines_for_a_write() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    observed(&azure, "pool").await;
    fake.state(|state| state.sets.clear());
    fake.add(flexible(set("pool", 2)));
    let reading = azure.read_capacity(&"pool".into()).await.expect("readable").expect("present");
    assert_eq!(reading.instances.map(|instances| instances.len()), Some(2));
}

#[tokio::test]
async fn a_set_made_anew_the_other_way_is_read_the_other_way() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    azure.list().await.expect("listed");
    fake.state(|state| state.sets.clear());
    fake.add(flexible(set("pool", 2)));
    fake.fail("uniform", CloudError::NotFound(fault("ResourceNotFound", "?")));
    assert_eq!(states(&azure, "pool").await, [InstanceState::Running; 2]);
}

#[tokio::test]
async fn a_change_shows_in_the_version_even_if_the_list_has_none() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    fake.state(|state| state.lists_no_etags = true);
    let azure = fake.azure(named(&["pool"]));
    let listed = async || azure.list().await.expect("listed").groups[0].etag.clone();
    assert_eq!(listed().await, None, "never read by itself");
    let read = observed(&azure, "pool").await.etag;
    assert_eq!((listed().await, read.is_some()), (read, true));
    fake.change("pool", |set| set.capacity = Some(2));
    assert_eq!(listed().await, None);
}

#[tokio::test]
async fn a_change_of_the_provisioning_state_shows_until_the_machines_were_read() {
    let fake = FakeApi::with(vec![set("pool", 1)]);
    let azure = fake.azure(named(&["pool"]));
    let listed = async || azure.list().await.expect("listed").groups[0].is_detail_outdated;
    let read = observed(&azure, "pool").await.etag;
    assert!(read.is_some() && !listed().await);
    fake.state(|state| state.sets[0].provisioning_state = Some("Updating".to_owned()));
    assert!(listed().await && listed().await);
    assert_eq!(observed(&azure, "pool").await.etag, read, "the precondition of writes stays the etag");
    assert!(!listed().await);
}

#[tokio::test]
async fn the_launch_fingerprint_changes_with_what_a_machine_is_made_from() {
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
        let placeholder = azure.placeholder(&reading, "9-1");
        assert!(placeholder.as_str().ends_with(expected), "{placeholder}");
        assert!(placeholder.as_str().contains("/resourceGroups/mc_group/"), "{placeholder}");
        assert_ne!(azure.recognise(placeholder.as_str()), Recognition::Foreign);
    }
}
