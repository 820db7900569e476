use super::*;
use crate::cloud::Family;

fn day(text: &str) -> Day {
    Day::parse(text).unwrap()
}

fn written(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// A node of `us/web`, m5.large.
struct MkNode {
    name: &'static str,
    image: &'static str,
    created: &'static str,
    memory: &'static str,
    more: Vec<(&'static str, &'static str)>,
    healthy: Vec<(&'static str, &'static str)>,
}

fn mk_node(name: &'static str, memory: &'static str) -> MkNode {
    let created = "2026-11-01T00:00:00Z";
    MkNode { name, image: "AL2023", created, memory, more: Vec::new(), healthy: Vec::new() }
}

impl MkNode {
    fn node_report(&self) -> Option<NodeReport> {
        let identity = NodeIdentity {
            group: "us/web",
            family: Family::Aws,
            type_name: "m5.large",
            image: self.image,
            node: self.name,
            created: self.created,
        };
        let mut capacity = written(&[("cpu", "2"), ("memory", self.memory), ("pods", "29")]);
        let mut allocatable = written(&[("cpu", "1930m"), ("memory", "7000000Ki"), ("pods", "29")]);
        capacity.extend(written(&self.more));
        allocatable.extend(written(&self.more));
        allocatable.extend(written(&self.healthy));
        NodeReport::of(identity, &capacity, &allocatable)
    }
}

fn see(learned: &mut Learned, nodes: &[MkNode], today: &str) -> bool {
    let node_reports: Vec<_> = nodes.iter().filter_map(MkNode::node_report).collect();
    learned.see(&node_reports, day(today))
}

fn of_web(learned: &Learned) -> Arc<LearnedType> {
    Arc::clone(&learned.by_group()["us/web"]["m5.large"])
}

fn capacity(learned: &Learned, name: &str) -> Option<String> {
    of_web(learned).capacity.get(name).map(ToString::to_string)
}

#[test]
fn the_lowest_figure_wins_and_keeps_its_node() {
    let mut learned = Learned::default();
    assert!(see(&mut learned, &[mk_node("a", "7900000Ki"), mk_node("b", "7800000Ki")], "2026-11-01"));
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7800000Ki"));
    assert_eq!(of_web(&learned).provenance.to_string(), "learned from node b, 2026-11-01");
    assert!(!see(&mut learned, &[mk_node("b", "7800000Ki")], "2026-11-01"), "the same again is nothing new");
    see(&mut learned, &[mk_node("c", "7900000Ki")], "2026-11-02");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7800000Ki"));
    see(&mut learned, &[mk_node("d", "7700000Ki")], "2026-11-03");
    assert_eq!(of_web(&learned).provenance.to_string(), "learned from node d, 2026-11-03");
}

#[test]
fn a_minimum_that_no_node_reports_is_forgotten_only_while_there_are_nodes() {
    let mut learned = Learned::default();
    see(&mut learned, &[mk_node("low", "7000000Ki")], "2026-01-01");
    see(&mut learned, &[mk_node("high", "7900000Ki")], "2026-01-31");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7000000Ki"));
    see(&mut learned, &[], "2026-06-01");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7000000Ki"));
    see(&mut learned, &[mk_node("high", "7900000Ki")], "2026-06-01");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7900000Ki"));
}

#[test]
fn the_image_of_the_newest_node_is_served_even_if_an_older_one_reports_later() {
    let mut learned = Learned::default();
    let old = MkNode { image: "AL2", ..mk_node("old", "7900000Ki") };
    let new = MkNode { created: "2026-11-02T00:00:00Z", ..mk_node("new", "7700000Ki") };
    see(&mut learned, &[old, new], "2026-11-02");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7700000Ki"));
    see(&mut learned, &[MkNode { image: "AL2", ..mk_node("old", "7600000Ki") }], "2026-11-03");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7700000Ki"));
    let back = MkNode { image: "AL2", created: "2026-11-04T00:00:00Z", ..mk_node("back", "7900000Ki") };
    see(&mut learned, &[back], "2026-11-04");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7600000Ki"));
}

#[test]
fn devices_are_learned_once_all_of_them_are_healthy_and_are_not_unlearned_while_their_plugin_starts() {
    let mut learned = Learned::default();
    let with = |more: &[(&'static str, &'static str)], healthy: &[(&'static str, &'static str)]| MkNode {
        more: more.to_vec(),
        healthy: healthy.to_vec(),
        ..mk_node("gpu", "7900000Ki")
    };
    see(&mut learned, &[with(&[("nvidia.com/gpu", "0")], &[])], "2026-11-01");
    assert_eq!(capacity(&learned, "nvidia.com/gpu"), None);
    see(&mut learned, &[with(&[("nvidia.com/gpu", "8")], &[("nvidia.com/gpu", "7")])], "2026-11-01");
    assert_eq!(capacity(&learned, "nvidia.com/gpu"), None);
    see(&mut learned, &[with(&[("nvidia.com/gpu", "8")], &[])], "2026-11-01");
    assert_eq!(capacity(&learned, "nvidia.com/gpu").as_deref(), Some("8"));
    see(&mut learned, &[with(&[("nvidia.com/gpu", "0")], &[])], "2026-11-02");
    assert_eq!(capacity(&learned, "nvidia.com/gpu").as_deref(), Some("8"));
}

#[test]
fn a_node_with_divided_gpus_has_no_whole_ones() {
    for divided in ["nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"] {
        let mut learned = Learned::default();
        let node = MkNode { more: vec![(divided, "56"), ("nvidia.com/gpu", "0")], ..mk_node("gpu", "7900000Ki") };
        see(&mut learned, &[node], "2026-11-01");
        assert_eq!(capacity(&learned, divided).as_deref(), Some("56"));
        assert_eq!(capacity(&learned, "nvidia.com/gpu").as_deref(), Some("0"), "whatever the cloud says of its type");
    }
}

#[test]
fn a_resource_that_some_nodes_lack_is_not_promised() {
    let mut learned = Learned::default();
    let pages = MkNode { more: vec![("hugepages-2Mi", "1Gi")], ..mk_node("a", "7900000Ki") };
    see(&mut learned, &[pages, mk_node("b", "7900000Ki")], "2026-11-01");
    assert_eq!(capacity(&learned, "hugepages-2Mi"), None);
}

#[test]
fn an_incomplete_node_is_not_learned_from() {
    for broken in [
        mk_node("a", "0"),
        mk_node("a", "lots"),
        mk_node("a", "-1"),
        mk_node("", "7900000Ki"),
        MkNode { image: "", ..mk_node("a", "7900000Ki") },
    ] {
        assert_eq!(broken.node_report(), None);
    }
}

#[test]
fn a_written_text_is_read_again_unchanged() {
    let mut learned = Learned::default();
    let gpu = MkNode { more: vec![("nvidia.com/gpu", "1"), ("hugepages-2Mi", "1Gi")], ..mk_node("a", "8037167104") };
    see(&mut learned, &[gpu, MkNode { image: "Bottlerocket \"1\"", ..mk_node("b", "7800000Ki") }], "2026-11-01");
    let text = learned.to_text();
    assert_eq!(Learned::parse(&text).unwrap(), learned, "{text}");
}

#[test]
fn a_foreign_text_is_an_error_and_a_broken_entry_is_skipped() {
    let mut learned = Learned::default();
    see(&mut learned, &[mk_node("a", "7900000Ki")], "2026-11-01");
    let text = learned.to_text();
    for (broken, expected) in [
        ("garbage".to_owned(), "cannot be understood"),
        ("{}".to_owned(), "cannot be understood"),
        ("{\"form\":1}".to_owned(), "cannot be understood"),
        (text.replace("\"form\":1", "\"form\":2"), "format version 2"),
    ] {
        let error = Learned::parse(&broken).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    for broken in [text.replace("2026-11-01\"", "some day\""), text.replace("7900000Ki", "plenty")] {
        assert!(Learned::parse(&broken).unwrap().is_empty(), "{broken}");
    }
}

fn crowd(groups: usize, images: usize) -> Vec<NodeReport> {
    let capacity = written(&[("cpu", "2"), ("memory", "7900000Ki"), ("pods", "29")]);
    let node = |group: usize, image: usize| {
        let (group, image) = (format!("us/group-{group:05}"), format!("image {image:03} {}", "x".repeat(200)));
        let created = format!("2026-11-01T00:00:{:02}Z", image.as_bytes()[8] % 60);
        let identity = NodeIdentity {
            group: &group,
            family: Family::Aws,
            type_name: "m5.large",
            image: &image,
            node: &"n".repeat(200),
            created: &created,
        };
        NodeReport::of(identity, &capacity, &capacity).unwrap()
    };
    (0..groups).flat_map(|group| (0..images).map(move |image| node(group, image))).collect()
}

#[test]
fn learned_figures_are_bounded_and_fit_into_a_config_map() {
    let mut learned = Learned::default();
    learned.see(&crowd(2, 9), day("2026-10-01"));
    assert_eq!(learned.len(), 2 * IMAGES_MAX);
    learned.see(&crowd(ENTRIES_MAX, 4), day("2026-11-01"));
    assert_eq!(learned.len(), ENTRIES_MAX);
    let text = learned.to_text();
    assert!(text.len() < 1 << 20 && !learned.is_empty(), "{}", text.len());
    assert_eq!(Learned::parse(&text).unwrap().len(), learned.len());
}

#[test]
fn the_figures_of_two_replicas_merge_into_the_lower_ones() {
    let (mut one, mut other) = (Learned::default(), Learned::default());
    see(&mut one, &[mk_node("a", "7900000Ki")], "2026-11-01");
    let old = MkNode { image: "AL2", created: "2026-10-01T00:00:00Z", ..mk_node("c", "1Gi") };
    see(&mut other, &[mk_node("b", "7800000Ki"), old], "2026-11-02");
    one.union(other);
    assert_eq!(one.len(), 2);
    assert_eq!(of_web(&one).provenance.to_string(), "learned from node b, 2026-11-02");
}
