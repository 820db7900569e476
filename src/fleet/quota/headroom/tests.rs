use super::*;
use crate::cloud::{Failure, FailureClass, Family, ProviderId, Quota, QuotaUse};
use crate::group::{GroupStatus, ReportedInstance};

/// A group of target `live`, of which so many more are coming, and so many failed.
fn view(name: &str, live: u32, coming: u32, failed: u32) -> GroupView {
    let failure = || {
        let (code, message) = ("QuotaExceeded".to_owned(), "no quota".to_owned());
        let at = std::time::SystemTime::UNIX_EPOCH;
        let class = FailureClass::OutOfResources;
        Arc::new(Failure { class, code, message, at, is_explained: true, is_eviction: false })
    };
    let instance = |number: u32, state, failure, exists| ReportedInstance {
        id: ProviderId::from(format!("azure://{name}/{number}")),
        state,
        failure,
        exists,
    };
    let running = (0..live).map(|number| instance(number, InstanceState::Running, None, true));
    let coming_ones = (0..coming).map(|number| instance(100 + number, InstanceState::Creating, None, false));
    let failed_ones = (0..failed).map(|number| instance(200 + number, InstanceState::Creating, Some(failure()), false));
    let instances = running.chain(coming_ones).chain(failed_ones).collect();
    let view = GroupView::with_instances(key(name), instances);
    let status = Arc::new(GroupStatus { live, ..GroupStatus::clone(&view.status) });
    GroupView { family: Family::Azure, max: 20, status, ..view }
}

fn key(name: &str) -> GroupKey {
    GroupKey { source: "eu".into(), name: name.into() }
}

/// A family of 40 vCPUs of which 20 are used, in a region with 100 of which 50 are used; nodes of `web` have 4 vCPUs,
/// and nodes of `big`
/// 8. The targets were these.
fn reading(targets: [(&str, u32); 2]) -> QuotaReading {
    let (family, region): (Arc<str>, Arc<str>) = ("family".into(), "cores".into());
    let taken = |per_node| QuotaUse { names: vec![Arc::clone(&family), Arc::clone(&region)], per_node };
    let quotas = Quotas {
        by_name: BTreeMap::from([
            (Arc::clone(&family), Quota { used: 20, limit: 40 }),
            (Arc::clone(&region), Quota { used: 50, limit: 100 }),
        ]),
        groups: BTreeMap::from([("web".into(), taken(4)), ("big".into(), taken(8))]),
    };
    QuotaReading { quotas, targets: targets.map(|(name, target)| (name.into(), target)).into() }
}

fn headrooms(reading: &QuotaReading, views: &[&GroupView]) -> Headrooms {
    let mut headrooms = Headrooms::default();
    headrooms.add(reading, views, &HashMap::new());
    headrooms
}

fn nodes(headrooms: &Headrooms, name: &str) -> Option<u32> {
    headrooms.of(&key(name)).map(|headroom| headroom.nodes)
}

#[tokio::test]
async fn each_group_gets_all_that_is_left_of_its_scarcest_quota() {
    let (web, big, other) = (view("web", 3, 0, 0), view("big", 1, 0, 0), view("other", 1, 0, 0));
    let left = headrooms(&reading([("web", 3), ("big", 1)]), &[&web, &big, &other]);
    assert_eq!((nodes(&left, "web"), nodes(&left, "big"), nodes(&left, "other")), (Some(5), Some(2), None));
    assert_eq!((left.max(&web), left.max(&big), left.max(&other)), (8, 3, 20));
    assert_eq!(left.limiting(&web).map(|headroom| &*headroom.quota), Some("family"));
    assert_eq!(left.limiting(&other), None);
}

#[tokio::test]
async fn increases_since_the_reading_count_for_all_groups_of_the_family() {
    let (web, big) = (view("web", 3, 2, 0), view("big", 1, 0, 0));
    let left = headrooms(&reading([("web", 3), ("big", 1)]), &[&web, &big]);
    assert_eq!((nodes(&left, "web"), nodes(&left, "big")), (Some(3), Some(1)));
    // The VMs are listed now; the next reading has them.
    let web = view("web", 5, 0, 0);
    assert_eq!(nodes(&headrooms(&reading([("web", 3), ("big", 1)]), &[&web, &big]), "web"), Some(3));
    assert_eq!(nodes(&headrooms(&reading([("web", 5), ("big", 1)]), &[&web, &big]), "web"), Some(5));
}

#[tokio::test]
async fn what_failed_takes_no_quota_and_what_was_given_back_counts_from_the_next_reading_on() {
    let (web, big) = (view("web", 3, 0, 2), view("big", 1, 0, 0));
    assert_eq!(nodes(&headrooms(&reading([("web", 3), ("big", 1)]), &[&web, &big]), "web"), Some(5));
    let smaller = view("web", 1, 0, 0);
    assert_eq!(nodes(&headrooms(&reading([("web", 3), ("big", 1)]), &[&smaller, &big]), "web"), Some(5));
}

#[tokio::test]
async fn the_maximum_is_never_below_the_target_and_never_above_the_groups_own() {
    let used_up = |limit| {
        let mut reading = reading([("web", 3), ("big", 1)]);
        reading.quotas.by_name.insert("family".into(), Quota { used: 60, limit });
        reading
    };
    let web = view("web", 3, 0, 0);
    assert_eq!(headrooms(&used_up(40), &[&web]).max(&web), 3);
    assert_eq!(headrooms(&used_up(400), &[&web]).max(&web), 15, "the region's");
    let at_max = GroupView { max: 5, ..view("web", 3, 0, 0) };
    assert_eq!(headrooms(&used_up(400), &[&at_max]).max(&at_max), 5);
    let above_max = GroupView { max: 2, ..view("web", 3, 0, 0) };
    assert_eq!(headrooms(&used_up(40), &[&above_max]).max(&above_max), 2, "as without quotas");
}
