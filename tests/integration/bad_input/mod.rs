//! Input that no Cluster Autoscaler would send. The parsers are tested next to their code, in modules named
//! `properties`; this module has the tests that need the whole server.

mod grpc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// Values of a strategy: this many, or `PROPTEST_CASES`. They are the same in every run.
fn samples<S: Strategy>(number: u32, strategy: S) -> Vec<S::Value> {
    let default = Config::default();
    let number = if default.cases == 256 { number } else { default.cases };
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(20_261_121),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    let mut runner = TestRunner::new(Config { rng_seed, failure_persistence: None, ..default });
    (0..number).map(|_| strategy.new_tree(&mut runner).expect("nothing is rejected").current()).collect()
}
