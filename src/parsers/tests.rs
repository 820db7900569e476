//! The parsers on stable: the corpus, the corpus with slips, and any bytes. `PROPTEST_CASES=100000 cargo test
//! parsers` tries more.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use super::*;
use crate::limits::TABLE;
use crate::properties::{Written, config, slipped};

/// The files of a target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("a file")).collect()
}

#[test]
fn no_bytes_make_a_parser_panic() {
    for (target, parser) in ALL {
        let seeds = corpus(target);
        assert!(!seeds.is_empty(), "{target} has no corpus");
        seeds.iter().for_each(|seed| parser(seed));
        let damaged = select(seeds).prop_flat_map(slipped).prop_map(|Written(bytes)| bytes);
        let any = vec(any::<u8>(), 0..200);
        let mut runner = TestRunner::new(config());
        let outcome = runner.run(&prop_oneof![4 => damaged, 1 => any], |bytes| {
            parser(&bytes);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{target}: {error}"));
    }
}

#[test]
fn every_row_of_the_table_of_limits_has_a_parser() {
    let rows: Vec<_> = TABLE.iter().map(|(name, _)| *name).collect();
    assert_eq!(TARGETS.map(|(row, _)| row).to_vec(), rows);
    for target in TARGETS.iter().flat_map(|(_, targets)| *targets) {
        assert!(ALL.iter().any(|(name, _)| name == target), "{target}");
    }
}

#[test]
fn every_parser_has_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("a manifest");
    for (target, _) in ALL {
        let source = fs::read_to_string(fuzz.join("fuzz_targets").join(format!("{target}.rs"))).expect(target);
        assert!(
            source.contains(&format!("\"{target}\"")) && manifest.contains(&format!("name = \"{target}\"")),
            "{target}"
        );
    }
}
