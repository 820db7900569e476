//! What a keeper receives, and the end of its mailbox that readers hold. That end can only send requests.

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::request::Incoming;
use crate::cloud::GroupReading;

/// What a keeper receives.
#[derive(Debug)]
pub(super) enum Message {
    /// A mutation that CA requests.
    Mutate(Incoming),
    /// A listing has the group.
    Listed {
        /// The group as listed.
        reading: Box<GroupReading>,
        /// When the listing began.
        begun: Instant,
        /// Dropped once the reading has been adopted.
        adoption: Adoption,
    },
    /// A listing has the group and cannot read it.
    Unreadable {
        /// Why.
        reason: String,
        /// When the listing began.
        begun: Instant,
        /// Dropped once this has been noted.
        adoption: Adoption,
    },
    /// A listing lacks the group.
    NotListed {
        /// When the listing began.
        begun: Instant,
        /// Dropped once the group has been looked for.
        adoption: Adoption,
    },
    /// Publish the group again: the marks of its nodes have changed.
    Publish,
    /// Respond once everything before this is done.
    Drain(oneshot::Sender<()>),
}

/// Held while a reading is being adopted. The listing counts as done when the last one is dropped.
pub(super) type Adoption = mpsc::Sender<()>;

/// A keeper's mailbox, as readers of the snapshot hold it. It does not keep the keeper alive.
#[derive(Clone, Debug)]
pub struct Mailbox(mpsc::WeakSender<Message>);

/// Why a request did not reach its keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undelivered {
    /// Too many requests wait already.
    Full,
    /// The keeper has ended.
    Closed,
}

impl Mailbox {
    pub(super) fn new(sender: &mpsc::Sender<Message>) -> Self {
        Self(sender.downgrade())
    }

    /// Hands a request to the keeper.
    pub(super) fn request(&self, request: Incoming) -> Result<(), Undelivered> {
        let Some(sender) = self.0.upgrade() else { return Err(Undelivered::Closed) };
        sender.try_send(Message::Mutate(request)).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Undelivered::Full,
            mpsc::error::TrySendError::Closed(_) => Undelivered::Closed,
        })
    }

    /// Makes the keeper publish the group again. If its mailbox is full, it will publish soon anyway.
    pub(super) fn publish_again(&self) {
        if let Some(sender) = self.0.upgrade() {
            let _full = sender.try_send(Message::Publish);
        }
    }

    /// Waits until the keeper has done all earlier requests.
    pub(super) async fn drain(&self) {
        let Some(sender) = self.0.upgrade() else { return };
        let (done, drained) = oneshot::channel();
        if sender.send(Message::Drain(done)).await.is_ok() {
            drop(sender);
            let _keeper_ended = drained.await;
        }
    }
}
