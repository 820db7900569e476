//! A caller that behaves like the Cluster Autoscaler, on its less careful days.

use std::time::Duration;

use fastrand::Rng;
use headcount::cloud::InstanceState;
use headcount::fleet::{Ask, FleetError, NamedNode, Refusal, TimeLimit};
use tokio::time::{Instant, sleep, timeout};

use super::World;

/// The caller.
pub(super) struct Autoscaler {
    rng: Rng,
}

impl Autoscaler {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng }
    }

    /// One loop: refresh, look, do one thing, wait a while.
    pub(super) async fn step(&mut self, world: &World) {
        let _stale_is_fine = world.fleet.refresh(Instant::now() + Duration::from_secs(4)).await;
        let groups: Vec<String> = world.fleet.snapshot().groups().map(|(id, _)| id.to_string()).collect();
        if let Some(group) = self.rng.choice(&groups).cloned() {
            self.act(world, &group).await;
        }
        sleep(Duration::from_millis(self.rng.u64(..12_000))).await;
    }

    async fn act(&mut self, world: &World, group: &str) {
        match self.rng.u32(..8) {
            0..3 => {
                let delta = self.rng.u32(1..8);
                self.grow(world, group, delta).await;
            }
            3..5 => self.delete_running(world, group).await,
            5 | 6 => drop(delete_failed(world, group).await),
            _ => {
                // With a delta that is far too large, as CA sends after a timed-out scale-up.
                let number = self.rng.u32(1..20);
                let _refused = world.fleet.mutate(group, Ask::Decrease(number), self.limit()).await;
            }
        }
    }

    /// Law 4: an accepted scale-up shows at once, unless the cloud has taken it back in the meantime.
    async fn grow(&mut self, world: &World, group: &str, delta: u32) {
        let call = world.fleet.mutate(group, Ask::Increase(delta), self.limit());
        if self.rng.u32(..6) == 0 {
            let _caller_gone = timeout(Duration::from_millis(self.rng.u64(..800)), call).await;
            return;
        }
        let outcome = call.await;
        if outcome.is_ok() {
            let shown = world.fleet.snapshot().group(group).map(|(_, view)| view.tally.target);
            assert!(
                shown.is_none_or(|target| target >= delta),
                "{group} grew by {delta} and has a target of {shown:?}"
            );
        }
    }

    /// A few one-node calls at once. Law 4: what is accepted is Deleting or gone at once. Law 6: never below min.
    async fn delete_running(&mut self, world: &World, group: &str) {
        let Some((min, running)) = view(world, group, InstanceState::Running) else { return };
        let mut victims = running;
        self.rng.shuffle(&mut victims);
        victims.truncate(self.rng.usize(1..8));
        let calls = victims.iter().map(|victim| {
            let node = NamedNode { id: victim.clone(), create_error: false };
            world.fleet.mutate(group, Ask::Delete(vec![node]), self.limit())
        });
        let outcomes = futures_util::future::join_all(calls).await;
        let still = view(world, group, InstanceState::Running).map(|(_, running)| running).unwrap_or_default();
        for (victim, outcome) in victims.iter().zip(&outcomes) {
            match outcome {
                // The deletion may have failed in the meantime; then the instance lives on, and is reported so.
                Ok(()) => assert!(
                    !still.contains(victim) || lives(world, group, victim.as_str()),
                    "{victim} was accepted and is still reported as running"
                ),
                Err(FleetError::Refused { refusal: Refusal::BelowMin { min: told, .. }, .. }) => assert_eq!(*told, min),
                Err(_) => {}
            }
        }
    }

    fn limit(&self) -> TimeLimit {
        let answer_by = Instant::now() + Duration::from_secs(5);
        TimeLimit { send_by: answer_by - Duration::from_millis(500), answer_by }
    }

    /// As CA does in the end: what failed is deleted, and what never came is taken back.
    pub(super) async fn tidy_up(&mut self, world: &World) {
        for _ in 0..30 {
            let _stale_is_fine = world.fleet.refresh(Instant::now() + Duration::from_secs(4)).await;
            let groups: Vec<String> = world.fleet.snapshot().groups().map(|(id, _)| id.to_string()).collect();
            for group in groups {
                let _tried_again_later = delete_failed(world, &group).await;
                // As CA does when instances that it was promised have not come for long.
                let _tried_again_later = world.fleet.mutate(&group, Ask::Decrease(100), self.limit()).await;
            }
            sleep(Duration::from_secs(20)).await;
        }
    }
}

/// Whether the cloud itself says that an instance lives.
fn lives(world: &World, group: &str, id: &str) -> bool {
    world.cloud.world(|world, _| {
        let mut members = world.view(group).into_iter().flat_map(|group| group.members());
        members.any(|member| member.provider_id.as_str() == id && member.phase.lives())
    })
}

/// The group's minimum, and its instances in this state.
fn view(world: &World, group: &str, state: InstanceState) -> Option<(u32, Vec<headcount::cloud::ProviderId>)> {
    let snapshot = world.fleet.snapshot();
    let (_, view) = snapshot.group(group)?;
    let in_state = view.tally.instances.iter().filter(|reported| reported.state == state && reported.failure.is_none());
    Some((view.min, in_state.map(|reported| reported.id.clone()).collect()))
}

async fn delete_failed(world: &World, group: &str) -> Result<(), FleetError> {
    let failed: Vec<NamedNode> = {
        let snapshot = world.fleet.snapshot();
        let Some((_, view)) = snapshot.group(group) else { return Ok(()) };
        let failed = view.tally.instances.iter().filter(|reported| reported.failure.is_some());
        failed.map(|reported| NamedNode { id: reported.id.clone(), create_error: true }).collect()
    };
    if failed.is_empty() {
        return Ok(());
    }
    let answer_by = Instant::now() + Duration::from_secs(5);
    let limit = TimeLimit { send_by: answer_by - Duration::from_millis(500), answer_by };
    world.fleet.mutate(group, Ask::Delete(failed), limit).await
}
