//! The index of instances, and which instances are listed.

use std::time::Duration;

use tokio::time::advance;

use super::*;
use crate::cloud::InstanceState;

const MOVED: &str = "aws:///us-east-1a/i-1";

fn key(name: &str) -> GroupKey {
    GroupKey { source: "aws".into(), name: name.into() }
}

fn reported(id: &str) -> ReportedInstance {
    let exists = !id.contains("placeholder");
    ReportedInstance { id: id.into(), state: InstanceState::Running, failure: None, exists }
}

fn view(name: &str, ids: &[&str]) -> GroupView {
    GroupView::with_instances(key(name), ids.iter().map(|id| reported(id)).collect())
}

impl Store {
    /// The groups "old" and "new" of which only "old" lists the instance.
    fn before_the_move() -> Self {
        let store = Self::default();
        store.publish(view("old", &[MOVED]));
        store.publish(view("new", &[]));
        store
    }

    fn group_of(&self, id: &str) -> Option<String> {
        self.load().group_of(id).map(|(group, _)| group.to_string())
    }

    fn listed(&self, name: &str) -> Vec<String> {
        let view = self.view(&key(name)).expect("a served group");
        view.listed(Instant::now()).map(|reported| reported.id.as_str().to_owned()).collect()
    }

    /// Publishes both groups every minute for more than the time that gone nodes are remembered. The instance must be
    /// in "new" all the time.
    async fn stays_in_new(&self) {
        let minutes = GONE_NODE_LIFE.as_secs() / 60 + 2;
        for minute in 0..minutes {
            assert_eq!(self.group_of(MOVED).as_deref(), Some("new"), "after {minute} minutes");
            assert_eq!((self.listed("old").len(), self.listed("new")), (0, vec![MOVED.to_owned()]), "{minute}");
            advance(Duration::from_secs(60)).await;
            self.publish(view("old", &[]));
            self.publish(view("new", &[MOVED]));
        }
    }
}

/// Auto Scaling groups `web` and `us/web` in the source `us`, and `web` in `west`.
#[tokio::test(start_paused = true)]
async fn no_two_groups_are_served_under_one_id() {
    let key = |source: &str, name: &str| GroupKey { source: source.into(), name: name.into() };
    let keys = [key("us", "web"), key("us", "us/web"), key("west", "web")];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let store = Store::default();
        for _ in 0..2 {
            for number in order {
                let reported = vec![reported(&format!("aws:///us-east-1a/i-{number}"))];
                store.publish(GroupView::with_instances(keys[number].clone(), reported));
            }
        }
        let snapshot = store.load();
        let mut served: Vec<_> = snapshot.groups().map(|(_, view)| view.key.clone()).collect();
        let mut all = keys.to_vec();
        served.sort();
        all.sort();
        assert_eq!(served, all, "{order:?}");
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(
                store.group_of(&format!("aws:///us-east-1a/i-{number}")).as_deref(),
                Some(&*store.served_id(key))
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_moves_belongs_to_its_new_group_if_the_old_one_loses_it_later() {
    let store = Store::before_the_move();
    store.publish(view("new", &[MOVED]));
    assert_eq!(store.group_of(MOVED).as_deref(), Some("new"));
    store.publish(view("old", &[MOVED]));
    assert_eq!(store.group_of(MOVED).as_deref(), Some("new"), "the old list does not take it back");
    store.publish(view("old", &[]));
    store.stays_in_new().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_moves_belongs_to_its_new_group_if_the_old_one_loses_it_first() {
    let store = Store::before_the_move();
    store.publish(view("old", &[]));
    assert_eq!(store.group_of(MOVED).as_deref(), Some("old"), "its node outlives it");
    store.publish(view("new", &[MOVED]));
    store.stays_in_new().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_moves_belongs_to_its_new_group_if_the_old_one_is_retired() {
    let store = Store::before_the_move();
    store.publish(view("new", &[MOVED]));
    store.retire(&key("old"));
    assert_eq!(store.group_of(MOVED).as_deref(), Some("new"));
    store.publish(view("new", &[MOVED]));
    assert_eq!(store.listed("new"), [MOVED]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_moves_back_belongs_to_the_group_that_lists_it() {
    for is_retired in [false, true] {
        let store = Store::before_the_move();
        store.publish(view("new", &[MOVED]));
        match is_retired {
            true => drop(store.retire(&key("new"))),
            false => drop(store.publish(view("new", &[]))),
        }
        store.publish(view("old", &[MOVED]));
        assert_eq!((store.group_of(MOVED).as_deref(), store.listed("old")), (Some("old"), vec![MOVED.to_owned()]));
        advance(GONE_NODE_LIFE + UNLISTED_FOR).await;
        store.publish(view("old", &[MOVED]));
        assert_eq!(store.group_of(MOVED).as_deref(), Some("old"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_gone_instance_belongs_to_its_group_for_ten_minutes_and_a_placeholder_at_once_to_none() {
    let store = Store::before_the_move();
    let placeholder = "aws:///us-east-1a/i-placeholder-old-0";
    store.publish(view("old", &[MOVED, placeholder]));
    assert_eq!(store.group_of(placeholder).as_deref(), Some("old"));
    store.publish(view("old", &[]));
    assert_eq!((store.group_of(MOVED).as_deref(), store.group_of(placeholder)), (Some("old"), None));
    advance(GONE_NODE_LIFE + Duration::from_secs(1)).await;
    assert_eq!(store.group_of(MOVED), None);
    store.publish(view("old", &[]));
    assert!(store.load().index.is_empty(), "nothing is remembered for longer");
}

#[tokio::test(start_paused = true)]
async fn a_new_instance_is_listed_at_once_on_request() {
    let store = Store::before_the_move();
    store.list_new_at_once();
    store.publish(view("old", &[MOVED, "i-2"]));
    assert_eq!(store.listed("old"), [MOVED, "i-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_instance_is_listed_later_and_one_that_reappears_at_once() {
    let store = Store::before_the_move();
    store.publish(view("old", &[MOVED, "i-2"]));
    assert_eq!(store.listed("old"), [MOVED], "the other is new");
    advance(UNLISTED_FOR / 2).await;
    store.publish(view("old", &[MOVED, "i-2"]));
    assert_eq!(store.listed("old"), [MOVED], "a publication does not make it older");
    advance(UNLISTED_FOR / 2).await;
    assert_eq!(store.listed("old"), [MOVED, "i-2"]);
    store.publish(view("old", &[MOVED]));
    store.publish(view("old", &[MOVED, "i-2"]));
    assert_eq!(store.listed("old"), [MOVED, "i-2"], "it was a node of this group before");
}

#[test]
fn a_change_returns_the_ids_that_nothing_is_served_under_any_more() {
    let store = Store::default();
    let of = |source: &str| {
        let key = GroupKey { source: source.into(), name: "web".into() };
        GroupView::with_instances(key, Vec::new())
    };
    assert!(store.publish(of("us")).is_empty() && store.publish(of("us")).is_empty());
    assert_eq!(store.publish(of("eu")), ["web".into()], "the other one is us/web from now on");
    assert_eq!(store.retire(&of("eu").key), ["eu/web".into(), "us/web".into()], "it is web again");
    assert_eq!(store.retire_all(&of("us").key), ["web".into()]);
}

#[test]
fn a_group_whose_name_looks_like_the_id_of_another_one_is_another_one() {
    let store = Store::default();
    let of = |source: &str, name: &str| {
        GroupView::with_instances(GroupKey { source: source.into(), name: name.into() }, Vec::new())
    };
    store.publish(of("eu", "us/web"));
    assert!(store.view(&of("us", "web").key).is_none());
    store.publish(of("us", "web"));
    assert!(store.view(&of("us", "web").key).is_some() && store.view(&of("eu", "us/web").key).is_some());
}
