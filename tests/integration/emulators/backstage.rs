//! What every emulator stands on: the simulated cloud, what befalls calls to it, scripted answers, and the journal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use headcount::clouds::simulated::{CallKind, Distortion, Mishap, Simulated, World};
use tokio::sync::watch;

use super::exchange::{Answer, Instead, Request};
use super::sight::Sight;

/// What every emulator stands on.
#[derive(Debug)]
pub(crate) struct Backstage {
    pub(super) simulated: Arc<Simulated>,
    /// When the world began, by the clock on the wall: Headcount's clock is the real one, so the emulator's is too.
    genesis: SystemTime,
    journal: Mutex<Vec<Request>>,
    scripts: Mutex<Vec<Script>>,
    held: watch::Sender<Option<Held>>,
}

/// Requests that are kept waiting.
#[derive(Debug)]
struct Held {
    method: String,
    part: String,
    moment: Moment,
}

/// When a request is kept waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It has arrived, and has no effect yet.
    Arrived,
    /// It has had its effect, and is not answered yet.
    Done,
}

#[derive(Debug)]
struct Script {
    method: String,
    part: String,
    times: u32,
    answer: Answer,
}

/// Which parts of a group an answer tells of, and so which distortions can befall it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The group without its instances.
    Size,
    /// Its instances alone.
    Instances,
    /// Everything.
    Whole,
}

/// A group that cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Backstage {
    pub(super) fn new(simulated: Arc<Simulated>) -> Self {
        let genesis = SystemTime::now() - simulated.elapsed();
        Self {
            simulated,
            genesis,
            journal: Mutex::default(),
            scripts: Mutex::default(),
            held: watch::Sender::new(None),
        }
    }

    /// A time of the world, as the cloud writes it.
    pub(super) fn timestamp(&self, at: Duration) -> String {
        humantime::format_rfc3339_millis(self.genesis + at).to_string()
    }

    /// Writes a request down, and says which entry it is.
    pub(super) fn note(&self, request: &Request) -> usize {
        let mut journal = lock(&self.journal);
        journal.push(request.clone());
        journal.len() - 1
    }

    pub(super) fn note_answer(&self, entry: usize, status: u16) {
        // The journal may have been emptied meanwhile.
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

    pub(super) fn script(&self, method: &str, part: &str, times: u32, answer: Answer) {
        let (method, part) = (method.to_owned(), part.to_owned());
        lock(&self.scripts).push(Script { method, part, times, answer });
    }

    pub(super) fn hold(&self, method: &str, part: &str, moment: Moment) {
        let (method, part) = (method.to_owned(), part.to_owned());
        self.held.send_replace(Some(Held { method, part, moment }));
    }

    pub(super) fn let_go(&self) {
        self.held.send_replace(None);
    }

    /// Returns once nothing keeps a request waiting at this moment.
    pub(super) async fn wait(&self, request: &Request, moment: Moment) {
        let goes_on = |held: &Option<Held>| {
            held.as_ref().is_none_or(|held| held.moment != moment || !request.matches(&held.method, &held.part))
        };
        let mut held = self.held.subscribe();
        let _nobody_holds = held.wait_for(goes_on).await;
    }

    /// The answer that a script has for a request.
    pub(super) fn scripted(&self, request: &Request) -> Option<Answer> {
        let mut scripts = lock(&self.scripts);
        scripts.retain(|script| script.times > 0);
        let script = scripts.iter_mut().find(|script| request.matches(&script.method, &script.part))?;
        script.times -= 1;
        Some(script.answer.clone())
    }

    /// Takes a call through all that can befall it; `refusal` puts a mishap into the cloud's words.
    pub(super) async fn call<R>(
        &self,
        kind: CallKind,
        group: Option<&str>,
        detail: String,
        refusal: impl Fn(&Mishap) -> Option<Answer>,
        act: impl FnOnce(&mut World, Duration) -> R,
    ) -> Result<R, Instead> {
        let at = self.simulated.elapsed();
        let verdict = self.simulated.faults(|faults| faults.judge(at, kind, group, detail));
        tokio::time::sleep(verdict.there).await;
        let mishap = verdict.mishap.as_ref();
        let before = match mishap {
            Some(Mishap::Unreachable) => Some(Instead::Silence),
            Some(mishap) => refusal(mishap).map(Instead::Answer),
            None => None,
        };
        if let Some(instead) = before {
            tokio::time::sleep(verdict.back).await;
            return Err(instead);
        }
        let result = self.simulated.world(act);
        tokio::time::sleep(verdict.back).await;
        match mishap {
            Some(Mishap::LostAnswer) => Err(Instead::Silence),
            Some(Mishap::Garbled) => Err(Answer::new(200).body("{\"<half an answer").into()),
            _ => Ok(result),
        }
    }

    /// What an answer says of a group after all that befell it.
    pub(super) fn distort(
        &self,
        kind: CallKind,
        part: Part,
        sight: Option<Sight>,
        name: &str,
    ) -> Result<Option<Sight>, Broken> {
        let Some(distortion) = self.distortion(kind, part, name) else { return Ok(sight) };
        Ok(match distortion {
            Distortion::Capacity(capacity) => sight.map(|sight| Sight { capacity, ..sight }),
            Distortion::NoInstances => sight.map(|sight| Sight { instances: Vec::new(), ..sight }),
            Distortion::Missing => None,
            Distortion::Stale(ago) => {
                let then = self.simulated.world(|world, _| world.recall(name, ago));
                sight.zip(then).map(|(sight, then)| sight.back_then(&then))
            }
            Distortion::Broken => return Err(Broken),
        })
    }

    /// The next distortion of this part of a group. One that this answer cannot show waits for one that can: a read of
    /// a scale set is two requests.
    fn distortion(&self, kind: CallKind, part: Part, name: &str) -> Option<Distortion> {
        self.simulated.faults(|faults| {
            let distortion = faults.distortion(kind, name)?;
            let shown = match distortion {
                Distortion::Capacity(_) => part != Part::Instances,
                Distortion::NoInstances => part != Part::Size,
                _ => true,
            };
            if !shown {
                faults.distort(Some(kind), name, 1, distortion);
                return None;
            }
            Some(distortion)
        })
    }
}

/// A panic elsewhere is no reason to hide what there is to see.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
