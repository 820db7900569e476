//! Gauges that are derived from the fleet at each scrape. Nothing writes them, so they cannot disagree with what is
//! served.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::cloud::{InstanceState, Permit};
use crate::fleet::{Fleet, GroupView};
use crate::metrics::{FamilySpec, Samples, samples};

/// A family with one size of each group, and where the size comes from.
type SizeFamily = (&'static FamilySpec, fn(&GroupView) -> u32);

const GROUP: &[&str] = &["node_group", "source"];

static MIN: FamilySpec =
    FamilySpec::gauge("headcount_node_group_min_size", GROUP, "The minimum size of a node group, in nodes");
static MAX: FamilySpec =
    FamilySpec::gauge("headcount_node_group_max_size", GROUP, "The maximum size of a node group, in nodes");
static TARGET: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_target_size",
    GROUP,
    "The target size that Headcount reports to the Cluster Autoscaler",
);
static DESIRED: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_desired_size",
    GROUP,
    "The cloud's capacity of a node group in nodes, including accepted writes that no read shows yet",
);
static UNFILLED: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_unfilled_capacity",
    GROUP,
    "The part of a scale set's capacity that no VM fills and that is not lowered, because Azure could delete other VMs",
);
static RETAINED: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_retained_instances",
    GROUP,
    "Instances that AWS keeps after their deletion (Terminating:Retained) and bills until somebody terminates them",
);
static HEADROOM: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_quota_headroom",
    &["node_group", "source"],
    "Nodes that the quotas of the account leave room for; only where they are known",
);
static INSTANCES: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_instances",
    &["node_group", "state"],
    "Instances that Headcount reports to the Cluster Autoscaler, by state: running, creating, deleting, failed",
);
static PENDING: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_pending_operations",
    &["node_group"],
    "Writes that the cloud accepted and has not finished",
);
static OLDEST: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_oldest_pending_seconds",
    &["node_group"],
    "Age of the oldest write that the cloud accepted and has not finished; 0 if there is none",
);
static PAUSED: FamilySpec = FamilySpec::gauge(
    "headcount_node_group_paused",
    &["node_group", "reason"],
    "1 while a node group cannot be changed, by reason: growth (it may not grow), removal (its instances may not be \
     deleted), doubt (its last observation contradicts itself or the one before), source (its source is not being \
     called)",
);
static LAST_SUCCESS: FamilySpec = FamilySpec::gauge(
    "headcount_source_last_success_timestamp_seconds",
    &["source"],
    "When the last successful listing of a source began, since the Unix epoch in seconds; 0 before the first",
);
static READY: FamilySpec =
    FamilySpec::gauge("headcount_source_ready", &["source"], "1 while the last listing of a source succeeded");
static SOURCE_PAUSED: FamilySpec = FamilySpec::gauge(
    "headcount_source_paused_seconds",
    &["source"],
    "How long a source stays paused after a failure or because it is throttled; 0 if it is not paused",
);
static UNMATCHED: FamilySpec = FamilySpec::gauge(
    "headcount_source_nodes_unmatched",
    &["source"],
    "Nodes that the Cluster Autoscaler asked about in the last 5 minutes whose IDs look like the source's but that no \
     served node group lists",
);
static BUDGET: FamilySpec = FamilySpec::gauge(
    "headcount_cloud_budget_remaining",
    &["source", "budget"],
    "Remaining calls of a budget of the cloud, from its last response; for budgets per node group, those of the \
     scarcest one",
);
static BUDGET_PAUSED: FamilySpec = FamilySpec::gauge(
    "headcount_cloud_budget_paused_seconds",
    &["source", "budget"],
    "How long calls on a budget of the cloud stay suspended; 0 if they are not",
);
static LAST_CALL: FamilySpec = FamilySpec::gauge(
    "headcount_last_ca_call_timestamp_seconds",
    &[],
    "When the Cluster Autoscaler last called, since the Unix epoch in seconds; 0 if it never did",
);
static STANDBY: FamilySpec = FamilySpec::gauge(
    "headcount_standby",
    &[],
    "1 if no Cluster Autoscaler has called for 10 minutes, so another replica serves the leader",
);
static BUILD: FamilySpec =
    FamilySpec::gauge("headcount_build_info", &["version", "commit", "protocol"], "1, with the version as labels");

/// The families of this module.
pub(super) static FAMILIES: [&FamilySpec; 20] = [
    &BUILD,
    &MIN,
    &MAX,
    &TARGET,
    &DESIRED,
    &UNFILLED,
    &RETAINED,
    &HEADROOM,
    &INSTANCES,
    &PENDING,
    &OLDEST,
    &PAUSED,
    &LAST_SUCCESS,
    &READY,
    &SOURCE_PAUSED,
    &UNMATCHED,
    &BUDGET,
    &BUDGET_PAUSED,
    &LAST_CALL,
    &STANDBY,
];

/// The version of the protocol's package.
const PROTOCOL: &str = "v1";

/// Reads the fleet at each scrape.
pub(super) struct FleetCollector(pub(super) Arc<Fleet>);

impl fmt::Debug for FleetCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FleetCollector")
    }
}

impl Collector for FleetCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let fleet = &self.0;
        let mut family = |spec: &'static FamilySpec, write: &mut dyn FnMut(&mut Samples<'_>) -> fmt::Result| {
            write(&mut samples(&mut encoder, spec, &mut String::new())?)
        };
        let commit = option_env!("HEADCOUNT_COMMIT").unwrap_or("unknown");
        family(&BUILD, &mut |samples| samples.write(&[env!("CARGO_PKG_VERSION"), commit, PROTOCOL], 1.0))?;
        let snapshot = Arc::clone(&fleet.snapshot());
        let groups: Vec<(&str, &GroupView)> = snapshot.groups().map(|(id, view)| (&**id, view.as_ref())).collect();
        let sizes: [SizeFamily; 5] = [
            (&MIN, |view| view.min),
            (&TARGET, |view| view.status.target),
            (&DESIRED, |view| view.status.capacity),
            (&UNFILLED, |view| view.status.unfilled),
            (&RETAINED, |view| view.retained),
        ];
        for (spec, size) in sizes {
            family(spec, &mut |samples| {
                groups.iter().try_for_each(|(id, view)| samples.write(&[id, &view.key.source], size(view).into()))
            })?;
        }
        let headrooms = fleet.headrooms(&snapshot);
        family(&MAX, &mut |samples| {
            let max = |view| fleet.max(&headrooms, view).into();
            groups.iter().try_for_each(|(id, view)| samples.write(&[id, &view.key.source], max(view)))
        })?;
        family(&HEADROOM, &mut |samples| {
            let known = groups.iter().filter_map(|(id, view)| Some((id, view, headrooms.of(&view.key)?)));
            known
                .into_iter()
                .try_for_each(|(id, view, headroom)| samples.write(&[id, &view.key.source], headroom.nodes.into()))
        })?;
        family(&INSTANCES, &mut |samples| groups.iter().try_for_each(|(id, view)| instances(samples, id, view)))?;
        let unfinished: Vec<_> = groups.iter().map(|(id, _)| (*id, fleet.journal().unfinished(id))).collect();
        family(&PENDING, &mut |samples| {
            unfinished.iter().try_for_each(|(id, operations)| samples.write(&[id], count(operations.len())))
        })?;
        family(&OLDEST, &mut |samples| {
            unfinished.iter().try_for_each(|(id, operations)| {
                let oldest = operations.iter().map(|operation| operation.accepted.elapsed()).max();
                samples.write(&[id], oldest.unwrap_or_default().as_secs_f64())
            })
        })?;
        let health: BTreeMap<&str, _> = fleet.sources().map(|(name, health)| (&**name, health)).collect();
        let pause = |source: &str| {
            let until = health.get(source).and_then(|health| health.paused_until);
            until.map(|until| until.saturating_duration_since(tokio::time::Instant::now())).unwrap_or_default()
        };
        family(&PAUSED, &mut |samples| {
            groups
                .iter()
                .try_for_each(|(id, view)| paused(samples, id, view, (&fleet.growth(view), pause(&view.key.source))))
        })?;
        family(&LAST_SUCCESS, &mut |samples| {
            health.iter().try_for_each(|(name, health)| {
                let at = health.good.and_then(|good| SystemTime::now().checked_sub(good.elapsed()));
                samples.write(&[name], at.map_or(0.0, since_epoch))
            })
        })?;
        family(&READY, &mut |samples| {
            health.iter().try_for_each(|(name, health)| {
                samples.write(&[name], flag(health.good.is_some() && health.problem.is_none()))
            })
        })?;
        family(&SOURCE_PAUSED, &mut |samples| {
            health.keys().try_for_each(|name| samples.write(&[name], pause(name).as_secs_f64()))
        })?;
        let unmatched = fleet.unmatched_nodes();
        family(&UNMATCHED, &mut |samples| {
            health.keys().try_for_each(|name| samples.write(&[name], unmatched.get(*name).copied().unwrap_or(0).into()))
        })?;
        let budgets = budgets(fleet);
        family(&BUDGET, &mut |samples| {
            let known = budgets.iter().filter_map(|(labels, budget)| Some((labels, budget.remaining?)));
            known.into_iter().try_for_each(|((source, name), remaining)| samples.write(&[source, name], remaining))
        })?;
        family(&BUDGET_PAUSED, &mut |samples| {
            budgets.iter().try_for_each(|((source, name), budget)| samples.write(&[source, name], budget.paused))
        })?;
        let call = fleet.last_call();
        family(&LAST_CALL, &mut |samples| samples.write(&[], call.at.map_or(0.0, since_epoch)))?;
        family(&STANDBY, &mut |samples| samples.write(&[], flag(call.is_standby)))
    }
}

fn instances(samples: &mut Samples<'_>, id: &str, view: &GroupView) -> fmt::Result {
    let failed = view.status.failed();
    for (state, number) in [
        ("running", view.status.in_state(InstanceState::Running)),
        ("creating", view.status.in_state(InstanceState::Creating).saturating_sub(failed)),
        ("deleting", view.status.in_state(InstanceState::Deleting)),
        ("failed", failed),
    ] {
        samples.write(&[id, state], number.into())?;
    }
    Ok(())
}

fn paused(samples: &mut Samples<'_>, id: &str, view: &GroupView, (growth, source): (&Permit, Duration)) -> fmt::Result {
    for (reason, is_paused) in [
        ("growth", matches!(growth, Permit::Withheld(_))),
        ("removal", matches!(view.removal, Permit::Withheld(_))),
        ("doubt", view.doubt.is_some()),
        ("source", !source.is_zero()),
    ] {
        samples.write(&[id, reason], flag(is_paused))?;
    }
    Ok(())
}

#[derive(Default)]
struct Scarcest {
    remaining: Option<f64>,
    paused: f64,
}

/// The budgets, without their groups: a policy may have thousands.
fn budgets(fleet: &Fleet) -> BTreeMap<(String, String), Scarcest> {
    let mut budgets: BTreeMap<(String, String), Scarcest> = BTreeMap::new();
    for (source, of_source) in fleet.budgets() {
        for budget in of_source {
            let entry = budgets.entry((source.to_string(), budget.name)).or_default();
            if budget.most > 0 {
                // Exact up to 2^53, and budgets are some thousands.
                let remaining = f64::from(u32::try_from(budget.remaining).unwrap_or(u32::MAX));
                entry.remaining = Some(entry.remaining.map_or(remaining, |least| least.min(remaining)));
            }
            entry.paused = entry.paused.max(budget.closed_for.unwrap_or_default().as_secs_f64());
        }
    }
    budgets
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

fn flag(is_set: bool) -> f64 {
    if is_set { 1.0 } else { 0.0 }
}

/// A time in seconds since the Unix epoch.
fn since_epoch(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
