//! Node groups of one name in two sources. Each is served as `source/name`, and what the configuration sets for one of
//! them is for that one from the beginning.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::fleet::{Policy, TemplateState, ZonePolicy};
use headcount::template::GroupOverrides;
use tokio::time::sleep;
use wildmatch::WildMatch;

use super::fixture::Fixture;

/// The group `web` in the sources `us` and `eu`, with this policy.
fn twins(policy: Policy) -> Fixture {
    let source = |seed| Simulated::with_groups(seed, [GroupPlan::aws("web").sized(0, 10, 0)]);
    Fixture::with_policies([("us", source(1)), ("eu", source(2))], vec![policy])
}

fn of_eu() -> Policy {
    Policy { matches: WildMatch::new("eu/web"), ..Policy::of_all() }
}

fn served(fixture: &Fixture) -> BTreeSet<String> {
    fixture.fleet.snapshot().groups().map(|(id, _)| id.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_template_of_each_has_what_is_set_for_it_alone() {
    let overrides =
        GroupOverrides { labels: [("team".to_owned(), "eu".to_owned())].into(), ..GroupOverrides::default() };
    let fixture = twins(Policy { overrides, ..of_eu() });
    fixture.ready().await;
    for (id, is_set) in [("us/web", false), ("eu/web", true)] {
        let is_built = |fixture: &Fixture| {
            let snapshot = fixture.fleet.snapshot();
            snapshot.group(id).is_some_and(|(_, view)| matches!(view.template, TemplateState::Ready(_)))
        };
        fixture.until("its template is built", is_built).await;
        let snapshot = fixture.fleet.snapshot();
        let TemplateState::Ready(template) = &snapshot.group(id).expect("served").1.template else { panic!("built") };
        let has_label = template.values.iter().any(|value| value.path == "labels.team" && value.value == "eu");
        assert_eq!(has_label, is_set, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_whose_zones_are_served_changes_no_id_from_one_listing_to_the_next() {
    let fixture = twins(Policy { zones: Some(ZonePolicy::Separate), ..of_eu() });
    fixture.ready().await;
    let before = served(&fixture);
    assert!(before.contains("web") && before.len() > 1, "{before:?}");
    assert!(before.iter().all(|id| id == "web" || id.starts_with("web/")), "{before:?}");
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        assert_eq!(served(&fixture), before);
    }
}
