//! The command line of the Cluster Autoscaler.

use crate::cloud::go_syntax::parse_bool;

/// One flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: String,
    value: Option<String>,
}

impl Flag {
    /// Its value, if it has one.
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// Whether it is on. A flag without a value is; with one, it is what Go reads.
    pub fn is_on(&self) -> bool {
        self.value().is_none_or(|value| parse_bool(value) != Some(false))
    }
}

/// Parses arguments as Go's flag package does: `--name=value`, `-name value`, `--switch`. Ignores other arguments, such
/// as the name of the program.
pub fn parse_flags(arguments: &[String]) -> Vec<Flag> {
    let mut flags = Vec::<Flag>::new();
    let mut words = arguments.iter().map(|word| word.trim()).peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|flag| !flag.is_empty())
        else {
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, words.next_if(|next| !next.starts_with('-')).map(str::to_owned)),
        };
        let value = value.map(|value| value.trim_matches('"').to_owned());
        flags.push(Flag { name: name.to_owned(), value });
    }
    flags
}
