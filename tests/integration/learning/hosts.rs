//! What is missing on the hosts of a type, which nodes of one group show for the templates of all.

use super::{HIGH, LOW, seen};
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::learning::fixture::{CONFIG_MAP, Fixture, NAMESPACE};

#[tokio::test]
async fn the_worse_host_of_one_groups_nodes_lowers_the_template_of_another_group() {
    let mut fixture = Fixture::new(ApiServer::plain()).await;
    let (before, _) = fixture.memory("other").await;
    fixture.api.set_nodes([mk_node("low", &fixture.node("web", 0), LOW)]);
    fixture.memory_from("web", &seen("low")).await;
    let (after, provenance) = fixture.memory_of("other", |_, provenance| provenance.contains("node low")).await;
    assert!(provenance.contains("less host (learned from node low, "), "{provenance}");
    let kib = |text: &str| text.parse::<headcount::instance_types::Quantity>().expect("memory").whole() / 1024;
    assert!(kib(&after) < kib(&before) && kib(&after) < LOW && kib(&after) > LOW - 100_000, "{after}, before {before}");
    // It survives a restart without nodes, and a group whose nodes were on the better hosts counts with the worse one.
    fixture.kept("low").await;
    fixture.api.set_nodes([mk_node("high", &fixture.node("other", 0), HIGH)]);
    let (lowered, _) = fixture.memory_of("other", |_, provenance| provenance.starts_with(&seen("low"))).await;
    assert!(kib(&lowered).abs_diff(LOW) < 8, "{lowered}");
    fixture.restart().await;
    assert_eq!(fixture.memory_from("other", &seen("low")).await, lowered);
}

#[tokio::test]
async fn a_figure_that_no_node_has_shown_for_sixty_days_is_not_served() {
    let mut fixture = Fixture::new(ApiServer::plain()).await;
    let before = fixture.memory("web").await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), LOW)]);
    let text = fixture.kept("one").await;
    fixture.api.set_nodes([]);
    let today = text.split("\"last\":\"").nth(1).and_then(|rest| rest.get(..10)).expect("a day").to_owned();
    let old = text.replace(&today, "2020-01-01");
    fixture.api.write_config_map(NAMESPACE, CONFIG_MAP, &[("learned.json", &old)]);
    fixture.restart().await;
    fixture.looked_again().await;
    assert_eq!(fixture.memory("web").await, before);
}
