//! The generations of Linux whose kernels keep the same amount of memory for themselves.

use serde::Deserialize;

/// A generation of kernels. Its order is that of the releases, except for the crash kernels of Red Hat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum Kernel {
    /// CentOS and RHEL 7, with the memory that they set aside for a crash dump (`crashkernel=auto`).
    #[serde(rename = "el7")]
    RedHat7,
    /// RHEL 8 and later and what is built from it, with its crash dump.
    #[serde(rename = "el8")]
    RedHat8,
    /// Before 5.0.
    #[serde(rename = "4")]
    Linux4,
    /// 5.0 to 5.11.
    #[serde(rename = "5.0")]
    Linux5,
    /// 5.12 to 5.19.
    #[serde(rename = "5.12")]
    Linux5Late,
    /// 6.0 to 6.12.
    #[serde(rename = "6.0")]
    Linux6,
    /// 6.13 and later.
    #[serde(rename = "6.13")]
    Linux6Late,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::RedHat7, Self::RedHat8, Self::Linux4, Self::Linux5, Self::Linux5Late, Self::Linux6, Self::Linux6Late];

    /// Its name in the table of figures.
    pub fn key(self) -> &'static str {
        match self {
            Self::RedHat7 => "el7",
            Self::RedHat8 => "el8",
            Self::Linux4 => "4",
            Self::Linux5 => "5.0",
            Self::Linux5Late => "5.12",
            Self::Linux6 => "6.0",
            Self::Linux6Late => "6.13",
        }
    }

    /// Its releases, for messages.
    pub fn releases(self) -> &'static str {
        match self {
            Self::RedHat7 => "Linux 3.10 with a crash kernel",
            Self::RedHat8 => "a crash kernel of 256 MiB",
            Self::Linux4 => "Linux 4",
            Self::Linux5 => "Linux 5.0 to 5.11",
            Self::Linux5Late => "Linux 5.12 to 5.19",
            Self::Linux6 => "Linux 6.0 to 6.12",
            Self::Linux6Late => "Linux 6.13 and later",
        }
    }

    /// A kernel of the same age that sets nothing aside for a crash dump. Not every image of Red Hat does, and of
    /// Linux 6.13 one node is known.
    pub(super) fn without_crash_dump(self) -> Self {
        match self {
            Self::RedHat7 | Self::RedHat8 => Self::Linux4,
            Self::Linux6Late => Self::Linux6,
            Self::Linux4 | Self::Linux5 | Self::Linux5Late | Self::Linux6 => self,
        }
    }

    /// The generation of a release as a kubelet reports it: `6.1.140-154.222.amzn2023.x86_64`. `None` if it is not
    /// one of Linux.
    ///
    /// Red Hat's releases set memory aside for a crash dump, except those of CoreOS, which cannot be told from the
    /// release alone: `core_os` says it.
    pub fn of_release(release: &str, core_os: bool) -> Option<Self> {
        let (major, rest) = release.split_once('.')?;
        let minor = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
        let version: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        let is_red_hat = |number: &str| !core_os && release.contains(number);
        Some(match version {
            (10.., _) => return None,
            (..4, _) => Self::RedHat7,
            _ if is_red_hat(".el8") || is_red_hat(".el9") || is_red_hat(".el10") => Self::RedHat8,
            (4, _) => Self::Linux4,
            (5, ..12) => Self::Linux5,
            (5, _) => Self::Linux5Late,
            (6, ..13) => Self::Linux6,
            _ => Self::Linux6Late,
        })
    }
}
