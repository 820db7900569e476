//! What is done after every observation: raising back a group that our own write left too low (law 11), lowering what CA
//! cancelled as soon as that is safe, and planning when to look again.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Keeper;
use super::attempts::Attempts;
use super::capacity::CapacityOutcome;
use super::fresh::FreshInstances;
use crate::cloud::{CloudError, OwnLaunches, Shortfall};
use crate::fleet::error::FleetError;
use crate::fleet::journal::Decision;
use crate::fleet::limits::{
    HEAL_ACTIVITY_LIMIT, HEAL_READ_EVERY, LAUNCH_BEGINS, LOOK_SOON, LOWER_LIMIT, OWN_SURPLUS, OWN_WRITE_LIMIT,
};
use crate::fleet::plan;
use crate::fleet::state::WriteReason;

impl Keeper {
    /// Does what the last observation calls for.
    pub(super) async fn settle(&mut self) {
        self.resubmit().await;
        self.heal().await;
        self.lower_deferred().await;
        self.plan_look();
    }

    /// Raises the capacity back where instances came up under our own reduction, or outlived our own deletion.
    async fn heal(&mut self) {
        if plan::healed_capacity(&self.state, &OwnLaunches::default()).is_none() {
            return;
        }
        let own = self.launched_by_the_cloud().await;
        if plan::healed_capacity(&self.state, &own).is_none() {
            return;
        }
        let mut attempts = Attempts::until(Instant::now() + OWN_WRITE_LIMIT);
        let fresh = match self.fresh(&mut attempts).await {
            Ok(fresh) => fresh,
            Err(error) => {
                tracing::warn!(group = %self.group_id(), %error, "node group cannot be read to raise its capacity back");
                return;
            }
        };
        let Some(to) = plan::healed_capacity(&self.state, &own).filter(|to| !self.has_just_raised_back(*to)) else {
            return;
        };
        tracing::warn!(group = %self.group_id(), to, "more instances live than our own write left room for; raising the capacity back");
        match self.write_capacity(fresh, to, WriteReason::Heal, &mut attempts).await {
            CapacityOutcome::Accepted => {
                self.raised_back = Some((to, Instant::now()));
                self.note_raised_back(to, "ok");
            }
            CapacityOutcome::Retry(error) => {
                tracing::warn!(group = %self.group_id(), to, %error, "capacity not raised back yet");
            }
            CapacityOutcome::Failed(error) => {
                self.note_raised_back(to, "failed");
                tracing::error!(group = %self.group_id(), to, %error, "the capacity could not be raised back");
            }
        }
    }

    /// Whether the cloud accepted the same capacity a moment ago. Reads that lag do not show it yet, and must not cause a write each.
    fn has_just_raised_back(&self, to: u32) -> bool {
        self.raised_back.is_some_and(|(last, at)| last == to && at.elapsed() < HEAL_READ_EVERY)
    }

    /// Instances that the cloud launched for reasons of its own, and that may be why more live than a write of ours left room
    /// for. Where they cannot be read, there are none: too large a capacity costs less than instances that nobody named.
    async fn launched_by_the_cloud(&mut self) -> OwnLaunches {
        let Some(sent) = self.state.undone_since() else { return OwnLaunches::default() };
        let since =
            self.context.cloud.now().checked_sub(sent.elapsed() + OWN_SURPLUS).unwrap_or(SystemTime::UNIX_EPOCH);
        match self.reader.launch_activity(Shortfall { missing: u32::MAX, since }, HEAL_ACTIVITY_LIMIT).await {
            Ok(activity) => activity.own,
            Err(error) => {
                self.activity_failed(&error);
                OwnLaunches::default()
            }
        }
    }

    fn note_raised_back(&self, to: u32, result: &'static str) {
        self.context.journal.decide(Decision {
            at: SystemTime::now(),
            group: self.group_id().to_string(),
            action: format!("raise the capacity back to {to}"),
            result,
            reason: "more instances live than our own write left room for".to_owned(),
            request_id: None,
        });
    }

    /// Writes a reduction that was unsafe when it was requested, once it is safe.
    async fn lower_deferred(&mut self) {
        if self.state.deferred() == 0 {
            return;
        }
        let Some(fresh) = self.just_observed() else {
            // A listing shows that it may be safe by now, but only a read of this group is fresh enough to write on.
            if plan::reduced_capacity(&self.state, 0).is_some() {
                self.look_soon();
            }
            return;
        };
        let mut attempts = Attempts::until(Instant::now() + OWN_WRITE_LIMIT);
        if let Err(error) = self.lower(fresh, &mut attempts).await {
            tracing::warn!(group = %self.group_id(), %error, "a deferred reduction could not be written; it is tried again later");
        }
    }

    /// Lowers the capacity by what is cancelled, as far as that is safe at this moment; the rest stays deferred.
    pub(super) async fn lower(&mut self, fresh: FreshInstances, attempts: &mut Attempts) -> Result<(), FleetError> {
        let mut fresh = fresh;
        loop {
            if !self.state.is_steady() {
                fresh = self.fresh_instances(attempts).await?;
            }
            let Some(under_way) = self.launches_under_way().await else { return Ok(()) };
            let Some(to) = plan::reduced_capacity(&self.state, under_way) else { return Ok(()) };
            match self.write_capacity(fresh.into(), to, WriteReason::Requested, attempts).await {
                CapacityOutcome::Accepted => return Ok(()),
                CapacityOutcome::Retry(error) if attempts.again_after(&error).await => {
                    fresh = self.fresh_instances(attempts).await?;
                }
                CapacityOutcome::Retry(error) => {
                    tracing::warn!(group = %self.group_id(), %error, "a deferred reduction could not be written; it is tried again later");
                    return Ok(());
                }
                CapacityOutcome::Failed(error) => return Err(error),
            }
        }
    }

    /// Instances that the cloud has begun to launch and does not list yet. Where the cloud does not permit to read them, the listed
    /// instances have to do. `None` where they cannot be read at the moment: unknown is not 0 (law 5).
    async fn launches_under_way(&mut self) -> Option<u32> {
        let no_failures = Shortfall { missing: 0, since: self.context.cloud.now() };
        match self.reader.launch_activity(no_failures, LOWER_LIMIT).await {
            Ok(activity) => Some(self.state.to_come(&activity)),
            Err(error) => {
                self.activity_failed(&error);
                matches!(error, CloudError::Denied(_)).then_some(0)
            }
        }
    }

    /// Whether a reduction is deferred that only time stands in the way of. The next listing may be ten minutes away.
    fn is_deferred_for_a_moment(&self) -> bool {
        self.state.deferred() > 0
            && (!self.state.is_steady() || self.state.has_just_grown() || self.state.may_be_outdated())
    }

    /// Reads the group in a moment: something has changed that a read shows.
    pub(super) fn look_soon(&mut self) {
        self.look_by(Instant::now() + LOOK_SOON);
    }

    pub(super) fn look_by(&mut self, at: Instant) {
        self.look_at = Some(self.look_at.map_or(at, |planned| planned.min(at)));
    }

    /// Plans when the group is read next without a request.
    pub(super) fn plan_look(&mut self) {
        let now = Instant::now();
        let is_unsettled =
            self.unsettled_until.is_some_and(|until| now < until) || self.state.in_flight().has_unsettled();
        let is_owed = self.state.deferred() > 0 || self.state.is_learning_kind_of_capacity();
        let owed_until = self.state.lists_all_from().filter(|_| is_owed && self.state.may_lack_instances());
        if let Some(until) = owed_until {
            // Where reads fail, it is past until one succeeds.
            self.look_by(until.max(now + LAUNCH_BEGINS));
        }
        if let Some(at) = self.state.launches_show_at().filter(|at| now < *at) {
            self.look_by(at);
        }
        let pause: Duration = if is_unsettled || self.state.is_watched(now) {
            HEAL_READ_EVERY
        } else if self.is_deferred_for_a_moment() {
            LAUNCH_BEGINS
        } else {
            return;
        };
        self.look_by(now + pause);
    }
}
