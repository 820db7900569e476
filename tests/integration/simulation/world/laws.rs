//! The laws that the cloud and a process are checked against, and the exceptions that the simulation's README names.

use std::mem;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use headcount::cloud::ProviderId;
use headcount::clouds::simulated::{
    ActivityKind, CLIENT_PATIENCE, Call, CallFault, CallKind, Ending, Faults, Group, GroupStyle, Killed, OperationKind,
};
use headcount::fleet::Snapshot;
use tokio::time::{Instant, sleep};

use super::{World, whole};
use crate::simulation::Violation;
use crate::simulation::faults::RAISE_UNREAD;
use crate::simulation::shown::live_in;

/// How long everything may take to settle, in simulated time.
const SETTLE_LIMIT: Duration = Duration::from_secs(40 * 60);
/// How long after a crash a write of the crashed process may still cost instances: an Auto Scaling group tolerates a
/// surplus for some twenty seconds, so a process that crashes before it raises the capacity back may leave the next
/// one too little time. Headcount cannot prevent that; see the README beside the simulation.
pub(super) const AFTER_CRASH: Duration = Duration::from_secs(45);
/// How long after a crash a termination that was sent twice may cost an instance. The one of the crashed process
/// takes effect up to 22 s later. Until then the next process may send it again, and that one takes effect up to 22 s
/// later, too. Auto Scaling lowers the capacity twice, and tolerates the surplus for [`SURPLUS_TOLERATED`].
const REPEATED_AFTER_CRASH: Duration = Duration::from_secs(22 + 22 + 25);
/// How long an Auto Scaling group tolerates a surplus, and how long a call about it may take.
const SURPLUS_TOLERATED: Duration = Duration::from_secs(25);
/// How long a call may take to take effect, where the cloud responds in time.
const CALL_LASTS: Duration = Duration::from_millis(1_500);
/// How long reads of Auto Scaling groups lag at most.
const READS_LAG: Duration = Duration::from_secs(4);
/// How long reads may lag, for all that Headcount knows: `Consistency::LAG`.
const READS_MAY_LAG: Duration = Duration::from_secs(30);
/// How long Headcount waits for activities: `DETAIL_LIMIT`.
const ACTIVITY_PATIENCE: Duration = Duration::from_secs(2);
/// A launch takes as long as EC2 takes, up to this.
const LAUNCH_LASTS: Duration = Duration::from_secs(20);
/// How long a deletion may count before a read settles it: 10 s until its client gives up, 30 s in which reads may
/// lag, and the reads themselves.
pub(super) const UNSETTLED: Duration = Duration::from_secs(75);

/// By when a write took effect. One without a response may do so after its client gave up.
fn took_effect(call: &Call) -> Duration {
    match call.call_fault {
        Some(CallFault::Late(later)) => call.at + CLIENT_PATIENCE + later,
        _ => call.at + CALL_LASTS,
    }
}

fn of_group<'a>(faults: &'a Faults, group: &'a str) -> impl Iterator<Item = &'a Call> {
    faults.calls().filter(move |call| call.group.as_deref() == Some(group))
}

/// Whether a call names this instance to be deleted, and the cloud has answered it.
fn names(call: &Call, instance: &str) -> bool {
    let is_answered = call.kind == CallKind::DeleteInstances && call.call_fault.is_none();
    is_answered && call.detail.split(' ').any(|named| named == instance)
}

/// The writes that may be why a group has terminated an instance at this moment, each with when the last read before it
/// began.
fn recent_writes<'a>(faults: &'a Faults, group: &'a str, at: Duration) -> impl Iterator<Item = (&'a Call, Duration)> {
    let is_write = |call: &&Call| matches!(call.kind, CallKind::SetCapacity | CallKind::DeleteInstances);
    let is_recent = move |call: &&Call| call.at <= at && at <= took_effect(call) + SURPLUS_TOLERATED;
    of_group(faults, group).filter(is_write).filter(is_recent).filter_map(move |write| {
        let reads = of_group(faults, group).filter(|call| call.kind == CallKind::Observe && call.at < write.at);
        Some((write, reads.map(|call| call.at).max()?))
    })
}

/// Whether a read shows a group as it was at one of these moments.
fn is_read(faults: &Faults, group: &str, moments: Range<Duration>) -> bool {
    let is_fresh = |read: &&Call| {
        let answered = read.at..=read.at + read.delay;
        read.kind == CallKind::Observe && !faults.stale_reads(group).any(|(at, _)| answered.contains(&at))
    };
    faults.stale_reads(group).any(|(_, shown)| moments.contains(&shown))
        || of_group(faults, group).filter(is_fresh).any(|read| moments.contains(&(read.at + read.delay)))
}

impl World {
    /// Law 11: no capacity is above what was requested. Exact only where no other client changes anything, and the
    /// cloud launches nothing by itself; the README beside the simulation says how close it comes otherwise.
    pub(in crate::simulation) fn check_nothing_unrequested(&self) -> Result<(), Violation> {
        let ledger = self.ledger.borrow();
        let above = self.cloud.world(|world, _| {
            let mut groups = world.groups();
            groups.find_map(|group| {
                // Such a write sets its capacity again, over what was deleted in the meantime.
                if self.had_late_write(group.name()) || self.has_had_surplus(group.name()) {
                    return None;
                }
                let requested = ledger.requested.get(group.name()).copied().unwrap_or_default();
                let most = requested.saturating_sub(group.removed());
                (group.capacity() > most.max(group.plan().min)).then(|| {
                    let (name, capacity) = (group.name(), group.capacity());
                    format!("{name} has a capacity of {capacity}, and only {most} were requested")
                })
            })
        });
        above.map_or(Ok(()), |above| Err(Violation::of("law 11", above)))
    }

    /// Whether a write to a group got no response. A termination that begins late is undone by a scale-up that was
    /// computed before. A launch that was under way in a crash is unknown to the next process, which may raise the
    /// capacity back for its instances before it raises the capacity itself.
    fn had_late_write(&self, group: &str) -> bool {
        let crashes = self.crashes.borrow();
        self.cloud.faults(|faults| {
            faults.calls().filter(|call| call.group.as_deref() == Some(group)).any(|call| match call.kind {
                CallKind::SetCapacity | CallKind::DeleteInstances => {
                    call.call_fault.as_ref().is_some_and(|fault| !matches!(fault, CallFault::Conflict))
                }
                CallKind::Launch => crashes.iter().any(|at| call.at <= *at && *at <= call.at + LAUNCH_LASTS),
                _ => false,
            })
        })
    }

    /// Checks the laws that can be checked at any time.
    pub(in crate::simulation) fn check(&self) -> Result<(), Violation> {
        self.check_kills()
    }

    /// Law 1: no capacity write of Headcount deleted an instance that nobody named.
    fn check_kills(&self) -> Result<(), Violation> {
        let after_crash = |at: Duration| {
            self.crashes.borrow().iter().any(|crash| *crash <= at && at <= *crash + REPEATED_AFTER_CRASH)
        };
        let all = self.cloud.killed_unnamed();
        let at_once =
            |one: &Killed| all.iter().filter(|other| (other.at, &other.group) == (one.at, &one.group)).count();
        let is_excused = |killed: &Killed| {
            after_crash(killed.at)
                || self.was_blocked(&killed.group, killed.at)
                || self.was_resized_in_between(&killed.group, killed.at)
                || self.was_launched_in_between(&killed.group, killed.at)
                || self.was_set_back(&killed.group, killed.at)
                || at_once(killed) <= self.surplus_that_stays(&killed.group)
                || self.was_named_by_both(&killed.group, killed.at)
                || self.was_set_by_both(&killed.group, killed.at)
        };
        let is_on_aws = |killed: &Killed| killed.id.as_str().starts_with("aws:");
        let has_excuse =
            |killed: &Killed| if is_on_aws(killed) { is_excused(killed) } else { self.is_excused_on_azure(killed) };
        // Each is judged once: the cloud forgets its activities.
        let judged = mem::replace(&mut self.ledger.borrow_mut().judged, all.len());
        match all.iter().skip(judged).find(|killed| !has_excuse(killed)) {
            None => Ok(()),
            Some(killed) => Err(Violation::of("law 1", format!("{killed:?} was deleted, and nobody had named it"))),
        }
    }

    /// Whether the cloud failed a call that would have shown the surplus or raised the capacity back in time. Where
    /// the cloud has had a surplus of its own, only the activities tell it from instances that have to stay.
    fn was_blocked(&self, group: &str, at: Duration) -> bool {
        let has_had_surplus = self.has_had_surplus(group);
        let has_failed = |call: &Call| match call.kind {
            CallKind::Observe | CallKind::SetCapacity => call.call_fault.is_some(),
            CallKind::LaunchActivity => {
                has_had_surplus && (call.call_fault.is_some() || call.delay > ACTIVITY_PATIENCE)
            }
            _ => false,
        };
        self.cloud.faults(|faults| {
            let mut calls = faults.calls().filter(|call| call.group.as_deref() == Some(group));
            calls.any(|call| has_failed(call) && call.at <= at && at <= call.at + SURPLUS_TOLERATED)
        })
    }

    /// Whether another client set the capacity between a write, shortly before, and the read that this was computed from
    /// (`changed-between-read-and-write`), or the state that this read showed (`read-lags`). No read shows that capacity,
    /// so nothing is raised back to it. After a deletion, what it lowered twice looks like the other client's reduction.
    fn was_resized_in_between(&self, group: &str, at: Duration) -> bool {
        let ledger = self.ledger.borrow();
        let resized = ledger.resized.get(group).map(Vec::as_slice).unwrap_or_default();
        self.cloud.faults(|faults| {
            recent_writes(faults, group, at).any(|(write, read)| {
                // A read that lags shows less. A later one that lags may still show what the other client set.
                let mut lagging = faults.stale_reads(group).filter(|(at, _)| (read..=write.at).contains(at));
                let read_shows = lagging.next().map_or(read, |(_, shown)| shown.min(read));
                // One that takes effect late undoes what it finds. What a read shows until then is raised back to.
                let by = took_effect(write);
                let is_deletion = write.kind == CallKind::DeleteInstances;
                let is_missed = |resized: Duration| {
                    (read..=write.at + CALL_LASTS).contains(&resized)
                        || ((read..=by).contains(&resized) && (is_deletion || !is_read(faults, group, resized..by)))
                        || ((read_shows..read).contains(&resized)
                            && (is_deletion || !is_read(faults, group, resized..write.at)))
                };
                resized.iter().any(|(resized, _)| is_missed(*resized))
            })
        })
    }

    /// Whether a launch raised the capacity between a write of it, shortly before, and the read that this was computed
    /// from: one of another process, or one of ours of which another client's raise hid that it had not raised it yet.
    fn was_launched_in_between(&self, group: &str, at: Duration) -> bool {
        let ledger = self.ledger.borrow();
        let resized = ledger.resized.get(group).map(Vec::as_slice).unwrap_or_default();
        self.cloud.faults(|faults| {
            let launches = || of_group(faults, group).filter(|call| call.kind == CallKind::Launch);
            let mut writes = recent_writes(faults, group, at).filter(|(write, _)| write.kind == CallKind::SetCapacity);
            writes.any(|(write, read)| {
                let is_under_way = |call: &&Call| call.at <= write.at && read <= call.at + LAUNCH_LASTS;
                let is_hidden = |call: &Call| {
                    resized.iter().any(|(resized, _)| call.at <= *resized + READS_LAG && *resized <= write.at)
                };
                let is_excused = |call: &Call| self.has_sent(call) != self.has_sent(write) || is_hidden(call);
                launches().filter(is_under_way).any(is_excused)
            })
        })
    }

    /// How many instances of its own the cloud seems to have beyond the capacity, according to its activities, and has not:
    /// another client has made room for them, or they take the place of others that were lost. It keeps them.
    fn surplus_that_stays(&self, group: &str) -> usize {
        let ledger = self.ledger.borrow();
        if ledger.resized.contains_key(group) {
            return self.surplus_beyond(group);
        }
        let evicted = ledger.evicted.get(group).copied().unwrap_or_default();
        self.surplus_beyond(group).min(evicted + self.failed(group))
    }

    /// How many more instances of its own the cloud seems to have than it has.
    fn surplus_beyond(&self, group: &str) -> usize {
        self.cloud.world(|world, _| {
            let Some(group) = world.group(whole(group)) else { return 0 };
            let own = group.launch_activity(SystemTime::UNIX_EPOCH).own;
            let surplus = usize::try_from(group.live() - group.live_without_surplus()).unwrap_or(usize::MAX);
            own.additional().len().saturating_sub(surplus)
        })
    }

    /// How many instances failed: the group terminates them, and nobody named them.
    fn failed(&self, group: &str) -> usize {
        let killed = self.cloud.killed_unnamed();
        let is_killed = |id: &String| killed.iter().any(|killed| killed.id.instance() == id);
        let ended: Vec<String> = self.cloud.world(|world, _| {
            let activities = world.group(whole(group)).into_iter().flat_map(Group::activities);
            let ended = activities.filter(|one| one.kind == ActivityKind::Terminate && !one.is_own);
            ended.filter_map(|one| one.instance.clone()).collect()
        });
        self.cloud.faults(|faults| {
            let is_named = |id: &String| of_group(faults, whole(group)).any(|call| names(call, id));
            ended.iter().filter(|id| !is_killed(id) && !is_named(id)).count()
        })
    }

    fn is_excused_on_azure(&self, killed: &Killed) -> bool {
        self.was_preempted(killed) || self.was_misread(killed)
    }

    /// Whether the write that deleted it was computed from a wrong reading of 0 with the current etag, of a scale set that
    /// a write without a response had just raised from 0. Nothing that was known before contradicts it.
    fn was_misread(&self, killed: &Killed) -> bool {
        self.cloud.faults(|faults| {
            let raises = || {
                let writes = of_group(faults, &killed.group).filter(|call| call.kind == CallKind::SetCapacity);
                writes.filter(|call| call.detail.starts_with("0 → "))
            };
            let is_late = |call: &&Call| matches!(call.call_fault, Some(CallFault::Late(_)));
            let late: Vec<_> = raises().filter(is_late).map(took_effect).collect();
            let is_recent = |at: Duration| late.iter().any(|raised| (*raised..*raised + RAISE_UNREAD).contains(&at));
            raises().any(|call| call.at <= killed.at && killed.at <= took_effect(call) && is_recent(call.at))
        })
    }

    /// Whether CA had named an instance of a scale set, and the write that deleted it preempted that deletion.
    fn was_preempted(&self, killed: &Killed) -> bool {
        let preempts = self.cloud.world(|world, _| {
            let mut operations = world.group(whole(&killed.group)).into_iter().flat_map(Group::operations);
            operations
                .any(|one| one.kind == OperationKind::Delete && one.ending == Some((killed.at, Ending::Preempted)))
        });
        let is_named = |faults: &mut Faults| {
            let mut calls = of_group(faults, whole(&killed.group)).filter(|call| call.at < killed.at);
            calls.any(|call| names(call, killed.id.instance()))
        };
        preempts && self.cloud.faults(is_named)
    }

    /// Whether another client set the capacity to what it was before a write of ours, while reads may still lag behind that
    /// write (`read-lags`). What it set looks like a read that lags, so what our deletions lower it by is not raised back.
    fn was_set_back(&self, group: &str, at: Duration) -> bool {
        let ledger = self.ledger.borrow();
        let resized = ledger.resized.get(group).map(Vec::as_slice).unwrap_or_default();
        self.cloud.faults(|faults| {
            let of_group = faults.calls().filter(|call| call.group.as_deref() == Some(group));
            let mut writes = of_group.filter(|call| call.kind == CallKind::SetCapacity && call.at <= at);
            writes.any(|write| {
                let undone = |resized: &&(Duration, u32)| {
                    write.detail.starts_with(&format!("{} → ", resized.1))
                        && (write.at..=write.at + READS_MAY_LAG).contains(&resized.0)
                };
                let is_recent = |resized: &(Duration, u32)| at <= resized.0 + READS_MAY_LAG + SURPLUS_TOLERATED;
                resized.iter().filter(undone).any(is_recent)
            })
        })
    }

    /// Law 2: before each write to a group there is a read of it, later than the write before.
    pub(in crate::simulation) fn check_reads_before_writes(&self) -> Result<(), Violation> {
        self.seen.iter().try_for_each(|seen| seen.check_reads_before_writes())
    }

    /// After everything has settled, target, instances and cloud agree exactly.
    pub(in crate::simulation) async fn check_agreement(&self) -> Result<(), Violation> {
        self.cloud.faults(Faults::clear);
        let until = Instant::now() + SETTLE_LIMIT;
        while let Some(disagreement) = self.disagreement() {
            if Instant::now() >= until {
                return Err(Violation::of("law 3", format!("not settled: {disagreement}")));
            }
            sleep(Duration::from_secs(10)).await;
        }
        Ok(())
    }

    /// A group whose published status differs from the cloud.
    pub(in crate::simulation) fn disagreement(&self) -> Option<String> {
        let snapshot = self.fleet.snapshot();
        self.cloud.world(|world, _| {
            world.groups().find_map(|group| {
                if self.process.has_separate_zones {
                    return zones_disagree(&snapshot, group);
                }
                let Some((_, view)) = snapshot.group(group.name()) else {
                    return Some(format!("{} is not served", group.name()));
                };
                let (target, capacity, live) = (view.status.target, group.capacity(), group.live());
                let listed: Vec<&str> = view.status.instances.iter().map(|reported| reported.id.as_str()).collect();
                let unlisted = group.members().filter(|member| !listed.contains(&member.provider_id.as_str())).count();
                // A shortfall that the minimum prevents lowering is not in the target until instances arrive. The
                // capacity of a scale set is not lowered, and raised only by scale-ups.
                let is_kept = group.plan().style == GroupStyle::ScaleSet;
                // Where another client lowers the capacity of a group whose instances are protected, all of them stay, and
                // the next scale-up makes room for them.
                let is_surplus_kept = group.plan().is_protected && capacity < live;
                let is_explained = capacity == live || capacity <= group.plan().min || is_kept || is_surplus_kept;
                // Instances beyond it that nothing of this process explains are left out of the target of a scale set
                // until it grows. So are those of a protected group that the first read of a process has wrongly shown as
                // empty: nothing tells them from the cloud's own.
                let is_new = is_surplus_kept && !self.crashes.borrow().is_empty();
                let is_beyond = (is_kept || is_new) && (capacity..=live).contains(&target);
                let agrees = (target == live || is_beyond) && unlisted == 0 && is_explained;
                (!agrees).then(|| format!("{}: target {target}, capacity {capacity}, live {live}", group.name()))
            })
        })
    }

    /// Whether all instances that the capacity has room for may just have been deleted. Either a deletion got no
    /// response, and its instances count as being deleted (law 7), or the cloud has a surplus of its own, and only
    /// the next read shows whether a deletion lowered the capacity or the surplus. Or a read was old, and some of
    /// what was named was on its way out already.
    pub(in crate::simulation) fn has_unsettled_deletion(&self, group: &str) -> bool {
        let (has_surplus, since) = (self.has_had_surplus(group), self.cloud.elapsed().saturating_sub(UNSETTLED));
        self.cloud.faults(|faults| {
            let is_read_late = faults.last_stale_read(whole(group)).is_some_and(|read| read >= since);
            faults.calls().any(|call| {
                let is_lost = call.call_fault.as_ref().is_some_and(|fault| !matches!(fault, CallFault::Conflict));
                call.kind == CallKind::DeleteInstances
                    && call.group.as_deref() == Some(whole(group))
                    && (is_lost || has_surplus || is_read_late)
                    && call.at >= since
            })
        })
    }
}

/// A zone whose published status differs from the cloud.
fn zones_disagree(snapshot: &Snapshot, group: &Group) -> Option<String> {
    let (name, capacity, live) = (group.name(), group.capacity(), group.live());
    if capacity != live && capacity > group.plan().min {
        return Some(format!("{name}: capacity {capacity}, live {live}"));
    }
    group.plan().zones.iter().find_map(|zone| {
        let Some((_, view)) = snapshot.group(&format!("{name}/{zone}")) else {
            return Some(format!("{name}/{zone} is not served"));
        };
        let (target, live) = (view.status.target, live_in(group, zone));
        let is_listed = |id: &ProviderId| view.status.instances.iter().any(|reported| reported.id == *id);
        let mut members = group.members().filter(|member| member.zone == *zone);
        let agrees = target == live && members.all(|member| is_listed(&member.provider_id));
        (!agrees).then(|| format!("{name}/{zone}: target {target}, live {live}"))
    })
}
