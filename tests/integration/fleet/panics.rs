//! A panic in a task, as a bug in Headcount or a library would cause it: it is counted and shown, the task starts
//! again, and the responses for other groups do not change.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use headcount::cloud::*;
use headcount::clouds::simulated::{Accounting, GroupPlan, LaunchOutcome, Pick, Simulated};
use headcount::fleet::{Cadence, Fleet, Mutation, Policies, Settings};
use headcount::instance_types::Catalog;
use tokio::time::{Instant, sleep, timeout};

use super::fixture::{limit, named, no_capacity, seconds};

/// A cloud that panics in the calls that are named, for one group or, where a call is about none, always.
struct Defective {
    cloud: Simulated,
    calls: Mutex<BTreeSet<&'static str>>,
    /// How often it has panicked.
    panics: AtomicUsize,
}

impl Defective {
    fn panic_in(&self, call: &'static str, group: Option<&GroupName>) {
        let is_named = self.calls.lock().expect("not poisoned").contains(call);
        let is_defective = is_named && group.is_none_or(|group| group.as_str() == "g");
        self.panics.fetch_add(usize::from(is_defective), Ordering::Relaxed);
        assert!(!is_defective, "a defect in {call}");
    }
}

#[async_trait]
impl Cloud for Defective {
    async fn list(&self) -> Result<Listing, CloudError> {
        self.panic_in("list", None);
        self.cloud.list().await
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.panic_in("observe", Some(group));
        self.cloud.observe(group).await
    }

    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.panic_in("read_capacity", Some(group));
        self.cloud.read_capacity(group).await
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        self.panic_in("launch_activity", Some(group));
        self.cloud.launch_activity(group, shortfall).await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        self.panic_in("follow", None);
        self.cloud.follow(handle).await
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        self.panic_in("launch_spec", Some(&reading.name));
        self.cloud.launch_spec(reading).await
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        self.cloud.instance_types(names).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.cloud.all_instance_types().await
    }

    pass_on_what_calls_nothing!();
}

#[async_trait]
impl WritableCloud for Defective {
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        self.panic_in("set_capacity", Some(&basis.name));
        self.cloud.set_capacity(basis, to).await
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        self.panic_in("delete_instances", Some(&basis.name));
        self.cloud.delete_instances(basis, ids).await
    }
}

struct Fixture {
    fleet: Fleet,
    defective: Arc<Defective>,
}

impl Fixture {
    /// The groups `g` and `h` of a cloud that is defective in these calls, and `other` of a sound one.
    fn start(calls: &[&'static str]) -> Self {
        let plans = ["g", "h"].map(|name| GroupPlan::azure(name).sized(0, 9, 3).accounting(Accounting::WhenGone));
        let cloud = Simulated::with_groups(3, plans);
        let calls = Mutex::new(calls.iter().copied().collect());
        let defective = Arc::new(Defective { cloud, calls, panics: AtomicUsize::new(0) });
        let sound = Arc::new(Simulated::with_groups(4, [GroupPlan::aws("other").sized(0, 9, 2)]));
        let fleet = Fleet::start(Settings {
            sources: vec![
                ("defective".into(), Arc::clone(&defective) as SharedCloud),
                ("sound".into(), sound as SharedCloud),
            ],
            cadence: Cadence::new(Duration::from_secs(5), None),
            catalog: Arc::new(Catalog::new(Vec::new())),
            policies: Arc::new(Policies::default()),
            read_only: false,
        });
        Self { fleet, defective }
    }

    fn break_down(&self, call: &'static str) {
        self.defective.calls.lock().expect("not poisoned").insert(call);
    }

    fn repair(&self) {
        self.defective.calls.lock().expect("not poisoned").clear();
    }

    fn target(&self, group: &str) -> Option<u32> {
        self.fleet.snapshot().group(group).map(|(_, view)| view.status.target)
    }

    fn panics(&self) -> u64 {
        self.fleet.tasks().failed().iter().map(|(_, health)| health.failures).sum()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let wait = async {
            while !holds(self) {
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(Duration::from_secs(600), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    /// Checks that the groups without the defect are served and can be written.
    async fn others_are_well(&self) {
        for group in ["h", "other"] {
            let before = self.target(group).expect("served");
            self.fleet.mutate(group, Mutation::Increase(1), limit(5)).await.expect(group);
            assert_eq!(self.target(group), Some(before + 1));
        }
        assert!(self.fleet.refresh(Instant::now() + Duration::from_secs(5)).await.is_ok());
    }

    async fn grow(&self) -> Result<(), headcount::fleet::FleetError> {
        self.fleet.mutate("g", Mutation::Increase(1), limit(5)).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_is_never_ready_with_an_empty_list() {
    let fixture = Fixture::start(&["list"]);
    fixture.until("the panics are counted", |fixture| fixture.panics() > 2).await;
    assert!(!fixture.fleet.is_ready());
    assert!(fixture.fleet.problem_summaries().iter().any(|line| line.starts_with("source defective: panicked")));
    sleep(Duration::from_secs(90)).await;
    assert!(fixture.fleet.is_ready(), "the other source is served after a minute");
    assert_eq!((fixture.target("g"), fixture.target("other")), (None, Some(2)));
    fixture.repair();
    fixture.until("it is listed again", |fixture| fixture.target("g") == Some(3)).await;
    fixture.others_are_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_later_keeps_its_groups() {
    let fixture = Fixture::start(&[]);
    fixture.until("it is ready", |fixture| fixture.fleet.is_ready()).await;
    fixture.break_down("list");
    fixture.until("the panics are counted", |fixture| fixture.panics() > 3).await;
    assert_eq!(fixture.target("g"), Some(3));
    fixture.grow().await.expect("writes read for themselves");
    fixture.others_are_well().await;
    fixture.repair();
    let panics = fixture.panics();
    sleep(Duration::from_secs(300)).await;
    assert!(fixture.panics() <= panics + 1);
    assert!(fixture.fleet.problem_summaries().is_empty(), "{:?}", fixture.fleet.problem_summaries());
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_panics_starts_again_and_its_last_status_is_served_meanwhile() {
    for call in ["read_capacity", "set_capacity"] {
        let fixture = Fixture::start(&[]);
        fixture.until("it is ready", |fixture| fixture.fleet.is_ready()).await;
        fixture.break_down(call);
        assert!(fixture.grow().await.is_err(), "{call}");
        assert_eq!((fixture.target("g"), fixture.panics()), (Some(3), 1), "{call}");
        fixture.others_are_well().await;
        fixture.repair();
        fixture.fleet.refresh(Instant::now() + Duration::from_secs(5)).await.expect("refreshed");
        sleep(Duration::from_secs(20)).await;
        fixture.grow().await.unwrap_or_else(|error| panic!("{call}: {error}"));
        assert_eq!(fixture.target("g"), Some(4), "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_removed_after_its_keeper_panicked_is_no_longer_served() {
    let fixture = Fixture::start(&[]);
    fixture.until("it is ready", |fixture| fixture.fleet.is_ready()).await;
    fixture.break_down("set_capacity");
    assert!(fixture.grow().await.is_err());
    assert!(fixture.defective.cloud.remove_group("g"));
    fixture.repair();
    fixture.until("it is gone", |fixture| fixture.target("g").is_none()).await;
    fixture.others_are_well().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_side_work_of_a_keeper_changes_nothing_else() {
    for call in ["observe", "launch_activity", "launch_spec", "follow"] {
        let fixture = Fixture::start(&[call]);
        fixture.until("it is ready", |fixture| fixture.fleet.is_ready()).await;
        if fixture.target("g").is_some() {
            // So that readings show that instances are missing.
            let fails = LaunchOutcome::fails(no_capacity(), seconds(20));
            let failing = |plan: &mut GroupPlan| *plan = plan.clone().launches(Pick::Always, fails);
            fixture.defective.cloud.replan("g", failing).expect("it exists");
            fixture.grow().await.unwrap_or_else(|error| panic!("{call}: {error}"));
            let doomed = {
                let snapshot = fixture.fleet.snapshot();
                snapshot.group("g").expect("served").1.status.instances[0].id.clone()
            };
            fixture.fleet.mutate("g", Mutation::Delete(named(&[doomed])), limit(5)).await.expect(call);
        }
        sleep(Duration::from_secs(120)).await;
        fixture.others_are_well().await;
        assert!(fixture.defective.panics.load(Ordering::Relaxed) > 0, "{call} is never called");
        fixture.repair();
        sleep(Duration::from_secs(1200)).await;
        fixture.until("it is served as before", |fixture| fixture.target("g").is_some()).await;
        fixture.grow().await.unwrap_or_else(|error| panic!("{call}: {error}"));
        assert!(fixture.defective.cloud.killed_unnamed().is_empty());
    }
}
