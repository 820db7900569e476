//! Ready-made simulated sources: the demo's, and large ones for measurements.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::as_seen::LATENCY;
use super::call::FaultRates;
use super::chance::{Pick, seconds};
use super::outcome::{LaunchOutcome, PlannedFailure};
use super::plan::{Accounting, GroupPlan, Sizing};
use super::source::Simulated;
use crate::cloud::{Taint, TaintEffect};
use crate::config::settings::simulated::Settings;

/// How often the demo applies due changes, so that its events are printed in time.
const TICK: Duration = Duration::from_millis(500);

impl Simulated {
    /// The source that the configuration describes: the demo's groups, or many of both styles, behind an API that fails
    /// at the configured rate.
    pub fn configured(settings: &Settings) -> Self {
        let source = match settings.groups {
            0 => Self::demo(settings),
            groups => Self::with_groups(settings.seed, (0..groups).map(|number| spread(settings, number))),
        };
        source.fail_at(rates(settings.error_rate));
        source
    }

    /// What `serve --demo` serves: groups of both styles, one of which never gets capacity.
    pub fn demo(settings: &Settings) -> Self {
        Self::with_groups(settings.seed, [web(), batch_spot(), gpu(), arm(), aks_pool(), no_capacity()])
    }

    /// What `headcount demo` plays on: three groups whose launches and deletions take seconds.
    pub fn stage(seed: u64) -> Self {
        Self::with_groups(seed, [stage_web(), stage_spot(), stage_pool()])
    }

    /// What `headcount verify --demo` measures: a group of each style that is set aside for it.
    pub fn set_aside(seed: u64) -> Self {
        let quick = |plan: GroupPlan| plan.sized(0, 10, 1).launch_time(seconds(3, 4)).delete_time(seconds(3, 4));
        let scale_set = GroupPlan::azure("scale-set").sizing(Sizing::Nominal);
        let groups = [GroupPlan::aws("auto-scaling"), scale_set];
        let cloud = Self::with_groups(seed, groups.map(|plan| quick(plan).set_aside()));
        cloud.fail_at(FaultRates { latency: LATENCY, ..FaultRates::default() });
        cloud
    }

    /// Applies the due changes of the demo's world until it ends. Without this, changes are applied only during a call.
    pub async fn run_demo(&self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.world(|_, _| ());
        }
    }

    /// A source with many groups, each with this many running instances and a maximum of twice as many.
    pub fn large(groups: u32, instances_per_group: u32) -> Self {
        let plan = |number| {
            let max = instances_per_group.saturating_mul(2).max(1);
            GroupPlan::aws(&format!("group-{number:04}")).sized(0, max, instances_per_group)
        };
        Self::with_groups(0, (0..groups).map(plan))
    }
}

/// One of many groups: every other one is a scale set. It has its share of the instances and a maximum of twice as
/// many.
fn spread(settings: &Settings, number: u32) -> GroupPlan {
    let Settings { groups, instances, .. } = *settings;
    let share = instances / groups + u32::from(number < instances % groups);
    let name = format!("group-{number:04}");
    let plan = match number % 4 {
        1 => GroupPlan::azure(&name).accounting(Accounting::WhenGone),
        3 => GroupPlan::azure(&name).accounting(Accounting::OnAccept),
        _ => GroupPlan::aws(&name),
    };
    let max = share.saturating_mul(2).max(10);
    plan.sized(share / 2, max, share).launch_time(seconds(1, 3)).delete_time(seconds(1, 3))
}

/// Divides the errors among the ways in which both clouds fail.
fn rates(rate: f64) -> FaultRates {
    FaultRates {
        throttled: rate * 0.3,
        unreachable: rate * 0.3,
        lost_response: rate * 0.2,
        conflict: rate * 0.2,
        ..FaultRates::default()
    }
}

fn web() -> GroupPlan {
    GroupPlan::aws("web").sized(2, 10, 2).instance_types(&["m5.large"])
}

fn batch_spot() -> GroupPlan {
    GroupPlan::aws("batch-spot")
        .sized(0, 20, 3)
        .instance_types(&["m5.large", "m5a.large", "m5.xlarge"])
        .label("node.kubernetes.io/lifecycle", "spot")
        .evicted_every(seconds(90, 240))
}

fn gpu() -> GroupPlan {
    let mut plan = GroupPlan::aws("gpu")
        .sized(0, 4, 0)
        .instance_types(&["g4dn.xlarge"])
        .label("k8s.amazonaws.com/accelerator", "nvidia-tesla-t4");
    let taint = Taint { key: "nvidia.com/gpu".to_owned(), value: "true".to_owned(), effect: TaintEffect::NoSchedule };
    plan.taints.push(taint);
    plan
}

fn arm() -> GroupPlan {
    GroupPlan::aws("arm").sized(0, 10, 1).instance_types(&["m6g.large"])
}

fn aks_pool() -> GroupPlan {
    GroupPlan::azure("aks-pool").sized(1, 10, 2).accounting(Accounting::WhenGone).delete_time(seconds(10, 20))
}

fn no_capacity() -> GroupPlan {
    let failure = PlannedFailure::out_of_resources(
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient p4d.24xlarge capacity in the Availability Zone you requested.",
    );
    GroupPlan::aws("no-capacity")
        .sized(0, 5, 0)
        .instance_types(&["p4d.24xlarge"])
        .launches(Pick::Always, LaunchOutcome::fails(failure, seconds(9, 11)))
}

/// In one zone: a failed launch is then final at once.
fn stage_web() -> GroupPlan {
    let mut plan = GroupPlan::aws("web").sized(2, 10, 3).launch_time(seconds(3, 4)).delete_time(seconds(3, 4));
    plan.zones.truncate(1);
    plan
}

fn stage_spot() -> GroupPlan {
    let plan = GroupPlan::aws("batch-spot").sized(0, 10, 2).instance_types(&["m5.large", "m5a.large", "m5.xlarge"]);
    plan.label("node.kubernetes.io/lifecycle", "spot").launch_time(seconds(3, 4)).delete_time(seconds(3, 4))
}

/// As Azure does it: a new capacity is compared with the one before, and deletions can fail after they were accepted.
fn stage_pool() -> GroupPlan {
    let plan = GroupPlan::azure("aks-pool").sized(1, 10, 6).accounting(Accounting::OnAccept).sizing(Sizing::Nominal);
    plan.launch_time(seconds(3, 4)).delete_time(seconds(3, 3))
}
