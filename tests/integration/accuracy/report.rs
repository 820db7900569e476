//! Compares templates with real nodes, and writes docs/measured-templates.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headcount::cloud::Family;
use headcount::instance_types::Quantity;
use headcount::instance_types::memory_model;

use super::ABOVE_MAX;
use super::estimate::{Estimate, Group};
use super::fit;
use super::observed::Node;
use super::picture::{self, Row};

/// The share of memory that Karpenter subtracts for every type.
const KARPENTER: &str = "7.5%";

/// A node and the estimates for it.
pub(crate) struct Comparison<'a> {
    pub(crate) node: &'a Node,
    pub(crate) profile: Option<&'static str>,
    ours: Estimate,
    /// A constant share of nominal memory, and the same reserves.
    constant: Estimate,
}

pub(crate) fn compare(node: &Node) -> Comparison<'_> {
    let practice = node.practice();
    let mut group = Group::of(node, practice.as_ref());
    let ours = group.estimate();
    group.overrides.memory_overhead = Some(KARPENTER.parse().expect("an overhead"));
    let profile = practice.map(|practice| headcount::template::profile_name(practice.profile));
    Comparison { node, profile, ours, constant: group.estimate() }
}

/// The excess over `real`, in percent of `real`.
fn percent_above(estimate: Quantity, real: Quantity) -> f64 {
    (estimate.whole() as f64 / real.whole() as f64 - 1.0) * 100.0
}

impl Comparison<'_> {
    /// The error of allocatable memory; `None` if the profile is unknown or the node reports no allocatable memory.
    pub(crate) fn error(&self) -> Option<f64> {
        self.error_of(self.ours.allocatable["memory"])
    }

    fn error_of(&self, estimate: Quantity) -> Option<f64> {
        self.profile.and_then(|_| self.node.allocatable_memory()).map(|real| percent_above(estimate, real))
    }

    pub(crate) fn capacity_error(&self) -> f64 {
        percent_above(self.ours.capacity["memory"], self.node.memory())
    }

    fn nominal(&self) -> Quantity {
        Quantity::mebibytes(self.node.nominal_memory_mib).expect("a machine's memory")
    }
}

/// The middle value; of an even number of values, the lower of the two in the middle.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    quantile(values, 50)
}

/// By nearest rank.
fn quantile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (percent * values.len()).div_ceil(100);
    values[rank.max(1) - 1]
}

/// The text of docs/measured-templates.md.
pub(crate) fn generated(nodes: &[Node]) -> String {
    let all: Vec<Comparison<'_>> = nodes.iter().map(compare).collect();
    [distributions(&all), cross_validated(nodes), classes(&all), above(&all)].concat()
}

fn distributions(all: &[Comparison<'_>]) -> String {
    const HEAD: &str = "| | nodes | lowest | 5 % | median | 95 % | highest | median absolute error | too high | too high by > 0.5 % |\n\
                        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    let mut text = String::new();
    let known = all.iter().filter(|one| one.error().is_some()).count();
    let _ = writeln!(
        text,
        "## Estimates and nodes\n\nAllocatable memory: the estimate minus the real value, in percent of the real value, over the \
         {known} nodes whose profile is known:\n\n{HEAD}{}",
        lines(
            all,
            |one| one.error(),
            |one| one.error_of(one.constant.allocatable["memory"]),
            |one| { one.error_of(one.nominal()) }
        )
    );
    let _ = writeln!(
        text,
        "The same for the memory capacity of all {} nodes:\n\n{HEAD}{}",
        all.len(),
        lines(
            all,
            |one| Some(one.capacity_error()),
            |one| Some(percent_above(one.constant.capacity["memory"], one.node.memory())),
            |one| Some(percent_above(one.nominal(), one.node.memory())),
        )
    );
    text.push_str(
        "*Constant 7.5 %* is Karpenter's default (`memoryOverhead: 7.5%`) with the same reserves; *nominal memory* is what the\n\
         in-tree providers report; they reserve nothing.\n\n",
    );
    text
}

type ErrorOf<'a> = fn(&Comparison<'a>) -> Option<f64>;

fn lines<'a>(all: &[Comparison<'a>], ours: ErrorOf<'a>, constant: ErrorOf<'a>, nominal: ErrorOf<'a>) -> String {
    let mut text = String::new();
    for (place, family) in [("AWS", Some(Family::Aws)), ("Azure", Some(Family::Azure)), ("both", None)] {
        for (method, error) in [("Headcount", ours), ("constant 7.5 %", constant), ("nominal memory", nominal)] {
            let of_place = all.iter().filter(|one| family.is_none_or(|family| family == one.node.family()));
            let errors: Vec<f64> = of_place.filter_map(error).collect();
            let at = |percent| quantile(errors.clone(), percent);
            let above = |most: f64| errors.iter().filter(|error| **error > most).count();
            let distance = median(errors.iter().map(|error| error.abs()).collect());
            let _ = writeln!(
                text,
                "| {place}, {method} | {} | {:+.2} | {:+.2} | {:+.2} | {:+.2} | {:+.2} | {distance:.2} | {} | {} |",
                errors.len(),
                at(0),
                at(5),
                at(50),
                at(95),
                at(100),
                above(0.0),
                above(ABOVE_MAX),
            );
        }
    }
    text
}

/// Errors of nodes that the figures were not fitted to.
fn cross_validated(nodes: &[Node]) -> String {
    let errors = fit::cross_validate(nodes);
    let mut text = "## Nodes that the figures were not fitted to\n\nFive times, the nodes are split at random into five parts, and each part is \
                    compared with figures fitted to the other four.\nMemory capacity, the estimate minus the real value, in percent of \
                    the real value:\n\n\
                    | | estimates | lowest | 5 % | median | 95 % | highest | median absolute error |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (name, errors) in [
        ("without a margin, type and kernel known", errors.unbiased),
        ("as shipped", errors.shipped),
        ("as shipped, image known", errors.shipped_of_known),
    ] {
        let at = |percent| quantile(errors.clone(), percent);
        let distance = median(errors.iter().map(|error| error.abs()).collect());
        let _ = writeln!(
            text,
            "| {name} | {} | {:+.2} | {:+.2} | {:+.2} | {:+.2} | {:+.2} | {distance:.2} |",
            errors.len(),
            at(0),
            at(5),
            at(50),
            at(95),
            at(100)
        );
    }
    text.push('\n');
    text
}

/// The picture of docs/templates.md.
pub(crate) fn picture(nodes: &[Node]) -> String {
    let all: Vec<Comparison<'_>> = nodes.iter().map(compare).collect();
    let of_family = |family| {
        all.iter().filter(|one| one.node.family() == family).map(Comparison::capacity_error).collect::<Vec<f64>>()
    };
    let constant = all.iter().map(|one| percent_above(one.constant.capacity["memory"], one.node.memory()));
    let rows = [
        Row { name: "Headcount, AWS", errors: of_family(Family::Aws) },
        Row { name: "Headcount, Azure", errors: of_family(Family::Azure) },
        Row { name: "constant 7.5 %", errors: constant.collect() },
    ];
    picture::draw("Memory capacity: estimate minus real value, in percent of the real value", &rows)
}

fn classes(all: &[Comparison<'_>]) -> String {
    let mut by_class: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for one in all {
        by_class.entry(class(one.node)).or_default().push(one.capacity_error());
    }
    let mut text = "## By class\n\nMemory capacity of all nodes: the estimate minus the real value, in percent of the real value:\n\n\
                    | class | nodes | lowest | median | highest |\n| --- | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (class, errors) in by_class {
        let at = |percent| quantile(errors.clone(), percent);
        let _ = writeln!(text, "| {class} | {} | {:+.2} | {:+.2} | {:+.2} |", errors.len(), at(0), at(50), at(100));
    }
    text.push('\n');
    text
}

/// The class by which a node's memory is estimated.
fn class(node: &Node) -> &'static str {
    memory_model::class_name(&node.host(None)).unwrap_or("most careful")
}

fn above(all: &[Comparison<'_>]) -> String {
    let mut above: Vec<(f64, &Comparison<'_>)> =
        all.iter().map(|one| (one.error().unwrap_or_else(|| one.capacity_error()), one)).collect();
    above.retain(|(error, _)| *error > 0.0);
    above.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut text = "## Nodes that have less than their template\n\nBy allocatable memory, or by capacity where the \
                    reserves are unknown.\n\n| type | system | image | kernel | too high by % |\n| --- | --- | --- | --- | ---: |\n"
        .to_owned();
    for (error, Comparison { node, .. }) in above {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {error:.2} |",
            node.type_name,
            node.product.as_deref().unwrap_or(&node.distribution),
            or_dash(node.image.as_deref()),
            or_dash(node.kernel.as_deref())
        );
    }
    text.push('\n');
    text
}

fn or_dash(text: Option<&str>) -> &str {
    text.unwrap_or("–")
}
