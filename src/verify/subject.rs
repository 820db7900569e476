//! The group that is verified: every call to its cloud goes through here and becomes evidence.

use std::time::Duration;

use super::clock::Clock;
use super::evidence::{Evidence, Observation, code, told};
use super::limits::{ATTEMPT_PAUSE, ATTEMPT_PAUSE_MAX, ATTEMPTS, SETTLE_LIMIT, WAIT_EVERY};
use super::probe::Probe;
use super::restoration::Restoration;
use super::settle::{self, Mode, Sizes, Step};
use super::state::StateError;
use super::trouble::Trouble;
use super::verdict::{Finding, Verdict};
use super::watch::{Event, Watch};
use crate::cloud::{
    Acceptance, Behavior, CapacityIs, CloudError, Consistency, Deletion, GroupName, GroupReading, LaunchActivity,
    LaunchRequest, LaunchResult, OperationHandle, Progress, ProviderId, ResponseLog, Shortfall, VerifiableCloud,
};

/// The group, and what has been seen of it.
pub(super) struct Subject<'a> {
    pub(super) cloud: &'a dyn VerifiableCloud,
    pub(super) clock: &'a dyn Clock,
    pub(super) watch: &'a mut dyn Watch,
    pub(super) restoration: Restoration,
    pub(super) instances_max: u32,
    declared: Option<CapacityIs>,
    responses: ResponseLog,
    pub(super) evidence: Evidence,
    pub(super) findings: Vec<Finding>,
    pub(super) behavior: Behavior,
    /// The last reading with instances.
    pub(super) last: Option<GroupReading>,
    /// How many writes were sent.
    pub(super) writes_sent: u32,
    /// How many of them the cloud throttled.
    pub(super) writes_throttled: u32,
}

impl<'a> Subject<'a> {
    pub(super) fn new(
        (cloud, responses): (&'a dyn VerifiableCloud, ResponseLog),
        clock: &'a dyn Clock,
        watch: &'a mut dyn Watch,
        restoration: Restoration,
        instances_max: u32,
        declared: Option<CapacityIs>,
    ) -> Self {
        Self {
            cloud,
            clock,
            watch,
            evidence: Evidence::of(&restoration.found().group),
            restoration,
            instances_max,
            declared,
            responses,
            findings: Vec::new(),
            behavior: Behavior::default(),
            last: None,
            writes_sent: 0,
            writes_throttled: 0,
        }
    }

    /// The size that was found.
    pub(super) fn size(&self) -> u32 {
        self.restoration.found().size
    }

    fn group(&self) -> GroupName {
        self.restoration.found().group.clone()
    }

    /// What a probe found.
    pub(super) fn find(&mut self, probe: Probe, model: Consistency, verdict: Verdict, seen: impl Into<String>) {
        let finding = Finding::new(probe, model, verdict, seen);
        self.watch.happened(Event::Found(&finding));
        self.findings.push(finding);
    }

    /// Reads the capacity.
    pub(super) async fn read(&mut self) -> Result<GroupReading, Trouble> {
        for _ in 1..ATTEMPTS {
            match self.read_once().await {
                Err(Trouble::Cloud(error)) if error.may_pass() => self.pause(&error).await,
                other => return other,
            }
        }
        self.read_once().await
    }

    async fn read_once(&mut self) -> Result<GroupReading, Trouble> {
        let at = self.clock.now();
        let read = self.cloud.read_capacity(&self.group()).await;
        self.note_reading(at, "read the group", read)
    }

    /// Reads the capacity and the instances.
    pub(super) async fn observe(&mut self) -> Result<GroupReading, Trouble> {
        for _ in 1..ATTEMPTS {
            match self.observe_once().await {
                Err(Trouble::Cloud(error)) if error.may_pass() => self.pause(&error).await,
                other => return other,
            }
        }
        self.observe_once().await
    }

    async fn observe_once(&mut self) -> Result<GroupReading, Trouble> {
        let at = self.clock.now();
        let read = self.cloud.observe_for_write(&self.group()).await;
        let reading = self.note_reading(at, "read the group and its instances", read)?;
        match reading.instances {
            Some(_) => {
                self.last = Some(reading.clone());
                Ok(reading)
            }
            None => Err(CloudError::unintelligible("Observe", "the group", "no instances").into()),
        }
    }

    /// Reads the group in the list of all groups.
    pub(super) async fn list(&mut self) -> Result<Option<GroupReading>, Trouble> {
        let at = self.clock.now();
        let group = self.group();
        let listed = self.cloud.list().await.map(|listing| {
            let ours = |reading: &GroupReading| reading.name == group;
            listing.groups.into_iter().find(ours)
        });
        match self.note_reading(at, "list the groups", listed) {
            Ok(reading) => Ok(Some(reading)),
            // A list that lacks the group may be an old one.
            Err(Trouble::Gone) => Ok(None),
            Err(Trouble::Cloud(error)) if error.may_pass() => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn note_reading(
        &mut self,
        at: Duration,
        call: &str,
        read: Result<Option<GroupReading>, CloudError>,
    ) -> Result<GroupReading, Trouble> {
        let response = match &read {
            Ok(Some(reading)) => self.evidence.reading(reading),
            Ok(None) => "no such group".to_owned(),
            Err(error) => told(error),
        };
        let texts = match &read {
            Ok(Some(reading)) => self.evidence.failures(reading),
            Ok(None) => Vec::new(),
            Err(error) => self.texts_of([error]),
        };
        self.note(at, call.to_owned(), response, texts);
        let mut reading = read?.ok_or(Trouble::Gone)?;
        if let Some(declared) = self.declared {
            reading.consistency.capacity_is = declared;
        }
        Ok(reading)
    }

    /// Sets the capacity on a reading, once.
    pub(super) async fn set_on(&mut self, basis: &GroupReading, to: u32) -> Result<Acceptance, Trouble> {
        if to > self.instances_max {
            return Err(Trouble::TooMany(to));
        }
        self.write_capacity(basis, to).await
    }

    async fn write_capacity(&mut self, basis: &GroupReading, to: u32) -> Result<Acceptance, Trouble> {
        let at = self.begin_write()?;
        let written = self.cloud.set_capacity(basis, to).await;
        let on = basis.etag.as_deref().map(|etag| format!(" if {}", self.evidence.etag(etag))).unwrap_or_default();
        self.end_write(at, format!("set the capacity to {to}{on}"), ("accepted", Vec::new()), written)
    }

    /// Deletes instances on a reading, once.
    pub(super) async fn delete_on(&mut self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, Trouble> {
        let at = self.begin_write()?;
        let deleted = self.cloud.delete_instances(basis, ids).await;
        let names: Vec<String> = ids.iter().map(|id| self.evidence.machine(id)).collect();
        let response = match &deleted {
            Ok(deletion) if !deletion.refused.is_empty() => {
                deletion.refused.iter().map(|(_, error)| told(error)).collect::<Vec<_>>().join(", ")
            }
            Ok(deletion) if deletion.accepted.is_empty() => "gone already".to_owned(),
            _ => "accepted".to_owned(),
        };
        let refused = deleted.iter().flat_map(|deletion| &deletion.refused).map(|(_, error)| error);
        let texts = self.texts_of(refused);
        self.end_write(at, format!("delete {}", names.join(", ")), (&response, texts), deleted)
    }

    /// Deletes an instance without telling the group.
    pub(super) async fn delete_behind(&mut self, id: &ProviderId) -> Result<(), Trouble> {
        let at = self.begin_write()?;
        let deleted = self.cloud.delete_behind(&self.group(), id).await;
        let call = format!("delete {} without telling the group", self.evidence.machine(id));
        self.end_write(at, call, ("accepted", Vec::new()), deleted)
    }

    /// Launches one instance by a call, once.
    pub(super) async fn launch_on(&mut self, basis: &GroupReading, token: &str) -> Result<LaunchResult, Trouble> {
        if basis.desired >= self.instances_max {
            return Err(Trouble::TooMany(basis.desired + 1));
        }
        let at = self.begin_write()?;
        let launched =
            self.cloud.launch(basis, &LaunchRequest { number: 1, token: token.to_owned(), zone: None }).await;
        let response = launched.as_ref().map(|launched| format!("{} launched", launched.instances.len()));
        let failures = launched.iter().flat_map(|launched| &launched.failures);
        let texts = self.evidence.texts(failures.map(|failure| failure.message.as_str()));
        self.end_write(at, "launch 1".to_owned(), (&response.unwrap_or_default(), texts), launched)
    }

    /// Before a write. What was found is on disk before the first one.
    pub(super) fn begin_write(&mut self) -> Result<Duration, StateError> {
        let at = self.clock.now();
        self.restoration.before_write(at)?;
        self.writes_sent += 1;
        Ok(at)
    }

    fn end_write<T>(
        &mut self,
        at: Duration,
        call: String,
        (accepted, mut texts): (&str, Vec<String>),
        written: Result<T, CloudError>,
    ) -> Result<T, Trouble> {
        let response = written.as_ref().err().map_or_else(|| accepted.to_owned(), told);
        texts.extend(self.texts_of(written.as_ref().err()));
        self.note(at, call, response, texts);
        self.writes_throttled += u32::from(matches!(written, Err(CloudError::Throttled { .. })));
        if !written.as_ref().is_err_and(CloudError::outcome_unknown) {
            self.restoration.answered();
        }
        Ok(written?)
    }

    /// What a write shows that was abandoned.
    pub(super) fn note_abandoned(&mut self, at: Duration, to: u32) {
        self.note(at, format!("set the capacity to {to}"), "abandoned".to_owned(), Vec::new());
    }

    /// What an accepted operation has come to.
    pub(super) async fn follow(&mut self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        let at = self.clock.now();
        let progress = self.cloud.follow(handle).await;
        let response = match &progress {
            Ok(Progress::Running { .. }) => "running".to_owned(),
            Ok(Progress::Succeeded) => "succeeded".to_owned(),
            Ok(Progress::Failed(failure)) => format!("failed ({})", code(&failure.code)),
            Ok(Progress::Preempted) => "preempted".to_owned(),
            Err(error) => told(error),
        };
        let texts = match &progress {
            Ok(Progress::Failed(failure)) => self.evidence.texts([failure.message.as_str()].into_iter()),
            Ok(_) => Vec::new(),
            Err(error) => self.texts_of([error]),
        };
        self.note(at, "poll an operation".to_owned(), response, texts);
        progress
    }

    /// What the cloud says of launches.
    pub(super) async fn launches(&mut self, shortfall: Shortfall) -> Option<LaunchActivity> {
        let at = self.clock.now();
        let activity = self.cloud.launch_activity(&self.group(), shortfall).await;
        let response = match &activity {
            Ok(activity) => {
                let failures = activity.failures.iter().map(|failure| format!(", failed ({})", code(&failure.code)));
                let (under_way, launched) = (activity.under_way, activity.launched.len());
                format!("{under_way} under way, {launched} launched{}", failures.collect::<String>())
            }
            Err(error) => told(error),
        };
        let texts = match &activity {
            Ok(activity) => self.evidence.launch_failures(activity),
            Err(error) => self.texts_of([error]),
        };
        self.note(at, "read the launches".to_owned(), response, texts);
        activity.ok()
    }

    fn texts_of<'e>(&self, errors: impl IntoIterator<Item = &'e CloudError>) -> Vec<String> {
        self.evidence.texts(errors.into_iter().map(|error| error.fault().message.as_str()))
    }

    fn note(&mut self, at: Duration, call: String, response: String, texts: Vec<String>) {
        let took = self.clock.now().saturating_sub(at);
        let http = self.evidence.http(self.responses.take());
        let observation = Observation { at: seconds(at), took: seconds(took), call, response, times: 1, texts, http };
        self.watch.happened(Event::Called(&observation));
        self.evidence.add(observation);
    }

    async fn pause(&self, error: &CloudError) {
        let asked = match error {
            CloudError::Throttled { retry_after, .. } => *retry_after,
            _ => None,
        };
        self.clock.sleep(asked.unwrap_or(ATTEMPT_PAUSE).min(ATTEMPT_PAUSE_MAX)).await;
    }

    /// Sets the capacity on a fresh reading; conflicts and throttling are tried again.
    pub(super) async fn set(&mut self, to: u32) -> Result<Acceptance, Trouble> {
        for _ in 1..ATTEMPTS {
            let basis = self.observe().await?;
            match self.set_on(&basis, to).await {
                Err(Trouble::Cloud(error)) if error.may_be_repeated() => self.pause(&error).await,
                other => return other,
            }
        }
        let basis = self.observe().await?;
        self.set_on(&basis, to).await
    }

    /// Waits until a reading shows what is wanted.
    pub(super) async fn until<T>(
        &mut self,
        what: &'static str,
        limit: Duration,
        every: Duration,
        mut wanted: impl FnMut(&GroupReading) -> Option<T>,
    ) -> Result<T, Trouble> {
        let until = self.clock.now() + limit;
        loop {
            let reading = self.observe().await?;
            if let Some(found) = wanted(&reading) {
                return Ok(found);
            }
            if self.clock.now() >= until {
                return Err(Trouble::TimedOut(what));
            }
            self.clock.sleep(every).await;
        }
    }

    /// Brings the group to the size that was found and this many instances more.
    pub(super) async fn bring_to(&mut self, own: u32) -> Result<GroupReading, Trouble> {
        let to = self.size() + own;
        let (until, mut mode) = (self.clock.now() + SETTLE_LIMIT, Mode::Gently);
        let mut last: Option<(u32, Sizes, Duration)> = None;
        loop {
            let reading = self.observe().await?;
            let (now, sizes) = (self.clock.now(), Sizes::of(&reading));
            let since = match last {
                Some((desired, before, since)) if desired == reading.desired && before == sizes => since,
                _ => now,
            };
            last = Some((reading.desired, sizes, since));
            let (step, then) = settle::next(&reading, to, self.restoration.found(), mode, now.saturating_sub(since));
            mode = then;
            let written = match step {
                Step::Done => return Ok(reading),
                Step::Wait => Ok(()),
                Step::Delete(ids) => self.delete_on(&reading, &ids).await.map(drop),
                Step::Set(size) => self.write_capacity(&reading, size).await.map(drop),
            };
            match written {
                Err(Trouble::Cloud(error)) if error.may_be_repeated() || error.outcome_unknown() => {
                    self.pause(&error).await
                }
                other => other?,
            }
            if now >= until {
                return Err(Trouble::TimedOut("the group to have the size that it is to have"));
            }
            self.clock.sleep(WAIT_EVERY).await;
        }
    }

    /// The instances that the group did not have at the beginning, in this reading.
    pub(super) fn own(&self, reading: &GroupReading) -> Vec<ProviderId> {
        let live = reading.instances.iter().flatten().filter(|one| settle::lives(one));
        live.map(|one| one.id.clone()).filter(|id| !self.restoration.found().instances.contains(id)).collect()
    }
}

/// Seconds with three digits.
pub(super) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e3).round() / 1e3
}
