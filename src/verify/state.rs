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

/// The file of a run. It exists from before its first write until the group is restored.
#[derive(Clone, Debug)]
pub struct State(PathBuf);

impl State {
    /// In this file.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What a run that was killed had found; `None` if there was none.
    ///
    /// # Errors
    ///
    /// If there is a file that cannot be read.
    pub fn left(&self) -> Result<Option<Found>, StateError> {
        if !self.0.exists() {
            return Ok(None);
        }
        let text = read_file(&self.0, CONFIG_FILE).map_err(|error| self.io(error))?;
        match serde_saphyr::from_str(&String::from_utf8_lossy(&text)) {
            Ok(found) => Ok(Some(found)),
            Err(error) => Err(StateError::Invalid { path: self.0.clone(), reason: error.to_string() }),
        }
    }

    /// Keeps what was found. It is on disk when this returns.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep(&self, found: &Found) -> Result<(), StateError> {
        let invalid = |reason: String| StateError::Invalid { path: self.0.clone(), reason };
        let text = serde_saphyr::to_string(found).map_err(|error| invalid(error.to_string()))?;
        let write = || {
            let mut file = File::create(&self.0)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| self.io(error))
    }

    /// The group is as it was found.
    ///
    /// # Errors
    ///
    /// If the file cannot be removed.
    pub fn forget(&self) -> Result<(), StateError> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io(error)),
            _ => Ok(()),
        }
    }

    fn io(&self, error: io::Error) -> StateError {
        StateError::Io { path: self.0.clone(), error }
    }
}
