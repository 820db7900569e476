//! The releases of the Cluster Autoscaler, as far as their requests differ.

use super::proto::NodeGroupAutoscalingOptions;

/// The releases of the Cluster Autoscaler, grouped by the form of their requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// 1.25 to 1.28: no provision time. 1.27 and 1.28 use one anyway, so any options make them delete new nodes.
    To128,
    /// 1.29 to 1.33: Kubernetes durations. Releases before 1.33 do not read the two Booleans: with any options, both are
    /// false for the group.
    From129To133,
    /// 1.34: Kubernetes durations and protobuf durations.
    V134,
    /// 1.35 and later: protobuf durations. They also read a node startup time, for which the protocol has no field.
    From135,
    /// No release yet: protobuf durations with a field for the startup time (autoscaler #10266), so that options can be
    /// sent again.
    WithStartup,
}

impl Dialect {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [Self::To128, Self::From129To133, Self::V134, Self::From135, Self::WithStartup];

    /// Detects the dialect from the defaults that every request carries; `None` if there are none.
    pub fn of(defaults: Option<&NodeGroupAutoscalingOptions>) -> Option<Self> {
        let defaults = defaults?;
        let kubernetes = defaults.max_node_provision_time.is_some();
        let protobuf = defaults.scale_down_unneeded_duration.is_some();
        Some(match (kubernetes, protobuf) {
            (false, false) => Self::To128,
            (true, false) => Self::From129To133,
            (true, true) => Self::V134,
            (false, true) if defaults.max_node_startup_duration.is_some() => Self::WithStartup,
            (false, true) => Self::From135,
        })
    }

    /// The dialect of a release.
    pub fn of_release(release: (u32, u32)) -> Self {
        match release {
            (1, ..=28) => Self::To128,
            (1, 29..=33) => Self::From129To133,
            (1, 34) => Self::V134,
            _ => Self::From135,
        }
    }

    /// The dialect of these releases, as [`Dialect::releases`] writes them.
    pub fn named(releases: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.releases() == releases)
    }

    /// The releases, for people.
    pub fn releases(self) -> &'static str {
        match self {
            Self::To128 => "1.25 to 1.28",
            Self::From129To133 => "1.29 to 1.33",
            Self::V134 => "1.34",
            Self::From135 => "1.35 or later",
            Self::WithStartup => "with a startup time in its options",
        }
    }
}

/// Whether overrides are sent to 1.35 and later. These releases read any options as a node startup time of zero, so
/// that booting nodes count as unready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendPolicy {
    /// They are not sent.
    #[default]
    Suppress,
    /// They are sent.
    Send,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialect_is_known_by_its_name_and_by_each_of_its_releases() {
        let of = |minor| Dialect::of_release((1, minor));
        assert_eq!(
            [25, 28, 29, 33, 34, 35, 40].map(of).map(Dialect::releases),
            ["1.25 to 1.28", "1.25 to 1.28", "1.29 to 1.33", "1.29 to 1.33", "1.34", "1.35 or later", "1.35 or later"]
        );
        assert_eq!(Dialect::ALL.map(|dialect| Dialect::named(dialect.releases())), Dialect::ALL.map(Some));
    }
}
