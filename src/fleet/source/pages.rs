//! Hands out the pages of a listing as they arrive. The source counts as listed when its last page has been handed out.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::watcher::{Watcher, retry_after};
use crate::cloud::{GroupName, GroupReading, Listing};
use crate::fleet::keeper;
use crate::fleet::limits::{ADOPTION_LIMIT, FIRST_ADOPTION_LIMIT, PAGE_LIMIT};
use crate::fleet::mailbox::{Adoption, Message};
use crate::fleet::snapshot::GroupKey;

/// What is wrong with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    /// It is in the configuration and does not exist.
    Absent,
    /// It cannot be understood.
    Broken,
}

/// One listing, as far as its pages have arrived.
pub(super) struct Listed {
    begun: Instant,
    /// When the next page to arrive was requested.
    page_begun: Instant,
    pages: usize,
    seen: HashSet<GroupName>,
    /// Groups of the configuration that do not exist.
    absent: HashSet<GroupName>,
    /// Given to each keeper with its reading.
    adoption: Adoption,
}

impl Listed {
    pub(super) fn begin(begun: Instant, adoption: Adoption) -> Self {
        Self { begun, page_begun: begun, pages: 0, seen: HashSet::new(), absent: HashSet::new(), adoption }
    }
}

impl Watcher {
    /// Hands out the pages of a listing as they arrive. An error also says how long the cloud asked to wait.
    pub(super) async fn receive_pages(
        &mut self,
        listed: &mut Listed,
    ) -> Result<(), (String, &'static str, Option<Duration>)> {
        let (sender, mut pages) = mpsc::unbounded_channel();
        let cloud = Arc::clone(&self.context.cloud);
        let mut listing = pin!(cloud.list_pages(sender));
        let rest = loop {
            tokio::select! {
                biased; // so that a seed decides what a simulation does
                Some(page) = pages.recv() => self.hand_out(page, listed),
                rest = &mut listing => break rest,
                () = sleep_until(listed.page_begun + PAGE_LIMIT) => {
                    return Err(("the listing took too long".to_owned(), "slow", None));
                }
            }
        };
        while let Ok(page) = pages.try_recv() {
            self.hand_out(page, listed);
        }
        let rest = rest.map_err(|error| (error.to_string(), error.word(), retry_after(&error)))?;
        self.hand_out(rest, listed);
        Ok(())
    }

    /// Gives each keeper its group's reading from one page.
    fn hand_out(&mut self, page: Listing, listed: &mut Listed) {
        for reading in page.groups {
            let name = reading.name.clone();
            self.end_report(&name);
            if !self.serves(&reading) {
                continue;
            }
            listed.seen.insert(name.clone());
            let adoption = listed.adoption.clone();
            let message = Message::Listed { reading: Box::new(reading), begun: listed.page_begun, adoption };
            self.tell(name, message);
        }
        for (name, reason) in page.broken {
            let is_served = self.context.store.serves(&self.key(&name));
            if self.reported.insert(name.clone(), Reported::Broken) != Some(Reported::Broken) {
                match is_served {
                    true => tracing::warn!(source = %self.name, group = %name, %reason, "node group cannot be \
                        understood; serving the last reading"),
                    false => tracing::warn!(source = %self.name, group = %name, %reason, "node group cannot be \
                        understood; it is not served yet"),
                }
            }
            if !is_served {
                self.context.store.note_unread(&self.key(&name), Some(reason.clone()));
            }
            if let Some(keeper) = self.keepers.get(&name) {
                let message =
                    Message::Unreadable { reason, begun: listed.page_begun, adoption: listed.adoption.clone() };
                let _busy_keepers_read_themselves = keeper.try_send(message);
            }
            listed.seen.insert(name);
        }
        for name in page.absent {
            if self.reported.insert(name.clone(), Reported::Absent) != Some(Reported::Absent) {
                tracing::warn!(source = %self.name, group = %name, "node group is in the configuration but does not \
                    exist");
            }
            listed.absent.insert(name);
        }
        self.note_age(listed);
    }

    /// Nothing is wrong with a group any more, or it is gone.
    fn end_report(&mut self, name: &GroupName) {
        let reported = self.reported.remove(name);
        // A keeper says itself what it cannot read.
        if reported == Some(Reported::Broken) && !self.keepers.contains_key(name) {
            self.context.store.note_unread(&self.key(name), None);
        }
    }

    /// Whether no other source serves this group.
    fn serves(&self, reading: &GroupReading) -> bool {
        let Some(identity) = reading.identity else { return true };
        let identity = identity.at(self.context.cloud.endpoint());
        *self.context.claims.claim(&self.key(&reading.name), identity) == *self.name
    }

    fn key(&self, name: &GroupName) -> GroupKey {
        GroupKey { source: Arc::clone(&self.name), name: name.clone() }
    }

    /// Updates the source's age, which is that of its oldest page, even while newer pages arrive.
    fn note_age(&mut self, listed: &mut Listed) {
        match self.page_ages.get_mut(listed.pages) {
            Some(age) => *age = listed.page_begun,
            None => self.page_ages.push(listed.page_begun),
        }
        listed.pages += 1;
        listed.page_begun = Instant::now();
        let oldest = self.page_ages.iter().min().copied();
        let found = listed.seen.len();
        self.health.send_if_modified(|health| {
            health.found = found;
            let is_newer = health.good.is_some() && health.good < oldest;
            if is_newer {
                health.good = oldest;
            }
            is_newer
        });
    }

    /// Looks for the groups that no page had, and waits until all keepers have adopted their readings.
    pub(super) async fn finish(&mut self, listed: Listed, mut all_adopted: mpsc::Receiver<()>) {
        let Listed { begun, pages, seen, absent, adoption, .. } = listed;
        self.page_ages.truncate(pages);
        let is_over = |name: &&GroupName| !seen.contains(*name) && !absent.contains(*name);
        let over: Vec<_> = self.reported.keys().filter(is_over).cloned().collect();
        over.iter().for_each(|name| self.end_report(name));
        self.ask_for_missing(&seen, begun, &adoption);
        drop(adoption);
        let is_first = self.health.borrow().good.is_none();
        let limit = if is_first { FIRST_ADOPTION_LIMIT } else { ADOPTION_LIMIT };
        if timeout(limit, all_adopted.recv()).await.is_err() {
            tracing::info!(source = %self.name, "some node groups are still being read; not waiting for them");
        }
    }

    fn ask_for_missing(&mut self, seen: &HashSet<GroupName>, begun: Instant, adoption: &Adoption) {
        let ended = self.keepers.iter().filter(|(_, keeper)| keeper.is_closed());
        for name in ended.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.keepers.remove(&name);
            let key = self.key(&name);
            if self.context.store.serves(&key) {
                // Its keeper panicked. Another one finds out whether the group is gone, and takes it out.
                self.keepers.insert(name, keeper::start(key, self.context.clone()));
            } else {
                self.context.claims.release(&key);
            }
        }
        for (name, keeper) in &self.keepers {
            if !seen.contains(name) {
                let message = Message::NotListed { begun, adoption: adoption.clone() };
                let _busy_keepers_get_the_next_listing = keeper.try_send(message);
            }
        }
    }

    fn tell(&mut self, name: GroupName, message: Message) {
        let keeper = match self.keepers.get(&name).filter(|keeper| !keeper.is_closed()) {
            Some(keeper) => keeper.clone(),
            None => {
                if self.health.borrow().good.is_some() && !self.keepers.contains_key(&name) {
                    tracing::info!(source = %self.name, group = %name, "new node group found");
                }
                let keeper = keeper::start(self.key(&name), self.context.clone());
                self.keepers.insert(name, keeper.clone());
                keeper
            }
        };
        let _busy_keepers_read_again_themselves = keeper.try_send(message);
    }
}
