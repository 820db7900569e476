//! The folder of one scenario.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::LOGS;

/// The scenario's files and logs. If the variable [`LOGS`] names a folder, they stay there after a failure.
pub(super) enum Folder {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl Folder {
    pub(super) fn new(scenario: &str) -> Self {
        let Some(logs) = std::env::var_os(LOGS) else {
            return Self::Temporary(tempfile::tempdir().expect("a folder"));
        };
        let folder = Path::new(&logs).join(scenario);
        // Otherwise, data of an earlier run would be served again.
        let _absent = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self::Kept(folder)
    }

    pub(super) fn remove(self) {
        if let Self::Kept(path) = self {
            std::fs::remove_dir_all(path).expect("removed");
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}
