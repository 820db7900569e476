use super::*;
use crate::cloud::Family;

fn day(text: &str) -> Day {
    Day::parse(text).unwrap()
}

fn written(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// What a cloud sells as an m5.large.
fn sold(type_name: &str) -> Sold {
    assert_eq!(type_name, "m5.large");
    Sold { cpu: Some(Quantity::units(2)), memory: Quantity::mebibytes(8192), accelerators: Some(Quantity::ZERO) }
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

fn learn(learned: &mut Learned, nodes: &[MkNode], today: &str) -> bool {
    let node_reports: Vec<_> = nodes.iter().filter_map(MkNode::node_report).collect();
    learned.learn(&node_reports, &|node| node.node().starts_with("settled"), &sold, day(today))
}

fn of_web(learned: &Learned) -> Arc<LearnedType> {
    Arc::clone(&learned.by_group(&sold)["us/web"]["m5.large"])
}

fn capacity(learned: &Learned, name: &str) -> Option<String> {
    of_web(learned).capacity.get(name).map(ToString::to_string)
}

#[test]
fn the_lowest_figure_wins_and_keeps_its_node() {
    let mut learned = Learned::default();
    assert!(learn(&mut learned, &[mk_node("a", "7900000Ki"), mk_node("b", "7800000Ki")], "2026-11-01"));
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7800000Ki"));
    assert_eq!(of_web(&learned).provenance.to_string(), "learned from node b, 2026-11-01");
    assert!(!learn(&mut learned, &[mk_node("b", "7800000Ki")], "2026-11-01"), "the same again is nothing new");
    learn(&mut learned, &[mk_node("c", "7900000Ki")], "2026-11-02");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7800000Ki"));
    learn(&mut learned, &[mk_node("d", "7700000Ki")], "2026-11-03");
    assert_eq!(of_web(&learned).provenance.to_string(), "learned from node d, 2026-11-03");
}

#[test]
fn a_minimum_that_no_node_reports_is_forgotten_only_while_there_are_nodes() {
    let mut learned = Learned::default();
    learn(&mut learned, &[mk_node("low", "7000000Ki")], "2026-01-01");
    learn(&mut learned, &[mk_node("high", "7900000Ki")], "2026-01-31");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7000000Ki"));
    learn(&mut learned, &[], "2026-03-20");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7000000Ki"));
    learn(&mut learned, &[mk_node("high", "7900000Ki")], "2026-03-20");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7900000Ki"));
}

#[test]
fn what_no_node_showed_for_sixty_days_is_forgotten() {
    let mut learned = Learned::default();
    learn(&mut learned, &[on_linux(mk_node("a", LOW))], "2026-01-01");
    learn(&mut learned, &[], "2026-03-02");
    assert!(learned.len() == 1 && host(&learned).is_some());
    learn(&mut learned, &[], "2026-03-03");
    assert!(learned.is_empty());
}

/// On a host of an m5.large that lacks some 1 % more than the other kind, and on one of that.
const LOW: &str = "7700000Ki";
const HIGH: &str = "7800000Ki";

fn on_linux(node: MkNode) -> MkNode {
    MkNode { image: "Amazon Linux 2023, kernel 6.1.140-154.222.amzn2023.x86_64", ..node }
}

fn host(learned: &Learned) -> Option<(i64, String)> {
    learned.hosts().get("m5.large").map(|host| (host.missing_kib / 1024, host.by.node.to_string()))
}

#[test]
fn the_worst_host_of_a_type_wins_until_no_node_has_shown_it_for_sixty_days() {
    let mut learned = Learned::default();
    learn(&mut learned, &[on_linux(mk_node("high", HIGH))], "2026-01-01");
    assert_eq!(host(&learned), Some((298, "high".to_owned())));
    learn(&mut learned, &[on_linux(mk_node("low", LOW)), on_linux(mk_node("high", HIGH))], "2026-01-02");
    assert_eq!(host(&learned), Some((397, "low".to_owned())));
    learn(&mut learned, &[on_linux(mk_node("high", HIGH))], "2026-03-03");
    assert_eq!(host(&learned), Some((397, "low".to_owned())));
    learn(&mut learned, &[on_linux(mk_node("high", HIGH))], "2026-03-04");
    learn(&mut learned, &[on_linux(mk_node("high", HIGH))], "2026-03-05");
    assert_eq!(host(&learned), Some((298, "high".to_owned())));
}

#[test]
fn a_node_shows_nothing_of_its_host_if_its_kernel_is_unknown_or_its_image_sets_memory_aside() {
    for node in [mk_node("a", LOW), on_linux(mk_node("a", "6000000Ki")), on_linux(mk_node("a", "8388608Ki"))] {
        let mut learned = Learned::default();
        learn(&mut learned, &[node], "2026-01-01");
        assert_eq!(host(&learned), None);
    }
    let mut learned = Learned::default();
    let without_dump = MkNode { image: "Rocky Linux 9.3, kernel 5.14.0-427.el9.x86_64", ..mk_node("a", HIGH) };
    learn(&mut learned, &[without_dump], "2026-01-01");
    assert!(host(&learned) > Some((350, String::new())), "the kernel may have set nothing aside for a crash dump");
}

#[test]
fn groups_of_a_type_with_two_kinds_of_hosts_are_on_the_worse_one() {
    let mut learned = Learned::default();
    learn(&mut learned, &[on_linux(mk_node("high", HIGH))], "2026-01-01");
    let other = NodeReport { group: "us/other".to_owned(), ..on_linux(mk_node("low", LOW)).node_report().unwrap() };
    learned.learn(&[other], &|_| false, &sold, day("2026-01-02"));
    let web = of_web(&learned);
    let memory = web.entry.memory.unwrap().whole() / 1024;
    assert!(memory.abs_diff(7_700_000) < 8, "{memory}");
    assert_eq!(web.provenance.to_string(), "learned from node low, 2026-01-02");
    assert_eq!(web.capacity["memory"].to_string(), HIGH, "what the node reserves is computed from its own report");
}

#[test]
fn a_figure_that_the_type_cannot_have_is_not_learned() {
    let judged = |memory: &'static str, more: &[(&'static str, &'static str)]| {
        let node = MkNode { more: more.to_vec(), ..mk_node("a", memory) };
        let (report, found) = node.node_report().unwrap().judged(&sold);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        (report.map(|report| report.capacity.keys().cloned().collect::<Vec<_>>().join(" ")), found.join("; "))
    };
    let usual = Some("cpu memory pods".to_owned());
    assert_eq!(judged("7900000Ki", &[]), (usual.clone(), String::new()));
    for (memory, more, why) in [
        ("1Ki", vec![], "memory is 1Ki, and can only be 5888Mi to 8Gi"),
        ("1024Ti", vec![], "memory is 1Pi, and can only be 5888Mi to 8Gi"),
        ("7900000Ki", vec![("cpu", "1m")], "cpu is 1m, and can only be 1 to 2"),
        ("7900000Ki", vec![("cpu", "64")], "cpu is 64, and can only be 1 to 2"),
        ("7900000Ki", vec![("pods", "1")], "pods is 1, and can only be 4 to 1k"),
        ("7900000Ki", vec![("pods", "10000")], "pods is 10k, and can only be 4 to 1k"),
    ] {
        let (report, found) = judged(memory, &more);
        assert!(report.is_none() && found.starts_with(why), "{found}");
    }
    for (name, amount, why) in [
        ("nvidia.com/gpu", "8", "nvidia.com/gpu is 8, and can only be 0 to 0"),
        ("ephemeral-storage", "1Ei", "ephemeral-storage is 1Ei, and can only be 1Gi to 128Ti"),
        ("hugepages-2Mi", "9Gi", "hugepages-2Mi is 9Gi, and can only be 0 to 8Gi"),
        ("example.com/fuse", "100000", "example.com/fuse is 100k, and can only be 0 to 10k"),
    ] {
        let (report, found) = judged("7900000Ki", &[(name, amount)]);
        assert_eq!((report, found.as_str()), (usual.clone(), why), "the others are learned");
    }
}

#[test]
fn a_saved_figure_that_the_type_cannot_have_is_dropped() {
    let mut learned = Learned::default();
    learn(&mut learned, &[on_linux(mk_node("a", HIGH))], "2026-01-01");
    let text = learned.to_text();
    let mut absurd = Learned::parse(&text.replace(HIGH, "1024Ti")).unwrap();
    assert_eq!(absurd.judge(&sold).len(), 1);
    assert_eq!(absurd.len(), 0);
    let mut absurd = Learned::parse(&text.replace("\"missingKi\":", "\"missingKi\":9")).unwrap();
    assert_eq!(absurd.judge(&sold), []);
    assert_eq!((absurd.len(), host(&absurd)), (1, None));
    let mut good = Learned::parse(&text).unwrap();
    assert_eq!(good.judge(&sold), []);
    assert_eq!(good, learned);
}

#[test]
fn an_allocatable_share_that_no_kubelet_leaves_is_not_learned() {
    for (name, amount) in [("memory", "1Ki"), ("memory", "8000000Ki"), ("cpu", "1m"), ("pods", "30")] {
        let node = MkNode { healthy: vec![(name, amount)], ..mk_node("a", "7900000Ki") };
        let (report, found) = node.node_report().unwrap().judged(&sold);
        assert!(report.is_none() && found[0].resource.ends_with(name), "{found:?}");
    }
}

#[test]
fn the_image_of_the_newest_node_is_served_even_if_an_older_one_reports_later() {
    let mut learned = Learned::default();
    let old = MkNode { image: "AL2", ..mk_node("old", "7900000Ki") };
    let new = MkNode { created: "2026-11-02T00:00:00Z", ..mk_node("new", "7700000Ki") };
    learn(&mut learned, &[old, new], "2026-11-02");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7700000Ki"));
    learn(&mut learned, &[MkNode { image: "AL2", ..mk_node("old", "7600000Ki") }], "2026-11-03");
    assert_eq!(capacity(&learned, "memory").as_deref(), Some("7700000Ki"));
    let back = MkNode { image: "AL2", created: "2026-11-04T00:00:00Z", ..mk_node("back", "7900000Ki") };
    learn(&mut learned, &[back], "2026-11-04");
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
    learn(&mut learned, &[with(&[("nvidia.com/gpu", "0")], &[])], "2026-11-01");
    assert_eq!(capacity(&learned, "nvidia.com/gpu"), None);
    learn(&mut learned, &[with(&[("nvidia.com/gpu", "8")], &[("nvidia.com/gpu", "7")])], "2026-11-01");
    assert_eq!(capacity(&learned, "nvidia.com/gpu"), None);
    learn(&mut learned, &[with(&[("nvidia.com/gpu", "8")], &[])], "2026-11-01");
    assert_eq!(capacity(&learned, "nvidia.com/gpu").as_deref(), Some("8"));
    learn(&mut learned, &[with(&[("nvidia.com/gpu", "0")], &[])], "2026-11-02");
    assert_eq!(capacity(&learned, "nvidia.com/gpu").as_deref(), Some("8"));
}

#[test]
fn a_device_that_no_settled_node_has_is_forgotten() {
    let mut learned = Learned::default();
    let with =
        |name, more: &[(&'static str, &'static str)]| MkNode { more: more.to_vec(), ..mk_node(name, "7900000Ki") };
    learn(&mut learned, &[with("settled", &[("nvidia.com/gpu", "8")])], "2026-11-01");
    for (why, nodes) in [
        ("its plugin may not have started", vec![with("new", &[])]),
        ("its plugin has failed", vec![with("settled", &[("nvidia.com/gpu", "0")])]),
        ("another node knows it", vec![with("settled", &[]), with("new", &[("nvidia.com/gpu", "0")])]),
        ("the nodes have another image", vec![MkNode { image: "AL2", ..with("settled-2", &[]) }]),
    ] {
        learn(&mut learned, &nodes, "2026-11-02");
        let known = learned.entries.iter().find(|(key, _)| key.image == "AL2023").map(|(_, known)| known);
        assert!(known.is_some_and(|known| known.capacity.contains_key("nvidia.com/gpu")), "{why}");
    }
    learn(&mut learned, &[with("settled", &[]), with("new", &[])], "2026-11-03");
    assert_eq!(capacity(&learned, "nvidia.com/gpu"), None);
}

#[test]
fn a_node_with_divided_gpus_has_no_whole_ones() {
    for divided in ["nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared"] {
        let mut learned = Learned::default();
        let node = MkNode { more: vec![(divided, "56"), ("nvidia.com/gpu", "0")], ..mk_node("gpu", "7900000Ki") };
        learn(&mut learned, &[node], "2026-11-01");
        assert_eq!(capacity(&learned, divided).as_deref(), Some("56"));
        assert_eq!(capacity(&learned, "nvidia.com/gpu").as_deref(), Some("0"), "whatever the cloud says of its type");
    }
}

#[test]
fn a_resource_that_some_nodes_lack_is_not_promised() {
    let mut learned = Learned::default();
    let pages = MkNode { more: vec![("hugepages-2Mi", "1Gi")], ..mk_node("a", "7900000Ki") };
    learn(&mut learned, &[pages, mk_node("b", "7900000Ki")], "2026-11-01");
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
    learn(&mut learned, &[gpu, MkNode { image: "Bottlerocket \"1\"", ..mk_node("b", "7800000Ki") }], "2026-11-01");
    let text = learned.to_text();
    assert_eq!(Learned::parse(&text).unwrap(), learned, "{text}");
}

#[test]
fn a_foreign_text_is_an_error_and_a_broken_entry_is_skipped() {
    let mut learned = Learned::default();
    learn(&mut learned, &[mk_node("a", "7900000Ki")], "2026-11-01");
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
    learned.learn(&crowd(2, 9), &|_| false, &sold, day("2026-10-01"));
    assert_eq!(learned.len(), 2 * IMAGES_MAX);
    learned.learn(&crowd(ENTRIES_MAX, 4), &|_| false, &sold, day("2026-11-01"));
    assert_eq!(learned.len(), ENTRIES_MAX);
    let text = learned.to_text();
    assert!(text.len() < 1 << 20 && !learned.is_empty(), "{}", text.len());
    assert_eq!(Learned::parse(&text).unwrap().len(), learned.len());
}

#[test]
fn the_figures_of_two_replicas_merge_into_the_lower_ones() {
    let (mut one, mut other) = (Learned::default(), Learned::default());
    learn(&mut one, &[mk_node("a", "7900000Ki")], "2026-11-01");
    let old = MkNode { image: "AL2", created: "2026-10-01T00:00:00Z", ..mk_node("c", "1Gi") };
    learn(&mut other, &[mk_node("b", "7800000Ki"), old], "2026-11-02");
    one.union(other);
    assert_eq!(one.len(), 2);
    assert_eq!(of_web(&one).provenance.to_string(), "learned from node b, 2026-11-02");
}
