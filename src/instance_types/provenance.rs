//! Where a value comes from.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::memory_model::{HostFigure, kernel_of};
use crate::cloud::NodeImage;

/// Where a value of a node template comes from, most trusted first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// A tag of the group (or of its EKS managed node group).
    GroupTag,
    /// An entry under `groups:` in the configuration.
    GroupOverride,
    /// A capacity table that the user gave.
    UserTable {
        /// The file, as the configuration names it.
        file: Arc<str>,
    },
    /// An earlier report of a node of this group.
    Learned {
        /// The node with the least memory.
        node: Arc<str>,
        /// The last day on which a node had these figures.
        seen: Day,
    },
    /// The cloud's API (DescribeInstanceTypes, Resource SKUs).
    LiveDiscovery,
    /// The table that ships in the binary.
    Shipped {
        /// Its date.
        version: &'static str,
    },
    /// Estimated from the memory that the cloud sells, less what is missing on the host and what the image's kernel
    /// keeps.
    Estimated {
        /// Where the memory that the cloud sells comes from.
        nominal: Box<Self>,
        /// Where the figure for the host comes from.
        host: HostFigure,
        /// The node that showed the figure for the host, if it was learned.
        learned: Option<LearnedBy>,
        /// The image whose kernel counts; `None` if it may be any.
        image: Option<NodeImage>,
    },
    /// The group itself, by the cloud's description of it and of its launches: zones, disks, labels and taints.
    Group,
    /// The user data that the group's instances are launched with.
    UserData,
    /// The rule for what a node reserves.
    Profile {
        /// Its name in the configuration.
        name: &'static str,
    },
    /// The kubelet's default.
    Default,
}

impl fmt::Display for Provenance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GroupTag => formatter.write_str("tag"),
            Self::GroupOverride => formatter.write_str("group override"),
            Self::UserTable { file } => write!(formatter, "user table {file}"),
            Self::Learned { node, seen } => write!(formatter, "learned from node {node}, {seen}"),
            Self::LiveDiscovery => formatter.write_str("live discovery"),
            Self::Shipped { version } => write!(formatter, "shipped table {version}"),
            Self::Estimated { nominal, host, learned, image } => {
                write!(formatter, "{nominal} less host (")?;
                match (host, learned) {
                    (HostFigure::Learned, Some(LearnedBy { node, seen })) => {
                        write!(formatter, "learned from node {node}, {seen}")?;
                    }
                    (HostFigure::Learned, None) => formatter.write_str("learned")?,
                    (HostFigure::Observed { nodes: 1 }, _) => formatter.write_str("1 observed node")?,
                    (HostFigure::Observed { nodes }, _) => write!(formatter, "{nodes} observed nodes")?,
                    (HostFigure::Class(name), _) => write!(formatter, "worst of {name}")?,
                    (HostFigure::Unknown, _) => formatter.write_str("worst of all types")?,
                }
                match image {
                    Some(NodeImage { family, evidence }) => {
                        write!(formatter, ") and kernel ({}: {family} by {evidence})", kernel_of(*family).releases())
                    }
                    None => formatter.write_str(") and kernel (image unknown)"),
                }
            }
            Self::Group => formatter.write_str("group"),
            Self::UserData => formatter.write_str("user data"),
            Self::Profile { name } => write!(formatter, "{name} profile"),
            Self::Default => formatter.write_str("default"),
        }
    }
}

/// The node that showed a figure, and the last day on which one did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedBy {
    /// The node.
    pub node: Arc<str>,
    /// The day.
    pub seen: Day,
}

/// A day, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(u32);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Day {
    /// The day of this moment.
    pub fn of(time: SystemTime) -> Self {
        let days = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / DAY.as_secs();
        // The last day that RFC 3339 can express is some 2.9 million days away.
        Self(u32::try_from(days.min(2_900_000)).unwrap_or_default())
    }

    /// Reads `2026-11-21`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        humantime::parse_rfc3339(&format!("{text}T00:00:00Z")).ok().map(Self::of)
    }

    /// The days from `earlier` to this one; 0 if it is not earlier.
    pub(super) fn days_since(self, earlier: Self) -> u32 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + DAY * self.0).to_string();
        formatter.write_str(time.split('T').next().unwrap_or_default())
    }
}

/// A value, where it comes from, and the next most trusted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithProvenance<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub provenance: Provenance,
    /// The next most trusted value and its provenance.
    pub runner_up: Option<(T, Provenance)>,
}

impl<T> WithProvenance<T> {
    /// A value without a runner-up.
    pub fn new(value: T, provenance: Provenance) -> Self {
        Self { value, provenance, runner_up: None }
    }

    /// The first candidate, with the second as runner-up. Candidates come most trusted first.
    pub fn first(candidates: impl IntoIterator<Item = (T, Provenance)>) -> Option<Self> {
        let mut candidates = candidates.into_iter();
        let (value, provenance) = candidates.next()?;
        Some(Self { value, provenance, runner_up: candidates.next() })
    }

    /// The value and its runner-up as candidates again.
    pub fn into_candidates(self) -> impl Iterator<Item = (T, Provenance)> {
        std::iter::once((self.value, self.provenance)).chain(self.runner_up)
    }

    /// Converts the values and keeps their provenance.
    pub fn map<U>(self, mut convert: impl FnMut(T) -> U) -> WithProvenance<U> {
        let runner_up = self.runner_up.map(|(value, provenance)| (convert(value), provenance));
        WithProvenance { value: convert(self.value), provenance: self.provenance, runner_up }
    }
}
