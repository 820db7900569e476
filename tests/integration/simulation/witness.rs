//! What one process requests from the cloud. The cloud's own log does not say which process called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use headcount::cloud::{
    Acceptance, Cloud, CloudError, Deletion, GroupName, GroupReading, InstanceType, LaunchActivity, LaunchRequest,
    LaunchResult, LaunchSpec, Listing, OperationHandle, Progress, ProviderId, SharedCloud, Shortfall, WritableCloud,
};
use tokio::time::Instant;

use super::Violation;

/// Stands between one process and its cloud.
pub(super) struct Witness {
    cloud: SharedCloud,
    seen: Arc<Seen>,
}

/// What it saw.
#[derive(Default)]
pub(super) struct Seen {
    groups: Mutex<BTreeMap<GroupName, Group>>,
    /// How many times it asked for the deletion of each instance.
    deletions: Mutex<BTreeMap<ProviderId, usize>>,
    /// Its writes: the group, and what the log of the cloud's calls says of them.
    sent: Mutex<BTreeSet<(GroupName, String)>>,
}

/// The calls about one group.
#[derive(Default)]
struct Group {
    writes: u64,
    /// Whether a read since the last write has succeeded.
    is_read: bool,
    launches: u64,
    /// The reads for a write that no launch was computed on. A launch is relative: it is not computed on what other
    /// writes change, nor are they on it.
    unspent: Unspent,
    /// The first write without one.
    blind: Option<String>,
}

/// How many reads succeeded at the latest moment at which any did. A launch runs beside the next read, which may end
/// before it is sent, but at the same moment.
#[derive(Default)]
struct Unspent(Option<(Instant, u32)>);

impl Unspent {
    fn add(&mut self, now: Instant) {
        let before = self.0.filter(|(at, _)| *at == now).map_or(0, |(_, reads)| reads);
        self.0 = Some((now, before + 1));
    }

    /// Takes the one that a launch is computed on, and whatever is older. Returns whether there was one.
    fn spend(&mut self, now: Instant) -> bool {
        let Some((at, reads)) = self.0.take() else { return false };
        self.0 = Some((at, reads - 1)).filter(|(at, left)| *at == now && *left > 0);
        true
    }
}

impl Witness {
    pub(super) fn of(cloud: SharedCloud) -> (Self, Arc<Seen>) {
        let seen = Arc::new(Seen::default());
        (Self { cloud, seen: Arc::clone(&seen) }, seen)
    }
}

impl Seen {
    /// A read counts once it has succeeded, unless a write was sent while it was under way.
    async fn read<T>(
        &self,
        group: &GroupName,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let before = self.of(group, |group| group.writes);
        let answer = call.await;
        self.of(group, |group| {
            group.is_read |= answer.is_ok() && group.writes == before;
        });
        answer
    }

    /// The same for a read that a write is computed on.
    async fn read_for_write<T>(
        &self,
        group: &GroupName,
        call: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<T, CloudError> {
        let answer = self.read(group, call).await;
        if answer.is_ok() {
            self.of(group, |group| group.unspent.add(Instant::now()));
        }
        answer
    }

    fn writes(&self, basis: &GroupReading, what: impl FnOnce() -> String) {
        self.of(&basis.name, |group| {
            group.writes += 1;
            if !std::mem::take(&mut group.is_read) {
                group.blind.get_or_insert_with(what);
            }
        });
    }

    fn launches(&self, basis: &GroupReading, what: &str) {
        self.of(&basis.name, |group| {
            group.launches += 1;
            if !group.unspent.spend(Instant::now()) {
                group.blind.get_or_insert_with(|| what.to_owned());
            }
        });
    }

    fn note_sent(&self, basis: &GroupReading, detail: String) {
        self.sent.lock().expect("no process panics").insert((basis.name.clone(), detail));
    }

    fn of<T>(&self, name: &GroupName, note: impl FnOnce(&mut Group) -> T) -> T {
        note(self.groups.lock().expect("no process panics").entry(name.clone()).or_default())
    }

    /// The writes so far.
    pub(super) fn written(&self) -> u64 {
        self.groups.lock().expect("no process panics").values().map(|group| group.writes + group.launches).sum()
    }

    /// How many times it asked for the deletion of this instance.
    pub(super) fn deletions(&self, id: &ProviderId) -> usize {
        self.deletions.lock().expect("no process panics").get(id).copied().unwrap_or_default()
    }

    /// Whether it sent a write to this group of which the log of the cloud's calls says this.
    pub(super) fn has_sent(&self, group: &str, detail: &str) -> bool {
        let sent = self.sent.lock().expect("no process panics");
        sent.iter().any(|(name, what)| *name.0 == *group && what == detail)
    }

    /// Law 2: each write to a group follows a read of it by the same process.
    pub(super) fn check_reads_before_writes(&self) -> Result<(), Violation> {
        let groups = self.groups.lock().expect("no process panics");
        let blind = groups.iter().find_map(|(name, group)| Some((name, group.blind.as_ref()?)));
        match blind {
            None => Ok(()),
            Some((name, what)) => {
                Err(Violation::of("law 2", format!("{name}: {what} without a read since the last write")))
            }
        }
    }
}

#[async_trait]
impl Cloud for Witness {
    async fn list(&self) -> Result<Listing, CloudError> {
        self.cloud.list().await
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.seen.read(group, self.cloud.observe(group)).await
    }

    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.seen.read_for_write(group, self.cloud.read_capacity(group)).await
    }

    async fn observe_for_write(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        self.seen.read_for_write(group, self.cloud.observe_for_write(group)).await
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        self.cloud.launch_activity(group, shortfall).await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        self.cloud.follow(handle).await
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        self.cloud.launch_spec(reading).await
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        self.cloud.instance_types(names).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.cloud.all_instance_types().await
    }

    pass_on_what_calls_nothing!();
}

#[async_trait]
impl WritableCloud for Witness {
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        self.seen.writes(basis, || format!("{} → {to}", basis.desired));
        self.seen.note_sent(basis, format!("{} → {to}", basis.desired));
        self.cloud.set_capacity(basis, to).await
    }

    async fn launch(&self, basis: &GroupReading, launch: &LaunchRequest) -> Result<LaunchResult, CloudError> {
        let LaunchRequest { number, token, zone } = launch;
        let place = zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
        let detail = format!("+{number} {token}{place}");
        // With its token, it is the same write.
        if !self.seen.has_sent(basis.name.as_str(), &detail) {
            self.seen.launches(basis, &detail);
        }
        self.seen.note_sent(basis, detail);
        self.cloud.launch(basis, launch).await
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        self.seen.writes(basis, || format!("deleting {ids:?}"));
        let names: Vec<&str> = ids.iter().filter_map(|id| id.as_str().rsplit('/').next()).collect();
        self.seen.note_sent(basis, names.join(" "));
        for id in ids {
            *self.seen.deletions.lock().expect("no process panics").entry(id.clone()).or_default() += 1;
        }
        self.cloud.delete_instances(basis, ids).await
    }
}
