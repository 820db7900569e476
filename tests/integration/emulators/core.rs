//! The part that all emulators share: the simulated cloud, its faults, scripted responses, held and recorded requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use headcount::clouds::simulated::{CallFault, CallKind, ReadFault, Simulated, World};
use tokio::sync::watch;

use super::http_messages::{HttpResponse, Interruption, Request};
use super::shown::ShownGroup;

/// The part that all emulators share.
#[derive(Debug)]
pub(crate) struct EmulatorCore {
    pub(super) simulated: Arc<Simulated>,
    /// The wall-clock time when the world began: Headcount's clock is the real one, so the emulator's is too.
    world_began: SystemTime,
    started: Instant,
    journal: Mutex<Vec<Request>>,
    scripts: Mutex<Vec<Script>>,
    held: watch::Sender<Option<Held>>,
}

/// Requests that are held.
#[derive(Debug)]
struct Held {
    method: String,
    part: String,
    moment: HoldPoint,
}

/// The point at which a request is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldPoint {
    /// It has arrived, and has had no effect yet.
    BeforeEffect,
    /// It has taken effect, and has no response yet.
    BeforeResponse,
}

#[derive(Debug)]
struct Script {
    method: String,
    part: String,
    times: u32,
    response: HttpResponse,
}

/// The parts of a group that a response contains, which decide the read faults that can apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadScope {
    /// The group without its instances.
    Size,
    /// Its instances alone.
    Instances,
    /// Everything.
    Whole,
}

/// A group that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undecodable;

impl EmulatorCore {
    pub(super) fn new(simulated: Arc<Simulated>) -> Self {
        let world_began = SystemTime::now() - simulated.elapsed();
        Self {
            simulated,
            world_began,
            started: Instant::now(),
            journal: Mutex::default(),
            scripts: Mutex::default(),
            held: watch::Sender::new(None),
        }
    }

    /// How long the emulator has been running.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The wall-clock time of a time of the world.
    pub(super) fn time(&self, at: Duration) -> SystemTime {
        self.world_began + at
    }

    /// Records a request, and returns the index of its entry.
    pub(super) fn note(&self, request: &Request) -> usize {
        let mut journal = lock(&self.journal);
        journal.push(request.clone());
        journal.len() - 1
    }

    pub(super) fn note_answer(&self, entry: usize, status: u16) {
        // The journal may have been cleared meanwhile.
        if let Some(request) = lock(&self.journal).get_mut(entry) {
            request.status = Some(status);
        }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        lock(&self.journal).clone()
    }

    pub(super) fn forget_requests(&self) {
        lock(&self.journal).clear();
    }

    pub(super) fn script(&self, method: &str, part: &str, times: u32, response: HttpResponse) {
        let (method, part) = (method.to_owned(), part.to_owned());
        lock(&self.scripts).push(Script { method, part, times, response });
    }

    pub(super) fn hold(&self, method: &str, part: &str, moment: HoldPoint) {
        let (method, part) = (method.to_owned(), part.to_owned());
        self.held.send_replace(Some(Held { method, part, moment }));
    }

    pub(super) fn release(&self) {
        self.held.send_replace(None);
    }

    /// Returns once nothing holds the request at this point.
    pub(super) async fn wait(&self, request: &Request, moment: HoldPoint) {
        let goes_on = |held: &Option<Held>| {
            held.as_ref().is_none_or(|held| held.moment != moment || !request.matches(&held.method, &held.part))
        };
        let mut held = self.held.subscribe();
        let _nobody_holds = held.wait_for(goes_on).await;
    }

    /// The scripted response to a request.
    pub(super) fn scripted(&self, request: &Request) -> Option<HttpResponse> {
        let mut scripts = lock(&self.scripts);
        scripts.retain(|script| script.times > 0);
        let script = scripts.iter_mut().find(|script| request.matches(&script.method, &script.part))?;
        script.times -= 1;
        Some(script.response.clone())
    }

    /// Makes a call with its delays and faults; `refusal` renders a fault as the cloud does.
    pub(super) async fn call<R>(
        &self,
        kind: CallKind,
        group: Option<&str>,
        detail: String,
        refusal: impl Fn(&CallFault) -> Option<HttpResponse>,
        act: impl FnOnce(&mut World, Duration) -> R,
    ) -> Result<R, Interruption> {
        let at = self.simulated.elapsed();
        let planned = self.simulated.faults(|faults| faults.begin_call(at, kind, group, detail));
        tokio::time::sleep(planned.delay_before).await;
        let call_fault = planned.call_fault.as_ref();
        let before = match call_fault {
            Some(CallFault::Unreachable) => Some(Interruption::ConnectionCut),
            Some(call_fault) => refusal(call_fault).map(Interruption::Response),
            None => None,
        };
        if let Some(instead) = before {
            tokio::time::sleep(planned.delay_after).await;
            return Err(instead);
        }
        let result = self.simulated.world(act);
        tokio::time::sleep(planned.delay_after).await;
        match call_fault {
            Some(CallFault::LostResponse) => Err(Interruption::ConnectionCut),
            Some(CallFault::Malformed) => Err(HttpResponse::new(200).body("{\"<half a response").into()),
            _ => Ok(result),
        }
    }

    /// Applies the next read fault of a group to what a response shows.
    pub(super) fn apply_read_fault(
        &self,
        kind: CallKind,
        part: ReadScope,
        group: Option<ShownGroup>,
        name: &str,
    ) -> Result<Option<ShownGroup>, Undecodable> {
        let Some(read_fault) = self.next_read_fault(kind, part, name) else { return Ok(group) };
        Ok(match read_fault {
            ReadFault::Capacity(capacity) => group.map(|group| ShownGroup { capacity, ..group }),
            ReadFault::NoInstances => group.map(|group| ShownGroup { instances: Vec::new(), ..group }),
            ReadFault::Missing => None,
            ReadFault::Stale(ago) => {
                let then = self.simulated.world(|world, _| world.reading_ago(name, ago));
                group.zip(then).map(|(group, then)| group.shown_at(&then))
            }
            ReadFault::Broken => return Err(Undecodable),
        })
    }

    /// The next read fault of this part of a group. A fault that this response cannot show waits for one that can: a
    /// read of a scale set is two requests.
    fn next_read_fault(&self, kind: CallKind, part: ReadScope, name: &str) -> Option<ReadFault> {
        let at = self.simulated.elapsed();
        self.simulated.faults(|faults| {
            let read_fault = faults.read_fault(at, kind, name)?;
            let shown = match read_fault {
                ReadFault::Capacity(_) => part != ReadScope::Instances,
                ReadFault::NoInstances => part != ReadScope::Size,
                _ => true,
            };
            if !shown {
                faults.script_read(Some(kind), name, 1, read_fault);
                return None;
            }
            Some(read_fault)
        })
    }
}

/// After a panic elsewhere, the state can still be inspected.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
