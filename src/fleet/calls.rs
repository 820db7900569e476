//! What a call of the Cluster Autoscaler refreshes, and what Headcount records about it.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::Fleet;
use super::contact::LastCall;
use super::error::FleetError;
use super::limits::{REFRESH_WAIT, STALE_AFTER};
use super::quota::QuotaWatch;
use super::snapshot::GroupView;
use super::source::Source;
use crate::cloud::{ProviderId, Recognition};

impl Fleet {
    /// Notes a call of the Cluster Autoscaler with this deadline. The first call to a standby waits for a listing, for
    /// at most half of its time.
    pub async fn note_call(&self, until: Instant) {
        if self.contact.called() {
            let now = Instant::now();
            let patience = now + until.saturating_duration_since(now) / 2;
            tracing::info!("first call of the Cluster Autoscaler in ten minutes; listing all sources");
            self.quota_watches.values().for_each(QuotaWatch::ask);
            self.list_again(self.sources.iter().filter(|source| !source.is_paused(patience)), patience).await;
        }
    }

    /// Notes the releases that the calling Cluster Autoscaler's requests look like.
    pub fn note_dialect(&self, dialect: &'static str) {
        self.contact.speaks(dialect);
    }

    /// What is known about the calling Cluster Autoscaler.
    pub fn last_call(&self) -> LastCall {
        self.contact.last_call()
    }

    /// The group of a node that the Cluster Autoscaler asks about. Notes nodes that look like a source's and that no
    /// group lists, and how a node spells its ID if it `has_registered`. The Cluster Autoscaler also asks about nodes
    /// that it makes up from the listed IDs.
    pub fn note_node(&self, provider_id: &str, has_registered: bool) -> Option<(Arc<str>, Arc<GroupView>)> {
        if has_registered && self.snapshot().is_spelled_anew(provider_id) {
            self.store.respell(&ProviderId::from(provider_id));
        }
        let found = self.snapshot().group_of(provider_id).map(|(id, view)| (Arc::clone(id), Arc::clone(view)));
        if found.is_none() {
            let recognises = |source: &&Source| {
                self.clouds.get(&source.name).is_some_and(|cloud| cloud.recognise(provider_id) != Recognition::Foreign)
            };
            if let Some(source) = self.sources.iter().find(recognises) {
                self.contact.unmatched(ProviderId::from(provider_id), &source.name);
            }
        }
        found
    }

    /// How many nodes the Cluster Autoscaler asks about that look like a source's and that no group lists.
    pub fn unmatched_nodes(&self) -> HashMap<Arc<str>, u32> {
        let snapshot = self.snapshot();
        self.contact.unmatched_nodes(|id| snapshot.group_of(id.as_str()).is_some())
    }

    /// Lists the sources whose last listing is older than their interval. Fails only if no source has been read
    /// recently enough; writes read their group again anyway.
    pub async fn refresh(&self, until: Instant) -> Result<(), FleetError> {
        let until = until.min(Instant::now() + REFRESH_WAIT);
        let old = self.sources.iter().filter(|source| source.is_old() && !source.is_paused(until));
        self.list_again(old, until).await;
        if self.sources.iter().any(Source::is_recent) {
            return Ok(());
        }
        let limit = self.sources.iter().map(Source::stale_after).max().unwrap_or(STALE_AFTER);
        let reasons = [self.problems(), self.delays()].concat().join("; ");
        Err(FleetError::Stale { limit, reasons })
    }

    /// Lists these sources again, and waits for it until the deadline.
    async fn list_again<'a>(&self, sources: impl Iterator<Item = &'a Source>, until: Instant) {
        let waits = sources.map(|source| async {
            let listed = source.listed_again();
            source.ask_unless_listing();
            let _taking_longer = timeout_at(until, listed).await;
        });
        join_all(waits).await;
    }
}
