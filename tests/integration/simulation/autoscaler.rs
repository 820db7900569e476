//! A caller that behaves like a careless Cluster Autoscaler. It also checks what the laws promise to a caller.

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use headcount::cloud::{CloudError, InstanceState, ProviderId};
use headcount::clouds::simulated::Call;
use headcount::fleet::{Deadline, FleetError, Mutation, NamedNode, NodeKind, Refusal};
use tokio::time::{Instant, sleep, timeout};

use super::Violation;
use super::shown::{
    Sizes, are_polls_failing, deletions, failed, has_failed_to_delete, has_surplus_in_scale_set, is_preempted,
    is_scale_set, kept, kept_in_all, listed, lives, sizes_of_all, was_handed_over,
};
use super::world::{World, whole, zone};

/// How late a response may be.
const LATE: Duration = Duration::from_millis(20);

/// The caller.
pub(super) struct Autoscaler {
    rng: Rng,
    /// Whether nobody else changes anything, and every response is right: then some laws are checked exactly.
    is_exclusive: bool,
}

impl Autoscaler {
    pub(super) fn new(rng: Rng, is_exclusive: bool) -> Self {
        Self { rng, is_exclusive }
    }

    /// One loop: refresh, read, do one thing, wait a while.
    pub(super) async fn step(&mut self, world: &World) -> Result<(), Violation> {
        let _stale_is_fine = world.fleet.refresh(Instant::now() + Duration::from_secs(4)).await;
        let groups: Vec<String> = world.fleet.snapshot().groups().map(|(id, _)| id.to_string()).collect();
        if let Some(group) = self.rng.choice(&groups).cloned() {
            self.act(world, &group).await?;
        }
        sleep(Duration::from_millis(self.rng.u64(..12_000))).await;
        Ok(())
    }

    async fn act(&mut self, world: &World, group: &str) -> Result<(), Violation> {
        match self.rng.u32(..10) {
            0..4 => self.grow(world, group).await,
            4..7 => self.delete_running(world, group).await,
            7 => self.delete_failed(world, group).await,
            8 => self.delete_coming(world, group).await,
            _ => {
                // With a delta that is far too large, as CA sends after a timed-out scale-up.
                let number = self.rng.u32(1..20);
                world.note_taken_back(group);
                self.call(world, group, Mutation::Decrease(number)).await.map(drop)
            }
        }
    }

    /// Makes a call with any deadline; the caller may give up early, and then this returns `None`. Law 9: the response
    /// arrives by the deadline. Law 8: the call fails only for faults of its own group.
    async fn call(&mut self, world: &World, group: &str, mutation: Mutation) -> Result<Option<Answer>, Violation> {
        let limit = self.limit();
        let patience = (self.rng.u32(..8) == 0).then(|| Duration::from_millis(self.rng.u64(..800)));
        let began = world.cloud.elapsed();
        let answer = timeout(patience.unwrap_or(Duration::MAX), world.mutate(group, mutation, limit)).await;
        let now = Instant::now();
        if answer.is_ok() && now > limit.respond_by + LATE {
            return Err(Violation::of("law 9", format!("{group}: answered {:?} late", now - limit.respond_by)));
        }
        if let Ok(Err(error)) = &answer {
            check_trouble_is_own(world, group, began, error)?;
        }
        Ok(answer.ok())
    }

    /// Law 4: an accepted scale-up shows at once, unless the cloud has rolled it back meanwhile. Law 6: never above the
    /// maximum.
    async fn grow(&mut self, world: &World, group: &str) -> Result<(), Violation> {
        let (delta, kept_before) = (self.rng.u32(1..8), kept_in_all(world, group));
        // Before the call: a crash may cut it off.
        world.note_growth(group, delta);
        let answer = self.call(world, group, Mutation::Increase(delta)).await?;
        let Some(answer) = answer else { return Ok(()) };
        if answer.is_err() {
            return Ok(());
        }
        let snapshot = world.fleet.snapshot();
        let Some((_, view)) = snapshot.group(group) else { return Ok(()) };
        let target = view.status.target;
        // A preempted deletion may restore instances for a moment; they are not in the target all the same.
        let is_settled = !is_preempted(world, group) && !world.has_unsettled_deletion(group);
        if target < delta.min(kept(world, group)) && is_settled {
            return Err(Violation::of("law 4", format!("{group} grew by {delta} and has a target of {target}")));
        }
        // A deletion that fails while a group grows takes it above its maximum without a fault of Headcount's. After a
        // crash, the new process cannot know whether the capacity still counts deletions of the old one.
        let is_known = !is_preempted(world, group) && !world.has_crashed();
        let Some(Sizes { target, max, .. }) = sizes_of_all(world, group) else { return Ok(()) };
        if self.is_exclusive && is_known && target > max && kept_before + delta > max {
            return Err(Violation::of("law 6", format!("{group} grew to {target}, above {max}")));
        }
        Ok(())
    }

    /// A few one-node calls at once. Law 4: an accepted deletion shows as Deleting or gone at once. Law 6: never below
    /// min. Law 7: naming the same node again deletes nothing.
    async fn delete_running(&mut self, world: &World, group: &str) -> Result<(), Violation> {
        let Some((min, mut victims)) = listed(world, group, InstanceState::Running) else { return Ok(()) };
        self.rng.shuffle(&mut victims);
        victims.truncate(self.rng.usize(1..8));
        let (limit, kept_before, began) = (self.limit(), kept_in_all(world, group), world.cloud.elapsed());
        let of_others = |victim: &ProviderId| {
            deletions(world, group, std::slice::from_ref(victim)).saturating_sub(world.deletions(victim))
        };
        let of_others_before: Vec<usize> = victims.iter().map(of_others).collect();
        let sent = |victim: &ProviderId| deletions(world, group, std::slice::from_ref(victim));
        let sent_before: Vec<usize> = victims.iter().map(sent).collect();
        let delete = |victim: &ProviderId| {
            let node = NamedNode { id: victim.clone(), kind: NodeKind::Registered };
            world.mutate(group, Mutation::Delete(vec![node]), limit)
        };
        let outcomes = join_all(victims.iter().map(delete)).await;
        let (_, still) = listed(world, group, InstanceState::Running).unwrap_or_default();
        for ((victim, outcome), before) in victims.iter().zip(&outcomes).zip(of_others_before) {
            // Another process is deleting it too, one of the two deletions has preempted the other, and it lived in
            // between.
            let is_contested = is_preempted(world, group) && of_others(victim) > before;
            if let Err(error) = outcome {
                check_trouble_is_own(world, group, began, error)?;
            }
            match outcome {
                // The deletion may have failed meanwhile; then the instance is still live and is reported as such.
                Ok(()) if still.contains(victim) && !lives(world, group, victim) && !is_contested => {
                    let what = format!("{victim} was accepted and is still reported as running");
                    return Err(Violation::of("law 4", what));
                }
                // The minimum of a zone is what the others leave of the group's.
                Err(FleetError::Refused { refusal: Refusal::BelowMin { min: told, .. }, .. })
                    if *told != min && zone(group).is_none() =>
                {
                    return Err(Violation::of("law 6", format!("{group}: a minimum of {told}, not {min}")));
                }
                _ => {}
            }
        }
        // What was gone by the time of the write is accepted without one, and takes the group no lower (law 7).
        let deleted = victims.iter().zip(sent_before).filter(|(victim, before)| sent(victim) > *before).count();
        self.check_minimum(world, group, kept_before, deleted)?;
        let accepted: Vec<ProviderId> =
            victims.into_iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(id, _)| id).collect();
        self.delete_again(world, group, accepted, began).await
    }

    /// A launch that fails during deletions takes the group below its minimum without a fault of Headcount's. So does
    /// one that failed a moment ago, where operations cannot be polled: the capacity that the cloud took back looks
    /// like a read that lags. What a process that crashed a moment ago asked for may still take effect, and how it is
    /// counted shows later. In a scale set, a surplus of the cloud's own looks like instances that outlived a
    /// reduction: nothing says why a VM was created.
    fn check_minimum(&self, world: &World, group: &str, before: u32, deleted: usize) -> Result<(), Violation> {
        let is_checked = self.is_exclusive
            && deleted > 0
            && !are_polls_failing(world)
            && !was_handed_over(world, group)
            && !world.has_just_crashed()
            && !has_surplus_in_scale_set(world, group);
        let sizes = sizes_of_all(world, group).filter(|_| is_checked);
        let Some(Sizes { target, min, .. }) = sizes else { return Ok(()) };
        let left = before.saturating_sub(u32::try_from(deleted).unwrap_or(u32::MAX));
        // An instance whose deletion fails meanwhile is still reported as Deleting, although it is live.
        if target < min && left < min && kept_in_all(world, group) < min {
            let what = format!("{group}: {deleted} of {before} deleted, the minimum is {min}");
            return Err(Violation::of("law 6", what));
        }
        Ok(())
    }

    async fn delete_again(
        &mut self,
        world: &World,
        group: &str,
        ids: Vec<ProviderId>,
        began: Duration,
    ) -> Result<(), Violation> {
        let (_, deleting) = listed(world, group, InstanceState::Deleting).unwrap_or_default();
        let going: Vec<ProviderId> = ids.into_iter().filter(|id| deleting.contains(id)).collect();
        if going.is_empty() || is_preempted(world, group) || !self.is_exclusive || self.rng.bool() {
            return Ok(());
        }
        let nodes = going.iter().map(|id| NamedNode { id: id.clone(), kind: NodeKind::Registered }).collect();
        let before = deletions(world, group, &going);
        let answer = world.mutate(group, Mutation::Delete(nodes), self.limit()).await;
        // One that failed in the meantime lives again, and is rightly asked for again.
        let failed = has_failed_to_delete(world, group, &going, began);
        if answer.is_ok() && !failed && deletions(world, group, &going) > before {
            return Err(Violation::of("law 7", format!("{group}: {going:?} deleted twice")));
        }
        Ok(())
    }

    async fn delete_failed(&mut self, world: &World, group: &str) -> Result<(), Violation> {
        let Some(failed) = failed(world, group) else { return Ok(()) };
        self.call(world, group, Mutation::Delete(failed)).await.map(drop)
    }

    /// Nodes that never registered: CA gives up on them, whether there is a machine or not.
    async fn delete_coming(&mut self, world: &World, group: &str) -> Result<(), Violation> {
        let Some((_, mut coming)) = listed(world, group, InstanceState::Creating) else { return Ok(()) };
        coming.truncate(self.rng.usize(1..4));
        let nodes: Vec<_> = coming.into_iter().map(|id| NamedNode { id, kind: NodeKind::Unregistered }).collect();
        if nodes.is_empty() {
            return Ok(());
        }
        if let Some(Sizes { min, .. }) = sizes_of_all(world, group).filter(|_| is_scale_set(world, group)) {
            // The capacity of a scale set is raised for those that take it below the minimum.
            let room = kept_in_all(world, group).saturating_sub(min);
            world.note_growth(group, u32::try_from(nodes.len()).unwrap_or(u32::MAX).saturating_sub(room));
        }
        world.note_taken_back(group);
        self.call(world, group, Mutation::Delete(nodes)).await.map(drop)
    }

    fn limit(&mut self) -> Deadline {
        let time = if self.rng.u32(..4) == 0 { self.rng.u64(100..5_000) } else { 5_000 };
        limit(Duration::from_millis(time))
    }

    /// What CA does in the end: it deletes failed instances, and takes back instances that never arrived.
    pub(super) async fn tidy_up(&mut self, world: &World) {
        for _ in 0..30 {
            let _stale_is_fine = world.fleet.refresh(Instant::now() + Duration::from_secs(4)).await;
            let groups: Vec<String> = world.fleet.snapshot().groups().map(|(id, _)| id.to_string()).collect();
            for group in groups {
                let time = Duration::from_secs(5);
                if let Some(failed) = failed(world, &group) {
                    let _tried_again_later = world.mutate(&group, Mutation::Delete(failed), limit(time)).await;
                }
                // As CA does when requested instances have not arrived for a long time.
                let _tried_again_later = world.mutate(&group, Mutation::Decrease(100), limit(time)).await;
            }
            sleep(Duration::from_secs(20)).await;
            if world.disagreement().is_none() {
                return;
            }
        }
    }
}

type Answer = Result<(), FleetError>;

fn limit(time: Duration) -> Deadline {
    let respond_by = Instant::now() + time;
    Deadline { send_by: respond_by - time.min(Duration::from_millis(500)) / 2, respond_by }
}

/// Law 8: if a call fails because the cloud is unreachable or throttled, a call for this very group met that fault.
fn check_trouble_is_own(world: &World, group: &str, began: Duration, error: &FleetError) -> Result<(), Violation> {
    let FleetError::Cloud { error: met, .. } = error else { return Ok(()) };
    if !matches!(*met, CloudError::Throttled { .. } | CloudError::Unreachable(_) | CloudError::Denied(_)) {
        return Ok(());
    }
    // A read of the group itself that got no response within the caller's time is its own trouble, however slow the
    // cloud is.
    if met.fault().message == "no response in time" {
        return Ok(());
    }
    let is_own =
        |call: &Call| call.at >= began && call.group.as_deref() == Some(whole(group)) && call.call_fault.is_some();
    if world.cloud.faults(|faults| faults.calls().any(is_own)) {
        return Ok(());
    }
    Err(Violation::of("law 8", format!("{group}: {error}, and no call for it met anything")))
}
