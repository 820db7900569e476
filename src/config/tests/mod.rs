//! The configuration as users write it: valid files, and the error for each invalid value.

mod azure;
mod bad_values;
mod example;
mod flags;
mod good;
mod properties;

use std::path::Path;

use super::{Config, ConfigError};

/// An environment without any variable.
fn bare(_: &str) -> Option<String> {
    None
}

/// An environment with these variables.
fn environment<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    |name| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
}

/// Reads a headcount.yaml that refers to no other file.
fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("headcount.yaml"), &bare)
}
