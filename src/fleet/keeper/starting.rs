//! A group that was never observed. It has no state yet, is not served, and no request can reach it (law 5).

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::reader::GroupReader;
use super::{Keeper, KeeperContext};
use crate::cloud::CloudError;
use crate::fleet::error::FleetError;
use crate::fleet::limits::READ_LIMIT;
use crate::fleet::mailbox::{Adoption, Mailbox, Message};
use crate::fleet::snapshot::GroupKey;
use crate::group::{Doubt, Observation, READ_AGAIN, ReadResult, doubt_first};

/// A keeper before its group's first good observation.
pub(super) struct StartingKeeper {
    pub(super) key: GroupKey,
    pub(super) context: KeeperContext,
    pub(super) inbox: mpsc::Receiver<Message>,
    pub(super) reader: GroupReader,
    pub(super) mailbox: Mailbox,
}

/// A first observation that waits for a second one to confirm it.
struct FirstDoubted {
    why: Doubt,
    confirm_at: Instant,
    /// Of the listing that it came with, which waits until the group is published.
    adoption: Option<Adoption>,
}

impl StartingKeeper {
    /// Waits for the first good observation. `None` where the mailbox was closed or the group does not exist. What a
    /// keeper that panicked has published of a group that does not exist is taken out.
    pub(super) async fn observe(&mut self) -> Option<(Observation, Option<Adoption>)> {
        let observed = self.observe_first().await;
        self.context.store.note_unread(&self.key, None);
        observed
    }

    async fn observe_first(&mut self) -> Option<(Observation, Option<Adoption>)> {
        let mut doubted: Option<FirstDoubted> = None;
        let mut logged = None;
        loop {
            let confirm_at = doubted.as_ref().map(|doubted| doubted.confirm_at);
            let (read, adoption) = tokio::select! {
                biased; // so that a seed decides what a simulation does
                () = sleep_until(confirm_at.unwrap_or_else(Instant::now)), if confirm_at.is_some() => {
                    (self.reader.instances(READ_LIMIT).await, None)
                }
                message = self.inbox.recv() => match self.receive(message?).await {
                    Some(read) => read,
                    None => continue,
                },
            };
            let observation = match read.reading {
                Ok(Some(reading)) => {
                    Observation::new(self.context.policies.applied_to(&self.key, *reading), read.begun, read.at)
                }
                Ok(None) => {
                    let retired = self.context.store.retire_all(&self.key);
                    retired.iter().for_each(|id| self.context.journal.retire(id));
                    return None;
                }
                Err(error) => {
                    self.note_failure(&error, &mut logged);
                    None
                }
            };
            let Some(observation) = observation else {
                if let Some(doubted) = &mut doubted {
                    doubted.confirm_at = Instant::now() + READ_AGAIN * 5;
                    doubted.adoption = None;
                }
                continue;
            };
            let (before, earlier) = doubted.take().map(|doubted| (doubted.why, doubted.adoption)).unzip();
            let adoption = adoption.or_else(|| earlier.flatten());
            let Some(why) = doubt_first(&observation) else { return Some((observation, adoption)) };
            if before.is_some_and(|before| before.is_confirmed_by(&why)) {
                tracing::warn!(group = %self.key, %why, "a second read confirms the observation in doubt; it is used now");
                return Some((observation, adoption));
            }
            tracing::warn!(group = %self.key, %why, "observation is in doubt; not published until a second one \
                confirms it");
            doubted = Some(FirstDoubted { why, confirm_at: Instant::now() + READ_AGAIN, adoption });
        }
    }

    /// A read failed. It is logged unless the last one failed for the same reason, in a word.
    fn note_failure(&self, error: &CloudError, logged: &mut Option<&'static str>) {
        // What a keeper that panicked has published is still served.
        if self.context.store.serves(&self.key) {
            return;
        }
        self.context.store.note_unread(&self.key, Some(error.to_string()));
        if logged.replace(error.word()) != Some(error.word()) {
            tracing::warn!(group = %self.key, %error, "node group cannot be read; not served until it can be");
        }
    }

    /// What a message shows of the group, with the instances read where a listing lacks them.
    async fn receive(&mut self, message: Message) -> Option<(ReadResult, Option<Adoption>)> {
        match message {
            Message::Listed { reading, begun, adoption } if reading.instances.is_some() => {
                Some((self.context.listed(Ok(reading), begun), Some(adoption)))
            }
            Message::Listed { adoption, .. } => Some((self.reader.instances(READ_LIMIT).await, Some(adoption))),
            Message::NotListed { .. } => Some((self.reader.instances_or_gone_twice().await, None)),
            Message::Mutate(incoming) => {
                let group = self.context.store.served_id(&self.key);
                incoming.caller.respond(Err(FleetError::NotServed { group }));
                None
            }
            // Nothing is published yet.
            Message::Publish | Message::Unreadable { .. } => None,
            Message::Drain(done) => {
                let _nobody_waits = done.send(());
                None
            }
        }
    }

    /// The keeper of the group, from its first observation on.
    pub(super) fn into_keeper(self, observation: Observation) -> Keeper {
        Keeper::new(self, observation)
    }
}
