use std::sync::Arc;

use super::*;
use crate::cloud::{GrowsBy, Instance, Permit};
use crate::clouds::simulated::{CallKind, GroupPlan, Simulated};

const A: &str = "g/us-east-1a";
const B: &str = "g/us-east-1b";

/// A group of these sizes over two zones, its instances spread evenly, and one that is served as it is.
fn open(min: u32, max: u32, initial: u32) -> (Arc<Simulated>, SeparateZones) {
    let plans = [GroupPlan::aws("g").sized(min, max, initial), GroupPlan::aws("whole").sized(0, 10, 2)];
    let cloud = Arc::new(Simulated::with_groups(7, plans));
    let served = SeparateZones::over(Arc::clone(&cloud) as SharedCloud, |group| group.as_str() == "g");
    (cloud, served)
}

async fn read(cloud: &SeparateZones, name: &str) -> GroupReading {
    cloud.observe(&GroupName::from(name)).await.expect("read").expect("it exists")
}

fn sizes(reading: &GroupReading) -> (u32, u32, u32) {
    (reading.min, reading.desired, reading.max)
}

fn request(number: u32) -> LaunchRequest {
    LaunchRequest { number, token: format!("t-{number}"), zone: None }
}

fn ids(reading: &GroupReading) -> Vec<ProviderId> {
    reading.instances.iter().flatten().map(|one| one.id.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_zone_has_its_instances_and_shares_the_groups_limits() {
    let (_, cloud) = open(1, 10, 6);
    let listing = cloud.list().await.expect("listed");
    let mut served: Vec<_> = listing.groups.iter().map(|group| (group.name.to_string(), sizes(group))).collect();
    served.sort();
    // The group may lose 5 and has room for 4.
    let expected = [(A, (0, 3, 7)), (B, (0, 3, 7)), ("whole", (0, 2, 10))];
    assert_eq!(served, expected.map(|(name, sizes)| (name.to_owned(), sizes)));
    for name in [A, B] {
        let reading = read(&cloud, name).await;
        let zone = name.trim_start_matches("g/");
        assert!(ids(&reading).iter().all(|id| part::zone_of(id) == Some(zone)) && ids(&reading).len() == 3, "{name}");
        assert_eq!(reading.consistency.grows_by, GrowsBy::LaunchOnly);
        assert_eq!(cloud.launch_spec(&reading).await.expect("a spec").zones, [zone]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_is_in_its_zone_and_takes_from_what_all_have_left() {
    let (simulated, cloud) = open(0, 10, 6);
    let before = read(&cloud, "whole").await;
    cloud.list().await.expect("listed");
    let launched = cloud.launch(&read(&cloud, B).await, &request(3)).await.expect("launched");
    assert_eq!(launched.instances.len(), 3);
    assert_eq!((sizes(&read(&cloud, A).await), sizes(&read(&cloud, B).await)), ((0, 3, 4), (0, 6, 7)));
    let calls = simulated.calls();
    let mut calls = calls.iter().filter(|call| call.kind == CallKind::Launch);
    assert!(calls.next_back().is_some_and(|call| call.detail.ends_with("in us-east-1b")));
    let refused = cloud.launch(&read(&cloud, A).await, &request(2)).await.expect_err("one is left");
    assert!(refused.to_string().contains("above its maximum of 10, which all its zones share: 1 can"), "{refused}");
    assert_eq!(read(&cloud, "whole").await, before);
}

#[tokio::test(start_paused = true)]
async fn what_a_group_lacks_belongs_to_no_zone() {
    let (simulated, cloud) = open(0, 10, 6);
    cloud.list().await.expect("listed");
    simulated.set_desired_externally("g", 8).expect("it exists");
    let whole = simulated.observe(&GroupName::from("g")).await.expect("read").expect("it exists");
    assert_eq!(whole.desired, 8);
    assert_eq!((read(&cloud, A).await.desired, read(&cloud, B).await.desired), (3, 3));
    assert_eq!(read(&cloud, A).await.max, 5, "the group has room for two");
}

#[tokio::test(start_paused = true)]
async fn instances_beyond_the_capacity_are_shown_where_a_deletion_may_be_why() {
    let (simulated, cloud) = open(0, 10, 6);
    cloud.list().await.expect("listed");
    let reading = read(&cloud, A).await;
    let named = vec![ids(&reading)[0].clone()];
    cloud.delete_instances(&reading, &named).await.expect("deleted");
    simulated.set_desired_externally("g", 4).expect("it exists");
    // Five live, and the group is about to terminate one of them.
    assert_eq!((read(&cloud, A).await.desired, read(&cloud, B).await.desired), (1, 3));
    let raised = cloud.set_capacity(&read(&cloud, A).await, 2).await;
    assert!(raised.is_ok(), "{raised:?}");
    let whole = simulated.observe(&GroupName::from("g")).await.expect("read").expect("it exists");
    assert_eq!(whole.desired, 5, "all that live have room");
    assert_eq!(read(&cloud, A).await.desired, 2);
    let lowered = cloud.set_capacity(&read(&cloud, A).await, 1).await.expect_err("no zone is lowered");
    assert!(lowered.to_string().contains("cannot be lowered"), "{lowered}");

    simulated.set_desired_externally("g", 4).expect("it exists");
    cloud.launch(&read(&cloud, B).await, &request(1)).await.expect("launched");
    assert_eq!(read(&cloud, A).await.desired, 2, "the launch may not show yet");
    tokio::time::sleep(ledger::COUNTS_FOR).await;
    assert_eq!(read(&cloud, A).await.desired, u32::try_from(ids(&read(&cloud, A).await).len()).expect("few"));
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_the_group_has_left_only_shrinks() {
    let (simulated, cloud) = open(0, 10, 4);
    let mut whole = simulated.observe(&GroupName::from("g")).await.expect("read").expect("it exists");
    whole.zones.names.retain(|zone| zone == "us-east-1a");
    let parts = cloud.parts(whole);
    let growth = |name: &str| parts.iter().find(|part| part.name.as_str() == name).map(|part| part.growth.clone());
    assert_eq!(growth(A), Some(Permit::Granted));
    let Some(Permit::Withheld(reason)) = growth(B) else { panic!("{parts:?}") };
    assert!(reason.contains("no subnet in us-east-1b"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_group_is_said_of_its_zones() {
    let (_, cloud) = open(0, 10, 4);
    cloud.list().await.expect("listed");
    let broken = vec![(GroupName::from("g"), "no max size".to_owned()), (GroupName::from("x"), "no name".to_owned())];
    let absent = vec![GroupName::from("g"), GroupName::from("whole")];
    let listing = cloud.listing(Listing { groups: Vec::new(), broken, absent });
    let names: Vec<_> = listing.broken.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [A, B, "x"]);
    assert_eq!(listing.absent.iter().map(GroupName::as_str).collect::<Vec<_>>(), [A, B, "whole"]);
    assert_eq!(cloud.observe(&GroupName::from("g/us-east-1c")).await.expect("read"), None, "it has no such zone");
}

/// A group of these sizes after a deletion of one instance in each of these zones, and its reading.
async fn after_deletions(zones: &[&str], initial: u32) -> (SeparateZones, GroupReading) {
    let (simulated, cloud) = open(0, 10, initial);
    cloud.list().await.expect("listed");
    for zone in zones {
        let reading = read(&cloud, zone).await;
        cloud.delete_instances(&reading, &ids(&reading)[..1]).await.expect("deleted");
    }
    let whole = simulated.observe(&GroupName::from("g")).await.expect("read").expect("it exists");
    (cloud, whole)
}

fn desired(parts: &[GroupReading]) -> Vec<u32> {
    parts.iter().map(|part| part.desired).collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_group_launches_by_itself_is_no_reason_to_raise_anything_back() {
    let (cloud, mut whole) = after_deletions(&[A], 6).await;
    let surge = whole.instances.iter().flatten().find(|one| part::zone_of(&one.id) == Some("us-east-1b")).cloned();
    let surge = Instance { id: ProviderId::from("aws:///us-east-1b/i-0surge"), ..surge.expect("three") };
    whole.instances.iter_mut().for_each(|instances| instances.push(surge.clone()));
    assert_eq!((whole.desired, part::excess(&whole)), (5, 1));
    assert_eq!(desired(&cloud.parts(whole.clone())), [1, 4], "what we deleted may have been going already");
    let (group, now) = (GroupName::from("g"), Instant::now());
    let ledger = |change: &dyn Fn(&mut Ledger)| change(&mut cloud.groups().get_mut(&group).expect("read").ledger);
    ledger(&|ledger| ledger.note_additional(&["i-0surge".to_owned()], now));
    assert_eq!(desired(&cloud.parts(whole.clone())), [2, 4]);
    ledger(&|ledger| ledger.note_additional(&[], now));
    assert_eq!(desired(&cloud.parts(whole.clone())), [1, 4], "it launched none of them by itself");
    let owed = |evidence| cloud.groups()[&group].ledger.owed_in("us-east-1a", &whole, evidence, Instant::now());
    assert_eq!(owed(Evidence::Certain), 1);
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    assert_eq!((owed(Evidence::Possible), owed(Evidence::Certain)), (1, 0), "that was read too long ago");
}

#[tokio::test(start_paused = true)]
async fn what_lived_before_the_group_launched_anything_by_itself_is_none_of_its_own() {
    let (cloud, whole) = after_deletions(&[A], 6).await;
    let lowered = GroupReading { desired: 4, ..whole };
    cloud.parts(lowered.clone());
    let owed = |reading: &GroupReading, evidence| {
        cloud.groups()[&GroupName::from("g")].ledger.owed_in("us-east-1a", reading, evidence, Instant::now())
    };
    assert_eq!(owed(&lowered, Evidence::Certain), 1);
    let (mut surge, instances) = (lowered.clone(), lowered.instances.unwrap_or_default());
    let new = |one: &Instance| Instance { id: ProviderId::from(format!("{}-new", one.id)), ..one.clone() };
    surge.instances = Some(instances.iter().filter(|one| part::is_live(one)).map(new).collect());
    surge.desired = 5;
    surge.instances.iter_mut().for_each(|all| all.push(new(&all[0].clone())));
    cloud.parts(surge.clone());
    assert_eq!((owed(&surge, Evidence::Possible), owed(&surge, Evidence::Certain)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_going_when_it_was_named_lowers_the_capacity_all_the_same() {
    let (simulated, cloud) = open(0, 10, 6);
    cloud.list().await.expect("listed");
    let seconds = std::time::Duration::from_secs;
    simulated.launch_surplus("g", 1, seconds(2)).expect("it exists");
    let before = [read(&cloud, A).await, read(&cloud, B).await];
    tokio::time::sleep(seconds(3)).await;
    let whole = simulated.observe(&GroupName::from("g")).await.expect("read").expect("it exists");
    let going = whole.instances.iter().flatten().find(|one| !part::is_live(one)).expect("it removed its surplus");
    let basis = before.iter().find(|zone| ids(zone).contains(&going.id)).expect("it lived");
    let deletion = cloud.delete_instances(basis, std::slice::from_ref(&going.id)).await.expect("accepted");
    assert_eq!(deletion.already_gone, std::slice::from_ref(&going.id));
    let whole = simulated.observe(&GroupName::from("g")).await.expect("read").expect("it exists");
    assert_eq!((whole.desired, part::excess(&whole)), (5, 1), "six live");
    assert_eq!(cloud.parts(whole).iter().map(|part| part.desired).sum::<u32>(), 5, "one is owed");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_lags_behind_a_raise_counts_as_raised() {
    let (_, whole) = after_deletions(&[A, B], 6).await;
    let (now, lowered) = (Instant::now(), GroupReading { desired: 2, ..whole });
    let mut ledger = Ledger::default();
    ledger.note_raised(2, 3, now);
    assert_eq!(ledger.dated(lowered.clone(), now).desired, 3, "another zone raises the rest from there");
    assert_eq!(ledger.dated(GroupReading { desired: 1, ..lowered.clone() }, now).desired, 1, "it was lowered since");
    ledger.note_raised(2, 3, now);
    assert_eq!(ledger.dated(lowered, now + ledger::COUNTS_FOR).desired, 2, "no read lags for so long");
}

#[tokio::test(start_paused = true)]
async fn each_zone_shows_what_its_own_deletions_may_have_lowered_too_far() {
    let (cloud, whole) = after_deletions(&[A, B], 6).await;
    assert_eq!(whole.desired, 4);
    let lowered_to = |desired| cloud.parts(GroupReading { desired, ..whole.clone() });
    assert_eq!(desired(&lowered_to(2)), [1, 1], "each of the two was going already");
    assert_eq!(desired(&lowered_to(3)), [1, 2], "one of them was");
    assert_eq!(desired(&lowered_to(1)), [2, 2], "our deletions cannot be why");
    assert_eq!(desired(&lowered_to(0)), [2, 2], "another client lowered it since they were sent");

    let (_, cloud) = open(0, 10, 6);
    cloud.list().await.expect("listed");
    let reading = read(&cloud, A).await;
    cloud.delete_instances(&reading, &ids(&reading)).await.expect("deleted");
    let whole = cloud.groups()[&GroupName::from("g")].last.clone().expect("read");
    let gone = |one: &Instance| part::zone_of(&one.id) != Some("us-east-1a");
    let instances = whole.instances.iter().flatten().filter(|one| gone(one)).cloned().collect();
    let lowered = GroupReading { desired: 1, instances: Some(instances), ..whole };
    assert_eq!(
        desired(&cloud.parts(lowered)),
        [0, 1],
        "two were going already, and a zone without instances shows none"
    );
}

#[tokio::test(start_paused = true)]
async fn zones_that_shrink_at_once_keep_the_groups_minimum() {
    let (_, cloud) = open(3, 10, 4);
    cloud.list().await.expect("listed");
    let (a, b) = (read(&cloud, A).await, read(&cloud, B).await);
    assert_eq!((sizes(&a), sizes(&b)), ((1, 2, 8), (1, 2, 8)), "the group may lose one");
    cloud.delete_instances(&a, &ids(&a)[..1]).await.expect("deleted");
    let refused = cloud.delete_instances(&b, &ids(&b)[..1]).await.expect_err("three are left");
    assert!(refused.to_string().contains("below its minimum of 3, which all its zones share: 0 can"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn zones_that_grow_at_once_keep_the_groups_maximum() {
    let (simulated, cloud) = open(0, 6, 4);
    cloud.list().await.expect("listed");
    let (group, launch) =
        (GroupName::from("g"), |token: &str| LaunchRequest { number: 2, token: token.to_owned(), zone: None });
    cloud.admit_launch(&group, &launch("one")).expect("there is room");
    cloud.admit_launch(&group, &launch("one")).expect("a repetition is the same launch");
    let refused = cloud.admit_launch(&group, &launch("two")).expect_err("there is no more");
    assert!(refused.to_string().contains("above its maximum of 6"), "{refused}");
    drop(UnderWay { cloud: &cloud, group: group.clone(), token: "one".to_owned(), launched: Some(Vec::new()) });
    cloud.admit_launch(&group, &launch("two")).expect("nothing was launched");
    assert!(!simulated.calls().iter().any(|call| call.kind == CallKind::Launch));
}

#[tokio::test(start_paused = true)]
async fn protected_instances_beyond_the_capacity_can_be_deleted() {
    let (simulated, cloud) = open(2, 10, 8);
    let mut whole = simulated.observe(&GroupName::from("g")).await.expect("read").expect("it exists");
    whole.desired = 3;
    whole.instances.iter_mut().flatten().for_each(|one| one.is_protected = true);
    let parts = cloud.parts(whole);
    assert_eq!(parts.iter().map(sizes).collect::<Vec<_>>(), [(0, 4, 6), (0, 4, 6)]);
    let group = GroupName::from("g");
    for (part, zone) in parts.iter().zip(["us-east-1a", "us-east-1b"]) {
        let named = &ids(part)[..3];
        let basis = cloud.admit_deletion((&group, zone), part, named).expect("six of eight may go");
        let kept = basis.instances.iter().flatten().filter(|one| one.counts == Counts::No).count();
        assert_eq!(kept, if zone == "us-east-1a" { 3 } else { 2 }, "as many as live beyond the capacity: {zone}");
    }
}
