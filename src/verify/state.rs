//! What a run found, in a file, so that another run can restore it if this one is killed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cloud::{GroupName, GroupReading, ProviderId};
use crate::limits::{CONFIG_FILE, read_file};

/// The size that a run found, and restores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The group.
    pub group: GroupName,
    /// Its capacity.
    pub size: u32,
    /// Its instances.
    pub instances: BTreeSet<ProviderId>,
}

impl Found {
    /// What a reading shows.
    pub fn of(reading: &GroupReading) -> Self {
        let instances = reading.instances.iter().flatten().map(|instance| instance.id.clone());
        Self { group: reading.name.clone(), size: reading.desired, instances: instances.collect() }
    }
}

/// Why the file of a run cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// It cannot be written, read or removed.
    #[error("{}: {error}; name another file with --state", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is of something else.
    #[error("{}: not what a run of headcount verify leaves ({reason}); name another file with --state", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The file of a run. It exists from before its first write until the group is restored. `None` for a simulated group,
/// which is gone with the process, so that no other run can restore it.
#[derive(Clone, Debug)]
pub struct State(Option<PathBuf>);

impl State {
    /// In this file.
    pub fn at(path: PathBuf) -> Self {
        Self(Some(path))
    }

    /// In no file.
    pub fn nowhere() -> Self {
        Self(None)
    }

    /// What a run that was killed had found, and its file; `None` if there was none.
    ///
    /// # Errors
    ///
    /// If there is a file that cannot be read.
    pub fn left(&self) -> Result<Option<(Found, PathBuf)>, StateError> {
        let Some(path) = self.0.as_ref().filter(|path| path.exists()) else { return Ok(None) };
        let text = read_file(path, CONFIG_FILE).map_err(|error| io_error(path, error))?;
        match serde_saphyr::from_str(&String::from_utf8_lossy(&text)) {
            Ok(found) => Ok(Some((found, path.clone()))),
            Err(error) => Err(StateError::Invalid { path: path.clone(), reason: error.to_string() }),
        }
    }

    /// Keeps what was found. It is on disk when this returns.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep(&self, found: &Found) -> Result<(), StateError> {
        let Some(path) = &self.0 else { return Ok(()) };
        let invalid = |reason: String| StateError::Invalid { path: path.clone(), reason };
        let text = serde_saphyr::to_string(found).map_err(|error| invalid(error.to_string()))?;
        let write = || {
            let mut file = File::create(path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| io_error(path, error))
    }

    /// The group is as it was found.
    ///
    /// # Errors
    ///
    /// If the file cannot be removed.
    pub fn forget(&self) -> Result<(), StateError> {
        let Some(path) = &self.0 else { return Ok(()) };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
            _ => Ok(()),
        }
    }
}

fn io_error(path: &Path, error: io::Error) -> StateError {
    StateError::Io { path: path.to_owned(), error }
}
