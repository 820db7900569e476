//! The search: breadth first, so that what it finds is reached by as few events as possible.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::actions::Action;
use super::cloud::OLD;
use super::laws::{Assume, Broken};
use super::world::{Setting, World};
use crate::group::Effect;

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    /// Distinct states.
    pub states: usize,
    /// Events that were tried.
    pub events: usize,
    /// The most events from the start to a state.
    pub depth: u32,
    /// Whether there are no others.
    pub is_whole: bool,
    /// How often something happened that no client can rule out.
    pub assumed: BTreeMap<Assume, usize>,
    /// A shortest trace to a law that does not hold.
    pub broken: Option<String>,
}

/// Searches a world up to this many states.
pub(super) fn search(setting: Setting, limit: usize) -> Found {
    let start = World::new(setting);
    let mut seen = HashSet::from([fingerprint(&start)]);
    // How each state was reached: from which one, and by what.
    let mut reached: Vec<(u32, Action)> = vec![(0, Action::Wake)];
    let mut waiting = VecDeque::from([(0_u32, 0_u32, start)]);
    let mut found = Found { states: 1, events: 0, depth: 0, is_whole: true, assumed: BTreeMap::new(), broken: None };
    while let Some((position, depth, world)) = waiting.pop_front() {
        for action in world.actions() {
            found.events += 1;
            let mut next = world.clone();
            next.laws.assumed = None;
            if let Err(Broken(why)) = next.take(action) {
                found.broken = Some(trace(setting, &reached, position, action, &why));
                return found;
            }
            if let Some(assumed) = next.laws.assumed {
                *found.assumed.entry(assumed).or_default() += 1;
            }
            if !seen.insert(fingerprint(&next)) {
                continue;
            }
            found.states += 1;
            found.depth = depth + 1;
            let index = u32::try_from(reached.len()).expect("fewer states");
            reached.push((position, action));
            if found.states < limit {
                waiting.push_back((index, depth + 1, next));
            } else {
                found.is_whole = false;
            }
        }
        if !found.is_whole {
            // What is left is deeper than what was searched.
            break;
        }
    }
    found
}

/// Plays the events up to a broken law once more, and tells each.
fn trace(setting: Setting, reached: &[(u32, Action)], mut position: u32, last: Action, why: &str) -> String {
    let mut actions = vec![last];
    while position > 0 {
        let (before, action) = reached[usize::try_from(position).expect("small")];
        actions.push(action);
        position = before;
    }
    actions.reverse();
    let mut text = format!("{why}\n  in {setting:?}\n");
    let mut world = World::new(setting);
    for (number, action) in actions.into_iter().enumerate() {
        let outcome = world.take(action);
        let _ = writeln!(text, "{:3}. {:>6} ms {action:?}{}", number + 1, world.now, describe(&world));
        if outcome.is_err() {
            break;
        }
    }
    text
}

fn describe(world: &World) -> String {
    let status = world.group.state().status();
    let reported: Vec<_> = status.instances.iter().map(|one| format!("{} {:?}", one.id, one.state)).collect();
    let machines: Vec<_> =
        world.cloud.view.machines.iter().map(|one| format!("i-{} {:?}", one.id, one.stage)).collect();
    let decided: Vec<_> = world.decided.iter().map(shorten).collect();
    format!(
        "\n       cloud: capacity {} [{}]\n       known: capacity {}, target {} [{}]\n       decided: {}",
        world.cloud.view.desired,
        machines.join(", "),
        status.capacity,
        status.target,
        reported.join(", "),
        decided.join("; "),
    )
}

fn shorten(effect: &Effect) -> String {
    match effect {
        Effect::SetCapacity { basis, to, .. } => format!("set the capacity from {} to {to}", basis.desired),
        Effect::Delete { ids, .. } => format!("delete {ids:?}"),
        Effect::Respond(key, outcome) => format!("respond to {key:?}: {outcome:?}"),
        other => format!("{other:?}"),
    }
}

thread_local! {
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stands for all that the future depends on. What is known of the group is told by its `Debug` text, with moments
/// relative to now.
fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash_into(&mut hasher);
    TEXT.with_borrow_mut(|text| {
        text.clear();
        let _ = write!(text, "{:?}", world.group);
        hash_relative(text, world.now, &mut hasher);
    });
    hasher.finish()
}

fn hash_relative(text: &str, now: u64, hasher: &mut DefaultHasher) {
    const MARK: &str = "Time";
    let mut rest = text;
    while let Some(position) = rest.find(MARK) {
        let (head, tail) = rest.split_at(position + MARK.len());
        head.hash(hasher);
        rest = tail;
        if let Some(inner) = tail.strip_prefix('(') {
            let end = inner.find(')').expect("it ends");
            relative(milliseconds(&inner[..end]), now, hasher);
            rest = &inner[end..];
        } else if let Some(inner) = tail.strip_prefix(" { tv_sec: ") {
            let (seconds, inner) = inner.split_once(", tv_nsec: ").expect("it has nanoseconds");
            let (nanos, inner) = inner.split_once(' ').expect("it ends");
            let (seconds, nanos): (u64, u64) = (seconds.parse().expect("digits"), nanos.parse().expect("digits"));
            let then = (seconds * 1_000 + nanos / 1_000_000).saturating_sub(1_000_000_000);
            relative(then, now, hasher);
            rest = inner;
        } else if let Some((_, number)) = tail.strip_prefix('-').and_then(label) {
            rest = number;
        }
    }
    rest.hash(hasher);
}

/// The time in a placeholder's label, and its number.
fn label(text: &str) -> Option<(&str, &str)> {
    text.split_once('-').filter(|(time, _)| time.chars().all(|digit| digit.is_ascii_digit()))
}

fn relative(then: u64, now: u64, hasher: &mut DefaultHasher) {
    if then > now {
        (true, then - now).hash(hasher);
    } else {
        (false, (now - then).min(OLD)).hash(hasher);
    }
}

/// The milliseconds of a duration's `Debug` text.
fn milliseconds(text: &str) -> u64 {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1.0),
        None => (text.strip_suffix('s').unwrap_or("0"), 1_000.0),
    };
    let number: f64 = number.parse().unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is small and positive")]
    let milliseconds = (number * unit).round() as u64;
    milliseconds
}
