//! How the sources are doing: what the probes, `/readyz` and errors report, and when the fleet is ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::Fleet;
use super::limits::WAIT_FOR_ALL_SOURCES;
use super::snapshot::GroupKey;
use super::source::Health;
use crate::tasks::{TaskKind, Tasks};

impl Fleet {
    /// For how long no source at all has been read.
    pub fn unread_for(&self) -> Duration {
        let last = self.sources().filter_map(|(_, health)| health.good).max();
        last.unwrap_or(self.started).elapsed()
    }

    /// One word for each source with a problem, and since when. The log has the texts.
    pub fn problem_summaries(&self) -> Vec<String> {
        let mut summaries = Vec::new();
        for (name, health) in self.sources() {
            let since = match (health.problem.is_some(), health.good) {
                (false, Some(_)) => continue,
                (_, Some(good)) => format!("for {}s", good.elapsed().as_secs()),
                (_, None) => "since the start".to_owned(),
            };
            summaries.push(format!("source {name}: {}, not read {since}", health.why.unwrap_or("waiting")));
        }
        let mut unread = BTreeMap::<Arc<str>, usize>::new();
        self.unread_groups().into_keys().for_each(|key| *unread.entry(key.source).or_default() += 1);
        for (source, number) in unread {
            let groups = if number == 1 { "1 node group" } else { &format!("{number} node groups") };
            let verb = if number == 1 { "is" } else { "are" };
            summaries.push(format!("source {source}: {groups} cannot be read and {verb} not served"));
        }
        let failing = self.tasks.failed().into_iter().filter(|(_, health)| health.is_failing());
        summaries.extend(failing.map(|(name, health)| format!("{name}: panicked or ended, {} times", health.failures)));
        summaries
    }

    /// The groups that are not served because they cannot be read, with the reasons.
    pub fn unread_groups(&self) -> BTreeMap<GroupKey, String> {
        self.store.unread()
    }

    /// The problem of each source that has one.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, health) in self.sources() {
            match (&health.problem, health.good) {
                (Some(problem), _) => problems.push(format!("{name}: {problem}")),
                (None, None) if health.found > 0 => {
                    problems.push(format!("{name}: not listed yet, {} groups so far", health.found));
                }
                (None, None) => problems.push(format!("{name}: not listed yet")),
                (None, Some(_)) => {}
            }
        }
        problems
    }

    /// The sources whose listings take longer than the refresh interval: what they serve is older than configured.
    pub fn delays(&self) -> Vec<String> {
        let seconds = |time: Duration| humantime::format_duration(Duration::from_secs(time.as_secs())).to_string();
        let slow = self
            .sources()
            .filter_map(|(name, health)| Some((name, health.took.filter(|took| *took > self.cadence.busy())?)));
        slow.map(|(name, took)| format!("{name}: slow, a listing takes {}", seconds(took))).collect()
    }
}

/// Reports when the fleet is ready: as soon as all sources have been listed, or after a while if only some have.
pub(super) fn watch_readiness(mut sources: Vec<watch::Receiver<Health>>, tasks: &Tasks) -> watch::Receiver<bool> {
    let (ready, seen) = watch::channel(false);
    let mut restarts = tasks.supervise(TaskKind::Readiness, "");
    let patience = Instant::now() + WAIT_FOR_ALL_SOURCES;
    tokio::spawn(async move { while restarts.run(say_when_ready(&mut sources, &ready, patience)).await {} });
    seen
}

async fn say_when_ready(sources: &mut [watch::Receiver<Health>], ready: &watch::Sender<bool>, patience: Instant) {
    let all = join_all(sources.iter_mut().map(good));
    if timeout_at(patience, all).await.is_err() {
        let read = sources.iter().filter(|source| source.borrow().good.is_some()).count();
        let unread = sources.len() - read;
        match read {
            0 => tracing::warn!(unread, "no source can be read; nothing is served until one can"),
            read => tracing::warn!(read, unread, "some sources cannot be read; serving the others from now on"),
        }
        let any = sources.iter_mut().map(|source| Box::pin(good(source)));
        select_all(any).await;
    }
    ready.send_replace(true);
}

/// Waits for a source's first good listing. For a source that is gone, it waits forever.
async fn good(source: &mut watch::Receiver<Health>) {
    if source.wait_for(|health| health.good.is_some()).await.is_err() {
        std::future::pending().await
    }
}
