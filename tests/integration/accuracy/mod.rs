//! Templates compared with real nodes: what Headcount estimates for a type, and what kubelets of such nodes report.
//!
//! `HEADCOUNT_WRITE_DOCS=1 cargo test --test integration accuracy` writes docs/measured-templates.md.

mod estimate;
mod fit;
mod karpenter;
mod observed;
mod picture;
mod report;

use std::collections::BTreeMap;

use headcount::cloud::{Family, OperatingSystem, ReservedProfile};

use estimate::Group;
use headcount::instance_types::memory_model::{self, Figures};
use observed::{Node, nodes, quantity};
use report::{Comparison, compare, median};

/// How much more memory a template may promise than the node has, in percent of what is allocatable.
const ABOVE_MAX: f64 = 0.5;
/// The median error of templates is below this, in percent of what is allocatable.
const MEDIAN_MAX: f64 = 0.6;
/// The median absolute error of estimates without a margin, for nodes that the figures were not fitted to.
const UNBIASED_MAX: f64 = 0.15;

fn name(node: &Node) -> String {
    format!("{} {}", node.type_name, node.source)
}

#[test]
fn templates_promise_at_most_the_tolerance_above_a_nodes_memory() {
    let nodes = nodes();
    let all: Vec<Comparison<'_>> = nodes.iter().map(compare).collect();
    for comparison in &all {
        let (node, capacity, allocatable) = (comparison.node, comparison.capacity_error(), comparison.error());
        assert!(capacity <= ABOVE_MAX, "{}: capacity {capacity:+.2} %", name(node));
        assert!(allocatable.is_none_or(|error| error <= ABOVE_MAX), "{}: {allocatable:+.2?} %", name(node));
    }
    for family in [Some(Family::Aws), Some(Family::Azure), None] {
        let of_family = || all.iter().filter(|one| family.is_none_or(|family| family == one.node.family()));
        let capacity = median(of_family().map(|one| one.capacity_error().abs()).collect());
        let allocatable = median(of_family().filter_map(Comparison::error).map(f64::abs).collect());
        assert!(capacity < MEDIAN_MAX, "{family:?}: capacity {capacity:.2} %");
        assert!(allocatable < MEDIAN_MAX, "{family:?}: allocatable {allocatable:.2} %");
    }
}

#[test]
fn vcpus_pods_and_devices_are_exact_where_the_setup_is_known() {
    let mut checked = 0;
    for node in nodes() {
        let practice = node.practice();
        let estimate = Group::of(&node, practice.as_ref()).estimate();
        assert_eq!(estimate.capacity["cpu"], quantity(&node.cpu), "{}", name(&node));
        for (device, count) in &node.devices {
            assert_eq!(estimate.capacity[device], quantity(count), "{}: {device}", name(&node));
        }
        let Some(practice) = practice else { continue };
        if let Some(pods) = node.pods {
            assert_eq!(estimate.allocatable["pods"], quantity(&pods.to_string()), "{}", name(&node));
        }
        let Some(cpu) = &node.allocatable_cpu else { continue };
        checked += 1;
        if practice.profile == ReservedProfile::OpenShift {
            // 80m to 1000m of four processors, by a node's age and size; the profile keeps 500m.
            continue;
        }
        assert_eq!(estimate.allocatable["cpu"], quantity(cpu), "{}", name(&node));
    }
    assert!(checked > 150, "{checked}");
}

#[test]
fn eks_nodes_have_the_pod_limit_of_their_network_interfaces_unless_configured() {
    let nodes = nodes();
    let eks = nodes.iter().filter(|node| node.practice().is_some_and(|one| one.profile == ReservedProfile::Eks));
    let mut limited: BTreeMap<&str, u32> = BTreeMap::new();
    for node in eks {
        let mut group = Group::of(node, node.practice().as_ref());
        group.overrides.reserved.max_pods = None;
        let by_network = group.estimate();
        match node.pods {
            Some(pods) if node.is_limited() => {
                limited.insert(&node.type_name, pods);
            }
            Some(pods) => assert_eq!(by_network.allocatable["pods"], quantity(&pods.to_string()), "{}", name(node)),
            None => {}
        }
    }
    assert_eq!(limited, [("c6in.4xlarge", 110), ("m5.16xlarge", 250)].into());
}

#[test]
fn allocatable_is_exact_for_a_known_capacity() {
    let mut exact: BTreeMap<&str, u32> = BTreeMap::new();
    let mut off = Vec::new();
    for node in nodes() {
        let Some(practice) = node.practice() else { continue };
        let mut group = Group::of(&node, Some(&practice));
        group.overrides.capacity.insert("memory".into(), node.memory());
        if let Some(storage) = &node.ephemeral_storage {
            group.overrides.capacity.insert("ephemeral-storage".into(), quantity(storage));
        }
        let estimate = group.estimate();
        let profile = headcount::template::profile_name(practice.profile);
        if let Some(expected) = node.allocatable_memory() {
            let ours = estimate.allocatable["memory"].whole() >> 10;
            if ours.abs_diff(expected.whole() >> 10) > node.slack_ki() {
                off.push(format!("{}: {profile}: {ours}Ki for {expected}", name(&node)));
            }
            *exact.entry(profile).or_default() += 1;
        }
        if let Some(expected) = &node.allocatable_ephemeral_storage {
            let ours = estimate.allocatable["ephemeral-storage"];
            // Some releases of OpenShift keep 1 GiB of the disk and some do not; the profile does.
            let kept = if practice.profile == ReservedProfile::OpenShift { 1 << 30 } else { 0 };
            let more = quantity(expected).whole().checked_sub(ours.whole());
            if more != Some(0) && more != Some(kept) {
                off.push(format!("{}: {profile}: {ours} for {expected}", name(&node)));
            }
        }
    }
    assert!(off.is_empty(), "{}", off.join("\n"));
    assert_eq!(exact.keys().copied().collect::<Vec<_>>(), ["aks", "aks-legacy", "eks", "kubeadm", "openshift"]);
    assert!(exact.values().all(|nodes| *nodes > 4), "{exact:?}");
}

#[test]
fn the_document_shows_what_is_measured() {
    picture::check_file("docs/templates.svg", &report::picture(&nodes()));
    crate::document::check(
        "measured-templates.md",
        "Templates and real nodes",
        "accuracy",
        &report::generated(&nodes()),
    );
}

#[test]
fn the_shipped_figures_are_fitted_to_the_nodes() {
    let nodes = nodes();
    let fitted = fit::fit(&nodes.iter().collect::<Vec<_>>());
    picture::check_file("instance-types/memory.yaml", &fit::text(&fitted));
    assert!(std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some() || *Figures::shipped() == fitted);
}

#[test]
fn figures_fitted_to_some_nodes_hold_for_the_others() {
    let errors = fit::cross_validate(&nodes());
    let distance = median(errors.unbiased.iter().map(|error| error.abs()).collect());
    assert!(errors.unbiased.len() > 500 && distance <= UNBIASED_MAX, "{} {distance:.2} %", errors.unbiased.len());
    let low = median(errors.shipped.clone());
    assert!((-MEDIAN_MAX..0.0).contains(&low), "{low:.2} %");
    for (known, errors) in [(false, errors.shipped), (true, errors.shipped_of_known)] {
        let highest = errors.iter().copied().fold(f64::MIN, f64::max);
        assert!(highest <= ABOVE_MAX, "image known: {known}: {highest:+.2} %");
    }
}

#[test]
fn no_observed_type_lacks_more_than_its_class() {
    for node in nodes().iter().filter(|node| node.operating_system() == OperatingSystem::Linux) {
        let missing = fit::missing_kib(Figures::shipped(), node) / 1024;
        let worst = memory_model::worst_of_class_mib(&node.host(None), node.nominal_memory_mib);
        // The kernel of a node is known more exactly than its image, so the margin covers the rest.
        assert!(missing <= i64::try_from(worst).expect("MiB") + 4, "{}: {missing} MiB, its class {worst}", name(node));
    }
}
