//! What the demo makes happen: one scene for each kind of event.

use std::time::Duration;

use crate::clouds::simulated::{
    CallKind, DeleteOutcome, LaunchOutcome, Pick, PlannedFailure, Refusal, Simulated, seconds,
};

/// How long the instances of an instance refresh stay beside the others: not so long that the autoscaler deletes them.
const SURPLUS_LASTS: Duration = Duration::from_secs(4);

/// Something that the demo does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A scene begins.
    Scene(&'static str),
    /// No launch of a group gets capacity any more.
    LaunchesFail(&'static str),
    /// Launches of a group succeed again.
    LaunchesWork(&'static str),
    /// Deletions of a group are accepted, and fail.
    DeletionsFail(&'static str),
    /// Deletions of a group succeed again.
    DeletionsWork(&'static str),
    /// A spot instance of a group is evicted.
    Evict(&'static str),
    /// The cloud launches two instances beyond a group's capacity, and removes two later.
    Surplus(&'static str),
    /// The response to the next capacity write of a group is lost.
    LoseResponse(&'static str),
    /// The cloud's API cannot be reached.
    OutageBegins,
    /// The cloud's API can be reached again.
    OutageEnds,
    /// A workload gets more pods, or fewer.
    Pods(&'static str, i32),
}

/// Acts that show one thing, and how long after its beginning each happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    /// The key that plays it.
    pub(super) key: char,
    /// What it shows, in a word or two for the list of keys.
    pub(super) label: &'static str,
    /// What it shows.
    pub(super) title: &'static str,
    /// The acts, each this many seconds after the beginning.
    acts: &'static [(u64, Act)],
    /// How long it takes, in seconds, until it has been dealt with.
    lasts: u64,
}

/// All scenes, in the order in which the script plays them.
pub(super) const SCENES: [Scene; 6] = [
    Scene {
        key: 'l',
        label: "launch fails",
        title: "launches fail for lack of capacity",
        acts: &[(0, Act::LaunchesFail("web")), (0, Act::Pods("web", 8)), (16, Act::LaunchesWork("web"))],
        lasts: 22,
    },
    Scene {
        key: 'd',
        label: "deletion fails later",
        title: "deletions are accepted, and fail later",
        acts: &[
            (0, Act::DeletionsFail("aks-pool")),
            (0, Act::Pods("jobs", -8)),
            (19, Act::DeletionsWork("aks-pool")),
            (19, Act::Pods("jobs", 12)),
        ],
        lasts: 30,
    },
    Scene {
        key: 'e',
        label: "spot eviction",
        title: "a spot instance is evicted",
        acts: &[(0, Act::Evict("batch-spot"))],
        lasts: 14,
    },
    Scene {
        key: 's',
        label: "surplus",
        title: "an instance refresh launches instances beyond the capacity",
        acts: &[(0, Act::Surplus("web"))],
        lasts: 14,
    },
    Scene {
        key: 'a',
        label: "lost response",
        title: "the response to a write is lost",
        acts: &[(0, Act::LoseResponse("web")), (0, Act::Pods("web", 4))],
        lasts: 14,
    },
    Scene {
        key: 'o',
        label: "outage",
        title: "the cloud's API is down",
        acts: &[(0, Act::OutageBegins), (3, Act::Pods("jobs", 4)), (10, Act::OutageEnds)],
        lasts: 22,
    },
];

/// The acts of all scenes in order, each with its time since the beginning, and when the last scene is over.
pub(super) fn script() -> (Vec<(Duration, Act)>, Duration) {
    let (mut acts, mut begins) = (Vec::new(), 2);
    for scene in SCENES {
        acts.extend(scene.all(Duration::from_secs(begins)));
        begins += scene.lasts;
    }
    (acts, Duration::from_secs(begins))
}

impl Scene {
    /// Its acts, if it begins at this time.
    pub(super) fn all(&self, begins: Duration) -> impl Iterator<Item = (Duration, Act)> {
        let acts = self.acts.iter().map(move |(after, act)| (begins + Duration::from_secs(*after), *act));
        std::iter::once((begins, Act::Scene(self.title))).chain(acts)
    }
}

impl Act {
    /// Does it to the cloud. What it does to pods is the autoscaler's to see.
    pub(super) fn happen(self, cloud: &Simulated) -> Result<(), Refusal> {
        match self {
            Self::LaunchesFail(group) => {
                let outcome = LaunchOutcome::fails(no_capacity(), seconds(2, 2));
                cloud.replan(group, |plan| plan.launches_now(Pick::Always, outcome))
            }
            Self::LaunchesWork(group) => cloud.replan(group, |plan| plan.launches_fine()),
            Self::DeletionsFail(group) => {
                cloud.replan(group, |plan| plan.deletions_now(Pick::Always, DeleteOutcome::FailsLater(not_allocated())))
            }
            Self::DeletionsWork(group) => cloud.replan(group, |plan| plan.deletions_fine()),
            Self::Evict(group) => cloud.evict(group, 1).map(drop),
            Self::Surplus(group) => cloud.launch_surplus(group, 2, SURPLUS_LASTS),
            Self::LoseResponse(group) => {
                cloud.lose_response(CallKind::SetCapacity, group);
                Ok(())
            }
            Self::OutageBegins | Self::OutageEnds => {
                cloud.set_reachable(self == Self::OutageEnds);
                Ok(())
            }
            Self::Scene(_) | Self::Pods(..) => Ok(()),
        }
    }

    /// What it does, as a sentence.
    pub(super) fn sentence(self) -> String {
        match self {
            Self::Scene(title) => format!("── {title} ──"),
            Self::LaunchesFail(group) => format!("from now on, the cloud has no capacity for {group}"),
            Self::LaunchesWork(group) => format!("the cloud has capacity for {group} again"),
            Self::DeletionsFail(group) => format!("from now on, deletions in {group} are accepted, and fail 3 s later"),
            Self::DeletionsWork(group) => format!("deletions in {group} succeed again"),
            Self::Evict(group) => format!("the cloud evicts a spot instance of {group}"),
            Self::Surplus(group) => format!("an instance refresh of {group} begins"),
            Self::LoseResponse(group) => format!("the response to the next write to {group} will be lost"),
            Self::OutageBegins => "the API of the cloud cannot be reached".to_owned(),
            Self::OutageEnds => "the API of the cloud can be reached again".to_owned(),
            Self::Pods(workload, by) if by < 0 => format!("{} pods of {workload} end", by.unsigned_abs()),
            Self::Pods(workload, by) => format!("{by} more pods of {workload}"),
        }
    }
}

fn no_capacity() -> PlannedFailure {
    PlannedFailure::out_of_resources(
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient m5.large capacity.",
    )
}

/// The code of kubernetes/autoscaler #7432.
fn not_allocated() -> PlannedFailure {
    PlannedFailure::other("CannotAllocateRemainingVMsInAvailabilitySet", "The deletion failed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_plays_every_scene_in_order() {
        let (acts, ends) = script();
        assert!(acts.is_sorted_by_key(|(at, _)| *at), "{acts:?}");
        assert_eq!(acts.len(), SCENES.iter().map(|scene| scene.acts.len() + 1).sum::<usize>());
        assert!(acts.iter().all(|(at, _)| *at < ends));
    }

    #[test]
    fn no_two_scenes_have_the_same_key() {
        let mut keys: Vec<char> = SCENES.iter().map(|scene| scene.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), SCENES.len());
    }
}
