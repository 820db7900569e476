//! Faults that the next matching calls meet.

use super::call::CallKind;

/// Scripted faults; the first one that matches a call is taken.
#[derive(Debug)]
pub(super) struct Script<T>(Vec<Scripted<T>>);

/// A fault for the next calls that match.
#[derive(Debug)]
struct Scripted<T> {
    kind: Option<CallKind>,
    group: Option<String>,
    times: u32,
    what: T,
}

impl<T> Default for Script<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> Script<T> {
    /// Gives this fault to the next `times` calls that match; `None` matches all.
    pub(super) fn add(&mut self, kind: Option<CallKind>, group: Option<&str>, times: u32, what: T) {
        self.0.push(Scripted { kind, group: group.map(str::to_owned), times, what });
    }

    /// The faults that are still to come.
    #[cfg(feature = "faults")]
    pub(super) fn waiting(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter(|scripted| scripted.times > 0).map(|scripted| &scripted.what)
    }

    /// Takes the first fault that matches.
    pub(super) fn take(&mut self, kind: CallKind, group: Option<&str>) -> Option<T> {
        self.0.retain(|scripted| scripted.times > 0);
        let matching = self.0.iter_mut().find(|scripted| {
            scripted.kind.is_none_or(|wanted| wanted == kind)
                && scripted.group.as_deref().is_none_or(|wanted| group == Some(wanted))
        })?;
        matching.times -= 1;
        Some(matching.what.clone())
    }
}
