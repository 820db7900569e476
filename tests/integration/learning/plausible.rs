//! Figures that cannot be true, from a node or from whoever writes the ConfigMap.

use super::{HIGH, LOW, seen};
use crate::emulators::kubernetes::{ApiServer, MkNode, mk_node};
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

#[tokio::test]
async fn one_node_of_four_with_absurd_figures_changes_nothing() {
    let fixture = Fixture::new(ApiServer::plain()).await;
    let nodes = |bad: MkNode| {
        let good = [("one", LOW), ("two", HIGH), ("three", HIGH)];
        let good = good.map(|(name, memory)| mk_node(name, &fixture.node("web", 0), memory));
        good.into_iter().chain([bad])
    };
    let mut bad = mk_node("bad", &fixture.node("web", 1), HIGH);
    bad.allocatable.insert("memory", "1Ki".to_owned());
    fixture.api.set_nodes(nodes(bad.clone()));
    assert_eq!(fixture.memory_from("web", &seen("one")).await, format!("{LOW}Ki"));
    for (name, amount) in [("memory", "1Ki"), ("cpu", "1m"), ("pods", "1")] {
        let mut bad = mk_node("bad", &fixture.node("web", 1), HIGH);
        bad.capacity.insert(name, amount.to_owned());
        bad.allocatable.insert(name, amount.to_owned());
        fixture.api.set_nodes(nodes(bad));
        fixture.looked_again().await;
        assert_eq!(fixture.memory("web").await.0, format!("{LOW}Ki"), "{name}");
        let text = fixture.kept("one").await;
        assert!(!text.contains("\"bad\""), "{text}");
    }
}
