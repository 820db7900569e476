//! Errors in the configuration: one message with the place, the reason, and what to write instead.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::instance_types::TableError;
use crate::limits::{self, CONFIG_FILE};

/// Where a piece of configuration was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, at a line and column, both counted from 1.
    Text {
        /// The file, as the user named it.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The column, in characters.
        column: u64,
    },
    /// Under a key of a file whose parser reports no lines for values.
    Key {
        /// The file, as the user named it.
        file: PathBuf,
        /// The key.
        key: &'static str,
    },
    /// A file as a whole.
    File(PathBuf),
    /// On the command line.
    Flag(&'static str),
    /// In an environment variable.
    Variable(&'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { file, line, column } => write!(formatter, "{}:{line}:{column}", file.display()),
            Self::Key { file, key } => write!(formatter, "{}: {key}", file.display()),
            Self::File(file) => write!(formatter, "{}", file.display()),
            Self::Flag(flag) => formatter.write_str(flag),
            Self::Variable(variable) => formatter.write_str(variable),
        }
    }
}

/// Why the configuration is invalid. Only the first error is reported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// An invalid value, key or file.
    #[error("{place}: {message}")]
    Invalid {
        /// Where.
        place: Place,
        /// What is wrong, and what to write instead.
        message: String,
    },
    /// An invalid table of instance types.
    #[error(transparent)]
    Table(#[from] TableError),
    /// --config and an in-tree flag at once.
    #[error(
        "--config and {0} cannot be combined: move the value of {0} into the sources of the file, or leave out \
         --config"
    )]
    FileAndFlags(&'static str),
    /// An in-tree flag without --cloud-provider.
    #[error("{0} needs --cloud-provider=aws or --cloud-provider=azure, as in the Cluster Autoscaler")]
    NoProvider(&'static str),
    /// No configuration at all.
    #[error(
        "there is no configuration: pass --config FILE, or --cloud-provider=aws|azure with --nodes=min:max:name or \
         --node-group-auto-discovery, or --demo for a simulated cloud"
    )]
    Nothing,
}

impl ConfigError {
    /// Returns an error at a place.
    pub(super) fn at(place: &Place, message: impl Into<String>) -> Self {
        Self::Invalid { place: place.clone(), message: message.into() }
    }
}

/// A value, and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// Reads a file that `place` names.
pub(super) fn read_file(path: &Path, place: &Place) -> Result<String, ConfigError> {
    check_file(path, place)?;
    let bytes = limits::read_file(path, CONFIG_FILE).map_err(|error| unreadable(path, place, &error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| unreadable(path, place, "it is not text in UTF-8"))
}

/// Checks that a file that `place` names exists and is not too large.
pub(super) fn check_file(path: &Path, place: &Place) -> Result<(), ConfigError> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, place, &error.to_string()))?;
    if !metadata.is_file() {
        return Err(unreadable(path, place, "it is not a file"));
    }
    if usize::try_from(metadata.len()).map_or(true, |bytes| bytes > CONFIG_FILE.bytes) {
        return Err(unreadable(path, place, "it is larger than 1 MiB"));
    }
    Ok(())
}

fn unreadable(path: &Path, place: &Place, why: &str) -> ConfigError {
    ConfigError::at(place, format!("cannot read {}: {why}", path.display()))
}
