//! Deletions of a scale set: how they begin and end, and when the machine is told of that.

use super::actions::{Action, Outcome};
use super::cloud::{Call, Stage, at, failure};
use super::laws::Broken;
use super::world::World;
use crate::cloud::CloudError;
use crate::group::{Event, OperationId, PollEnd};

impl World {
    /// CA has an instance deleted, and the response to that is OK.
    pub(super) fn begin_deletion(&mut self, id: u8) -> Result<(), Broken> {
        self.take(Action::Delete(id))?;
        while !self.asked.is_empty() || self.beside {
            self.take(match &self.call {
                Some(Call::Read(_)) => Action::Read(0),
                Some(_) => Action::Write(Outcome::Accepted),
                None if self.beside => Action::Beside(0),
                None => Action::Wake,
            })?;
        }
        Ok(())
    }

    /// An operation of the scale set ends, and a poll tells so at once.
    pub(super) fn end(&mut self, handle: u8, end: PollEnd) -> Result<(), Broken> {
        match self.end_unheard(handle, &end) {
            Some(operation) => self.tell(Event::Polled(operation, end)),
            None => Ok(()),
        }
    }

    /// An operation of the scale set ends. Returns its name if it is polled.
    fn end_unheard(&mut self, handle: u8, end: &PollEnd) -> Option<OperationId> {
        let before = self.cloud.view.clone();
        let position = self.cloud.operations.iter().position(|one| one.handle == handle).expect("it runs");
        let operation = self.cloud.operations.remove(position);
        for id in operation.deletes {
            if *end == PollEnd::Succeeded {
                self.cloud.gone(id);
            } else {
                self.cloud.view.turn(id, Stage::Up);
                self.cloud.view.foreign += 1;
            }
        }
        self.cloud.view.version += 1;
        self.cloud.end_operation(*end == PollEnd::Succeeded);
        self.cloud.remember(before, self.now);
        let position = self.polls.iter().position(|poll| poll.1 == handle)?;
        Some(self.polls.remove(position).0)
    }

    /// An operation fails before a poll tells, or polls are answered.
    pub(super) fn poll(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::FailsUnheard(handle) => {
                self.left.failures -= 1;
                let failed = PollEnd::Failed(failure(at(self.now).1));
                let operation = self.end_unheard(handle, &failed);
                self.unheard.extend(operation.map(|operation| (operation, failed)));
                Ok(())
            }
            Action::Heard => {
                let (operation, end) = self.unheard.remove(0);
                self.tell(Event::Polled(operation, end))
            }
            Action::Polled => {
                let Some(Call::Poll(polled)) = self.call.take() else { unreachable!("it was polled") };
                let ended = self.unheard.iter().filter(|(operation, _)| polled.contains(operation)).cloned().collect();
                self.tell(Event::PolledForWrite { ended, error: None })
            }
            Action::PollsFail => {
                self.call = None;
                self.left.lost -= 1;
                let error = Some(CloudError::unreachable("follow", "g", "no response"));
                self.tell(Event::PolledForWrite { ended: Vec::new(), error })
            }
            other => unreachable!("{other:?} is no poll"),
        }
    }
}
