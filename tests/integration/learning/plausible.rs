//! Figures that cannot be true, from a node or from whoever writes the ConfigMap.

use headcount::instance_types::{Learned, ResourceQuantities, Sold};

use super::{HIGH, LOW, seen};
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::learning::fixture::{CONFIG_MAP, Fixture, NAMESPACE};

#[tokio::test]
async fn absurd_figures_in_the_config_map_are_not_served_and_are_removed() {
    let mut fixture = Fixture::new(ApiServer::plain()).await;
    let before = fixture.memory("web").await;
    fixture.api.set_nodes([mk_node("one", &fixture.node("web", 0), HIGH)]);
    let text = fixture.kept("one").await;
    let (memory, cpu, pods) = (format!("\"{HIGH}Ki\""), "\"cpu\":\"2\"", "\"pods\":\"29\"");
    for (figure, absurd) in [
        (memory.as_str(), "\"1000Ti\""),
        (memory.as_str(), "\"1\""),
        (cpu, "\"cpu\":\"64\""),
        (cpu, "\"cpu\":\"1m\""),
        (pods, "\"pods\":\"10000\""),
    ] {
        let with_absurd = text.replace(figure, absurd);
        assert_ne!(with_absurd, text);
        fixture.api.write_config_map(NAMESPACE, CONFIG_MAP, &[("learned.json", &with_absurd)]);
        fixture.api.set_nodes([]);
        fixture.restart().await;
        fixture.looked_again().await;
        assert_eq!(fixture.memory("web").await, before, "{absurd}");
        fixture.removed(absurd).await;
    }
    // GPUs that the type does not have; the other figures are good.
    let absurd = text.replace(cpu, &format!("\"nvidia.com/gpu\":\"8\",{cpu}"));
    fixture.api.write_config_map(NAMESPACE, CONFIG_MAP, &[("learned.json", &absurd)]);
    fixture.restart().await;
    fixture.memory_from("web", &seen("one")).await;
    assert!(!fixture.has("web", "capacity.nvidia.com/gpu").await);
}

/// The figures of `web` in the text of the ConfigMap: capacity and allocatable.
fn learned_of_web(text: &str) -> (ResourceQuantities, ResourceQuantities) {
    let learned = Learned::parse(text).expect("what Headcount wrote");
    let of_web = learned.by_group(&|_| Sold::default()).remove("sim/web").expect("web");
    (of_web["m5.large"].capacity.clone(), of_web["m5.large"].allocatable.clone())
}

#[tokio::test]
async fn one_node_of_four_with_absurd_figures_changes_nothing() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    let good = [("one", LOW), ("two", HIGH), ("three", HIGH)];
    let good = good.map(|(name, memory)| mk_node(name, &fixture.node("web", 0), memory));
    fixture.api.set_nodes(good.clone());
    assert_eq!(fixture.memory_from("web", &seen("one")).await, format!("{LOW}Ki"));
    let before = learned_of_web(&fixture.kept("one").await);
    let template = (fixture.memory("web").await, fixture.allocatable("web").await);
    let absurd = [("memory", None, "1Ki"), ("memory", Some("1Ki"), "1Ki"), ("cpu", Some("1m"), "1m")];
    for (number, (name, capacity, allocatable)) in (1..).zip(absurd.into_iter().chain([("pods", Some("1"), "1")])) {
        let mut bad = mk_node("bad", &fixture.node("web", 1), HIGH);
        bad.capacity.extend(capacity.map(|amount| (name, amount.to_owned())));
        bad.allocatable.insert(name, allocatable.to_owned());
        // The server sends its event after that of the bad node, so what is learned from it was learned with the bad
        // node in sight.
        let witness = format!("witness-{number}");
        let later = mk_node(&witness, &fixture.node("other", 0), HIGH - 1000 * number);
        fixture.api.set_nodes(good.clone().into_iter().chain([bad, later]));
        let text = fixture.kept(&witness).await;
        assert_eq!(learned_of_web(&text), before, "{name}");
        assert!(!text.contains("\"bad\""), "{text}");
        fixture.looked_again().await;
        assert_eq!((fixture.memory("web").await, fixture.allocatable("web").await), template, "{name}");
    }
}
