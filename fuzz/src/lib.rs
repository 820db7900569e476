//! Runs the parsers of `headcount::parsers` by name.

/// Runs a parser.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, parser) = headcount::parsers::ALL.iter().find(|(name, _)| *name == target).expect("a target");
    parser(bytes);
}
