//! Random choices, always from a seed, so that a run can be repeated.

use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;

/// A range of durations, from which one is drawn each time.
pub type Span = RangeInclusive<Duration>;

/// A span of whole seconds.
pub fn seconds(from: u64, to: u64) -> Span {
    Duration::from_secs(from)..=Duration::from_secs(to)
}

/// Selects launches or deletions of a sequence. They are counted from one, per group, since its plan was made or
/// changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// All of them.
    Always,
    /// The first ones, this many.
    First(u32),
    /// All but the first ones, this many.
    After(u32),
    /// Every n-th one.
    Every(u32),
    /// Each with this probability.
    Chance(f64),
}

impl Pick {
    /// Whether the `nth` is selected.
    pub(super) fn matches(self, nth: u32, rng: &mut Rng) -> bool {
        match self {
            Self::Always => true,
            Self::First(count) => nth <= count,
            Self::After(count) => nth > count,
            Self::Every(step) => step > 0 && nth.is_multiple_of(step),
            Self::Chance(probability) => rng.f64() < probability,
        }
    }
}

/// Draws a duration from a span, to the millisecond.
pub(super) fn draw(rng: &mut Rng, span: &Span) -> Duration {
    let millis = |duration: &Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (from, to) = (millis(span.start()), millis(span.end()));
    Duration::from_millis(rng.u64(from..=to.max(from)))
}

/// A hash that is the same in every build (FNV-1a); the standard library's may change.
pub(super) fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        // The closing byte separates "ab", "c" from "a", "bc".
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pick_matches_the_ones_it_names() {
        let matched = |pick: Pick| {
            let mut rng = Rng::with_seed(1);
            (1..=6).filter(|nth| pick.matches(*nth, &mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(matched(Pick::Always), [1, 2, 3, 4, 5, 6]);
        assert_eq!(matched(Pick::First(2)), [1, 2]);
        assert_eq!(matched(Pick::After(4)), [5, 6]);
        assert_eq!(matched(Pick::Every(3)), [3, 6]);
        assert!(matched(Pick::Chance(0.0)).is_empty());
    }

    #[test]
    fn a_draw_stays_within_its_span() {
        let mut rng = Rng::with_seed(1);
        let span = seconds(2, 3);
        assert!((0..100).all(|_| span.contains(&draw(&mut rng, &span))));
    }
}
