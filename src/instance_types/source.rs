//! Where a value comes from.

use std::fmt;
use std::sync::Arc;

/// Where a value of a node template comes from, most trusted first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A tag of the group (or of its EKS managed node group).
    GroupTag,
    /// An entry under `groups:` in the configuration.
    GroupOverride,
    /// A capacity table that the user gave.
    UserTable {
        /// The file, as the configuration names it.
        file: Arc<str>,
    },
    /// A node of this group, seen before.
    Learned,
    /// What the cloud says of the type when asked (DescribeInstanceTypes, Resource SKUs).
    LiveDiscovery,
    /// The table that ships in the binary.
    Shipped {
        /// Its date.
        version: &'static str,
    },
    /// The group itself, as the cloud describes it and what it launches: its zones, disks, labels and taints.
    Group,
    /// The rule that says what a node keeps for itself.
    Profile {
        /// Its name in the configuration.
        name: &'static str,
    },
    /// What kubelet does where nothing else is said.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GroupTag => formatter.write_str("tag"),
            Self::GroupOverride => formatter.write_str("group override"),
            Self::UserTable { file } => write!(formatter, "user table {file}"),
            Self::Learned => formatter.write_str("learned from a node"),
            Self::LiveDiscovery => formatter.write_str("live discovery"),
            Self::Shipped { version } => write!(formatter, "shipped table {version}"),
            Self::Group => formatter.write_str("group"),
            Self::Profile { name } => write!(formatter, "{name} profile"),
            Self::Default => formatter.write_str("default"),
        }
    }
}

/// A value, where it comes from, and what would have been said without that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub source: Source,
    /// The next most trusted value and its source.
    pub runner_up: Option<(T, Source)>,
}

impl<T> Sourced<T> {
    /// A value that nothing competes with.
    pub fn new(value: T, source: Source) -> Self {
        Self { value, source, runner_up: None }
    }

    /// The first candidate, with the second as runner-up. Candidates come most trusted first.
    pub fn first(candidates: impl IntoIterator<Item = (T, Source)>) -> Option<Self> {
        let mut candidates = candidates.into_iter();
        let (value, source) = candidates.next()?;
        Some(Self { value, source, runner_up: candidates.next() })
    }

    /// The value and its runner-up as candidates again.
    pub fn into_candidates(self) -> impl Iterator<Item = (T, Source)> {
        std::iter::once((self.value, self.source)).chain(self.runner_up)
    }

    /// The same sources for what `convert` makes of the values.
    pub fn map<U>(self, mut convert: impl FnMut(T) -> U) -> Sourced<U> {
        let runner_up = self.runner_up.map(|(value, source)| (convert(value), source));
        Sourced { value: convert(self.value), source: self.source, runner_up }
    }
}
