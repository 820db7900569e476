//! A configuration file in a folder of its own.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A configuration file and its folder.
pub(crate) struct ConfigFile {
    folder: TempDir,
}

impl ConfigFile {
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("headcount.yaml"), text).expect("written");
        Self { folder }
    }

    /// Another file next to it.
    pub(crate) fn beside(self, name: &str, text: &str) -> Self {
        std::fs::write(self.folder.path().join(name), text).expect("written");
        self
    }

    pub(crate) fn path(&self) -> String {
        self.file().display().to_string()
    }

    /// The folder of the file.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The path of a file next to it.
    pub(crate) fn path_of(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn file(&self) -> PathBuf {
        Path::new(self.folder.path()).join("headcount.yaml")
    }
}
