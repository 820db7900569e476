//! Where the server listens: an address and a port, or a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// The longest path of a socket: the kernel takes 107 bytes, and the file has a longer name until it is ready.
const PATH_BYTES_MAX: usize = 96;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The absolute path of a Unix socket, written as `unix:///path`.
    Unix(PathBuf),
}

/// Why a text is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ListenError {
    /// It is neither an address nor a socket.
    #[error(
        "{0:?} is not an IP address and a port; write, for example, 127.0.0.1:8086, [::1]:8086 or \
            unix:///run/headcount/grpc.sock"
    )]
    Address(String),
    /// The path of the socket is not absolute.
    #[error("{0:?} needs an absolute path; write, for example, unix:///run/headcount/grpc.sock")]
    Relative(String),
    /// The path of the socket is too long.
    #[error("the path of {0:?} is too long; a Unix socket's path may have {PATH_BYTES_MAX} bytes here")]
    TooLong(String),
}

impl Listen {
    /// Whether only processes on this machine, or in this pod, can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let trimmed = text.trim();
        let Some(path) = trimmed.strip_prefix("unix:") else {
            return trimmed.parse().map(Self::Tcp).map_err(|_| ListenError::Address(text.to_owned()));
        };
        let path = path.strip_prefix("//").unwrap_or(path);
        if !Path::new(path).is_absolute() || path.ends_with('/') || path.contains('\0') {
            return Err(ListenError::Relative(text.to_owned()));
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(ListenError::TooLong(text.to_owned()));
        }
        Ok(Self::Unix(PathBuf::from(path)))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_sockets_are_read_and_shown_alike() {
        for text in ["127.0.0.1:8086", "[::1]:8086", "unix:///run/headcount/grpc.sock"] {
            let listen: Listen = text.parse().expect(text);
            assert!(listen.is_local() && listen.to_string() == text, "{text}: {listen}");
        }
        assert_eq!("unix:/run/a".parse::<Listen>().expect("the short form").to_string(), "unix:///run/a");
        for open in ["0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "169.254.1.1", "[fe80::1]", "10.0.0.7"] {
            assert!(!format!("{open}:8086").parse::<Listen>().expect("an address").is_local(), "{open}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        let long = format!("unix:///{}", "a".repeat(PATH_BYTES_MAX));
        for (text, hint) in [
            ("8086", "127.0.0.1:8086"),
            ("localhost:8086", "unix:///run"),
            ("unix://run/a", "absolute path"),
            ("unix:", "absolute path"),
            ("unix:///run/", "absolute path"),
            (long.as_str(), "too long"),
        ] {
            let error = text.parse::<Listen>().expect_err(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
