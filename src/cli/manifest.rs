//! Reads a manifest of the Cluster Autoscaler.

use std::io::{self, Read as _};
use std::path::Path;

use crate::limits::{MANIFEST, read_file, too_large};

/// The text of a manifest; `-` is the standard input.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        io::stdin().take(MANIFEST.bytes as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > MANIFEST.bytes {
            return Err(too_large(MANIFEST));
        }
        bytes
    } else {
        read_file(path, MANIFEST)?
    };
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}
