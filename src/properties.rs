//! What the tests of properties have in common: ways to spoil good input, and the same cases on every run.
//!
//! `PROPTEST_CASES=100000 cargo test properties` tries more cases, `PROPTEST_RNG_SEED=7` others.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngSeed};
use serde_json::Value;

/// The seed where the environment names none: a test that fails once fails again.
const SEED: u64 = 20_261_121;

/// The cases of a property.
pub(crate) fn config() -> Config {
    let default = Config::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(SEED),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    Config { rng_seed, failure_persistence: None, ..default }
}

/// Fewer cases, for a property that calls a server or reads a large text each time.
pub(crate) fn costly() -> Config {
    let config = config();
    Config { cases: config.cases.div_ceil(4), ..config }
}

/// A text made of these pieces and of anything else.
pub(crate) fn pieces(known: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => select(known).prop_map(str::to_owned),
        2 => "[0-9]{1,20}",
        1 => any::<char>().prop_map(String::from),
        1 => "\\PC{0,8}",
    ];
    vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

/// Bytes that were text once, and are shown as such.
#[derive(Clone)]
pub(crate) struct Written(pub(crate) Vec<u8>);

impl std::fmt::Debug for Written {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl From<&str> for Written {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// One slip of a pen.
#[derive(Clone, Debug)]
enum Slip {
    Put(Vec<u8>),
    Drop(u8),
    Again(u8),
    End,
}

/// A good text with a few slips in it: bytes put in, left out or written twice, or an early end. Not always text.
pub(crate) fn slipped(good: impl Into<Vec<u8>>) -> impl Strategy<Value = Written> {
    let good = good.into();
    let slip = prop_oneof![
        4 => vec(any::<u8>(), 1..4).prop_map(Slip::Put),
        4 => "[-0-9<>{}\\[\\]:,\"'&*# \n]{1,3}".prop_map(|text| Slip::Put(text.into_bytes())),
        4 => (1..40_u8).prop_map(Slip::Drop),
        3 => (1..200_u8).prop_map(Slip::Again),
        1 => Just(Slip::End),
    ];
    vec((any::<Index>(), slip), 1..5).prop_map(move |slips| {
        let mut bytes = good.clone();
        for (place, slip) in slips {
            let from = place.index(bytes.len() + 1);
            let upto = |length: u8| bytes.len().min(from + usize::from(length));
            match slip {
                Slip::Put(new) => drop(bytes.splice(from..from, new)),
                Slip::Drop(length) => drop(bytes.drain(from..upto(length))),
                Slip::Again(length) => {
                    let piece = bytes[from..upto(length)].to_vec();
                    drop(bytes.splice(from..from, piece));
                }
                Slip::End => bytes.truncate(from),
            }
        }
        Written(bytes)
    })
}

/// Any JSON.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        2 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        3 => "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let pairs = vec(("[a-zA-Z]{1,12}", inner.clone()), 0..4);
        prop_oneof![vec(inner, 0..4).prop_map(Value::from), pairs.prop_map(|pairs| pairs.into_iter().collect())]
    })
}

/// Good JSON with a few of its values exchanged for others, or left out.
pub(crate) fn spoiled(good: Value) -> impl Strategy<Value = Value> {
    vec((any::<Index>(), option::weighted(0.7, json())), 1..5).prop_map(move |changes| {
        let mut spoiled = good.clone();
        for (place, new) in changes {
            let places = pointers(&spoiled);
            let pointer = places[place.index(places.len())].clone();
            match (new, pointer.rsplit_once('/')) {
                (Some(new), _) => *spoiled.pointer_mut(&pointer).expect("it is there") = new,
                (None, None) => {}
                (None, Some((parent, key))) => match spoiled.pointer_mut(parent).expect("it is there") {
                    Value::Object(map) => drop(map.remove(&key.replace("~1", "/").replace("~0", "~"))),
                    Value::Array(items) => drop(items.remove(key.parse().expect("a position"))),
                    _ => {}
                },
            }
        }
        spoiled
    })
}

/// The way to every value in a JSON document, the document itself included.
fn pointers(value: &Value) -> Vec<String> {
    let escaped = |key: &String| key.replace('~', "~0").replace('/', "~1");
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, child)| (escaped(key), child)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, child)| (at.to_string(), child)).collect(),
        _ => Vec::new(),
    };
    let below = children
        .into_iter()
        .flat_map(|(key, child)| pointers(child).into_iter().map(move |rest| format!("/{key}{rest}")));
    std::iter::once(String::new()).chain(below).collect()
}
