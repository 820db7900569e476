//! Fits the figures of the memory model to real nodes, and writes instance-types/memory.yaml. docs/templates.md states
//! the rule.

#![expect(clippy::cast_possible_truncation, reason = "figures of a few thousand")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headcount::cloud::{Family, OperatingSystem};
use headcount::instance_types::memory_model::{self, Figure, Figures, Kernel};

use super::observed::Node;
use super::report::median;

/// What Linux 5.12 to 5.19 keeps, in MiB. Nodes alone cannot separate what a kernel keeps from what is missing on the
/// host. The kernel's log of a t3a.medium can: 48 MiB are missing, and with these kernels it keeps 57 MiB more.
const ANCHOR_MIB: i64 = 57;
/// Each of these pairs was seen on one type; the figure of the second follows from that of the first.
const STEPS: [(Kernel, Kernel); 4] = [
    (Kernel::Linux5Late, Kernel::Linux5),
    (Kernel::Linux5, Kernel::Linux4),
    (Kernel::Linux5Late, Kernel::Linux6),
    (Kernel::Linux4, Kernel::RedHat7),
];
/// A crash kernel of that many MiB is the default of RHEL 8 and later below 64 GiB. It also explains the one node with
/// Linux 6.18: with it, as much is missing on its host as on the worst of its class.
const CRASH_MIB: i64 = 256;
/// The least part of the nominal memory by which the two kinds of hosts of one type differ, in thousandths.
const HOSTS_DIFFER: u64 = 8;

type TypeName = (Family, String);

/// The figures that these nodes show.
pub(crate) fn fit(nodes: &[&Node]) -> Figures {
    let nodes: Vec<&Node> =
        nodes.iter().copied().filter(|node| node.operating_system() == OperatingSystem::Linux).collect();
    let mut figures = Figures { kernels: kernels(&nodes), ..Figures::default() };
    let mut by_type: BTreeMap<TypeName, Vec<&Node>> = BTreeMap::new();
    for node in nodes {
        by_type.entry((node.family(), node.type_name.to_ascii_lowercase())).or_default().push(node);
    }
    for ((family, name), nodes) in by_type {
        let missing: Vec<i64> = nodes.iter().map(|node| missing_kib(&figures, node)).collect();
        let (least, most) = (missing.iter().min(), missing.iter().max());
        let Some((least, most)) = least.zip(most) else { continue };
        let figure = Figure {
            mib: ceil_mib(*most),
            nodes: u32::try_from(nodes.len()).expect("few nodes"),
            both_hosts: memory_model::runs_on_two_hosts(&nodes[0].host(None))
                && least.abs_diff(*most) * 1000 >= nodes[0].nominal_kib() * HOSTS_DIFFER,
        };
        match family {
            Family::Aws => figures.aws.insert(name, figure),
            Family::Azure => figures.azure.insert(name, figure),
        };
    }
    figures
}

/// What is missing on a node's host, in KiB.
pub(crate) fn missing_kib(figures: &Figures, node: &Node) -> i64 {
    figures.missing_by_report_kib(node.kernel_generation(), node.nominal_kib(), node.memory_ki)
}

/// The figures of the kernels: the median, over all types that run on one kind of host and were seen with both kernels
/// of a step, of the difference between the medians of both.
fn kernels(nodes: &[&Node]) -> BTreeMap<Kernel, Figure> {
    let mut by_type: BTreeMap<TypeName, BTreeMap<Kernel, Vec<f64>>> = BTreeMap::new();
    let mut counts: BTreeMap<Kernel, u32> = BTreeMap::new();
    for node in nodes {
        let Some(kernel) = node.kernel_generation() else { continue };
        *counts.entry(kernel).or_default() += 1;
        if memory_model::runs_on_two_hosts(&node.host(None)) {
            continue;
        }
        let kept = memory_model::kept_and_missing_kib(node.nominal_kib(), node.memory_ki) as f64 / 1024.0;
        let of_type = by_type.entry((node.family(), node.type_name.to_ascii_lowercase())).or_default();
        of_type.entry(kernel).or_default().push(kept);
    }
    let mut mib = BTreeMap::from([(Kernel::Linux5Late, ANCHOR_MIB)]);
    for (from, to) in STEPS {
        let differences = by_type
            .values()
            .filter_map(|of_type| Some(median(of_type.get(&to)?.clone()) - median(of_type.get(&from)?.clone())));
        let step = (median(differences.collect()) * 63.0 / 64.0).round() as i64;
        mib.insert(to, mib[&from] + step);
    }
    let late = mib[&Kernel::Linux6] + CRASH_MIB;
    mib.extend([(Kernel::Linux6Late, late), (Kernel::RedHat8, late)]);
    let figure = |(kernel, mib)| {
        (kernel, Figure { mib, nodes: counts.get(&kernel).copied().unwrap_or_default(), both_hosts: false })
    };
    mib.into_iter().map(figure).collect()
}

fn ceil_mib(kib: i64) -> i64 {
    kib.div_euclid(1024) + i64::from(kib.rem_euclid(1024) > 0)
}

/// The table as it ships.
pub(crate) fn text(figures: &Figures) -> String {
    let mut text = "# Figures of the memory model, in MiB, with the number of nodes that showed each.\n#\n\
                    # Written by `HEADCOUNT_WRITE_DOCS=1 cargo test --test integration accuracy` from tests/data/real-nodes.jsonl, whose\n\
                    # lines name their sources; do not edit. docs/templates.md states the rule by which they are fitted.\n#\n\
                    # kernels: what a generation of kernels and its images keep. No node with el8 is known.\n"
        .to_owned();
    text.push_str("kernels:\n");
    for kernel in Kernel::ALL {
        if let Some(Figure { mib, nodes, .. }) = figures.kernels.get(&kernel) {
            let _ = writeln!(text, "  \"{}\": {{mib: {mib}, nodes: {nodes}}}", kernel.key());
        }
    }
    text.push_str("# What is missing on the worst host of a type before its kernel starts.\n");
    for (name, types) in [("aws", &figures.aws), ("azure", &figures.azure)] {
        let _ = writeln!(text, "{name}:");
        for (name, Figure { mib, nodes, both_hosts }) in types {
            let both = if *both_hosts { ", both_hosts: true" } else { "" };
            let _ = writeln!(text, "  {name}: {{mib: {mib}, nodes: {nodes}{both}}}");
        }
    }
    text
}

/// Splits nodes into folds at random, by a seed; returns for each fold the nodes to train on and those to test.
pub(crate) fn folds(nodes: &[Node], seed: u64) -> Vec<(Vec<&Node>, Vec<&Node>)> {
    const FOLDS: usize = 5;
    let mut order: Vec<&Node> = nodes.iter().collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    let fold = |number: usize| {
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for (at, node) in order.iter().enumerate() {
            if at % FOLDS == number { test.push(*node) } else { train.push(*node) }
        }
        (train, test)
    };
    (0..FOLDS).map(fold).collect()
}

/// Errors of estimates whose figures were fitted without the nodes that they are for, in percent of the capacity.
#[derive(Default)]
pub(crate) struct CrossValidated {
    /// Without a margin, for nodes whose kernel is known and whose type was seen with another image.
    pub(crate) unbiased: Vec<f64>,
    /// The estimates as they ship.
    pub(crate) shipped: Vec<f64>,
    /// Those of nodes whose image is known.
    pub(crate) shipped_of_known: Vec<f64>,
}

pub(crate) fn cross_validate(nodes: &[Node]) -> CrossValidated {
    const SEEDS: u64 = 5;
    let mut errors = CrossValidated::default();
    for (train, test) in (0..SEEDS).flat_map(|seed| folds(nodes, seed)) {
        let figures = fit(&train);
        for node in test.into_iter().filter(|node| node.operating_system() == OperatingSystem::Linux) {
            let percent = |kib: u64| (kib as f64 / node.memory_ki as f64 - 1.0) * 100.0;
            let error = percent(figures.estimate_kib(&node.host(node.node_image()), node.nominal_kib()));
            errors.shipped.push(error);
            errors.shipped_of_known.extend(node.node_image().map(|_| error));
            let Some(kernel) = node.kernel_generation() else { continue };
            let others = train.iter().filter(|other| {
                let same_type =
                    other.family() == node.family() && other.type_name.eq_ignore_ascii_case(&node.type_name);
                same_type && (&other.image, &other.kernel) != (&node.image, &node.kernel)
            });
            let others: Vec<f64> = others.map(|other| missing_kib(&figures, other) as f64).collect();
            if !others.is_empty() {
                let missing = median(others) as i64;
                errors.unbiased.push(percent(figures.unbiased_kib(kernel, missing, node.nominal_kib())));
            }
        }
    }
    errors
}
