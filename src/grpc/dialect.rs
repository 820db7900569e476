//! The options a node group is scaled by, in the dialect of the Cluster Autoscaler that asks.
//!
//! Every release reads an absent answer as "my own flags". A present one is dangerous: what a release looks for and does
//! not find in it becomes zero, and zero means that new nodes are deleted at once, or it crashes the autoscaler. So the
//! answer is absent unless a group overrides something and the release is known to read all that it needs.

use std::time::Duration;

use super::proto::{KubernetesDuration, NodeGroupAutoscalingOptions};
use crate::fleet::options::Options;

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// Which releases of the Cluster Autoscaler write a request so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// 1.25 to 1.28: no provision time. 1.27 and 1.28 use one all the same, which makes any answer fatal.
    To128,
    /// 1.29 to 1.33: Kubernetes durations. Those before 1.33 pass the two booleans over.
    From129To133,
    /// 1.34: Kubernetes durations and protobuf's.
    V134,
    /// 1.35 and later: protobuf durations. They also want a node startup time, for which the protocol has no field.
    From135,
}

impl Dialect {
    /// Tells the dialect by the defaults that every request carries; `None` where this one does not.
    pub fn of(defaults: Option<&NodeGroupAutoscalingOptions>) -> Option<Self> {
        let defaults = defaults?;
        let kubernetes = defaults.max_node_provision_time.is_some();
        let protobuf = defaults.scale_down_unneeded_duration.is_some();
        Some(match (kubernetes, protobuf) {
            (false, false) => Self::To128,
            (true, false) => Self::From129To133,
            (true, true) => Self::V134,
            (false, true) => Self::From135,
        })
    }
}

/// Whether overrides go to 1.35 and later, which take any answer to mean a node startup time of zero: nodes that are
/// still booting then count as unready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendPolicy {
    /// They do not.
    #[default]
    Suppress,
    /// They do.
    Send,
}

/// The answer to a request with these defaults, for a group with these overrides: the overrides over the defaults with
/// every field filled, or `None` for "use your own flags".
pub fn answer(
    overrides: &Options,
    defaults: Option<&NodeGroupAutoscalingOptions>,
    since_135: SendPolicy,
) -> Option<NodeGroupAutoscalingOptions> {
    if overrides.is_empty() {
        return None;
    }
    match (Dialect::of(defaults)?, since_135) {
        (Dialect::To128, _) | (Dialect::From135, SendPolicy::Suppress) => None,
        (Dialect::From129To133 | Dialect::V134, _) | (Dialect::From135, SendPolicy::Send) => {
            merged(overrides, defaults?)
        }
    }
}

/// `None` where the defaults lack a duration: there is nothing true to fill it with, and it must not become zero.
fn merged(overrides: &Options, defaults: &NodeGroupAutoscalingOptions) -> Option<NodeGroupAutoscalingOptions> {
    let unneeded = nanoseconds(
        overrides.scale_down_unneeded_time,
        defaults.scale_down_unneeded_duration,
        defaults.scale_down_unneeded_time,
    )?;
    let unready = nanoseconds(
        overrides.scale_down_unready_time,
        defaults.scale_down_unready_duration,
        defaults.scale_down_unready_time,
    )?;
    let provision = nanoseconds(
        overrides.max_node_provision_time,
        defaults.max_node_provision_duration,
        defaults.max_node_provision_time,
    )?;
    Some(NodeGroupAutoscalingOptions {
        scale_down_utilization_threshold: overrides
            .scale_down_utilization_threshold
            .unwrap_or(defaults.scale_down_utilization_threshold),
        scale_down_gpu_utilization_threshold: overrides
            .scale_down_gpu_utilization_threshold
            .unwrap_or(defaults.scale_down_gpu_utilization_threshold),
        scale_down_unneeded_time: Some(KubernetesDuration { duration: unneeded }),
        scale_down_unready_time: Some(KubernetesDuration { duration: unready }),
        max_node_provision_time: Some(KubernetesDuration { duration: provision }),
        zero_or_max_node_scaling: overrides.zero_or_max_node_scaling.unwrap_or(defaults.zero_or_max_node_scaling),
        ignore_daemon_sets_utilization: overrides
            .ignore_daemonsets_utilization
            .unwrap_or(defaults.ignore_daemon_sets_utilization),
        scale_down_unneeded_duration: Some(protobuf(unneeded)),
        scale_down_unready_duration: Some(protobuf(unready)),
        max_node_provision_duration: Some(protobuf(provision)),
    })
}

/// The override, else the default from whichever field has it: 1.34 fills both and reads protobuf's first.
fn nanoseconds(
    overriding: Option<Duration>,
    protobuf: Option<prost_types::Duration>,
    kubernetes: Option<KubernetesDuration>,
) -> Option<i64> {
    if let Some(time) = overriding {
        return Some(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
    }
    if let Some(time) = protobuf {
        return Some(time.seconds.saturating_mul(NANOSECONDS_PER_SECOND).saturating_add(i64::from(time.nanos)));
    }
    kubernetes.map(|time| time.duration)
}

fn protobuf(nanoseconds: i64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: nanoseconds / NANOSECONDS_PER_SECOND,
        // The remainder is below a thousand million, which 32 bits hold.
        nanos: i32::try_from(nanoseconds % NANOSECONDS_PER_SECOND).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60 * NANOSECONDS_PER_SECOND;

    /// What a release sends as its flags: thresholds 0.5, unneeded 10 min, unready 20 min, provision 15 min.
    fn mk_defaults(dialect: Dialect) -> NodeGroupAutoscalingOptions {
        let kubernetes = |minutes| Some(KubernetesDuration { duration: minutes * MINUTE_NS });
        let google = |minutes: i64| Some(prost_types::Duration { seconds: minutes * 60, nanos: 0 });
        let bare = NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: 0.5,
            scale_down_gpu_utilization_threshold: 0.5,
            ignore_daemon_sets_utilization: true,
            ..NodeGroupAutoscalingOptions::default()
        };
        let with_kubernetes = NodeGroupAutoscalingOptions {
            scale_down_unneeded_time: kubernetes(10),
            scale_down_unready_time: kubernetes(20),
            ..bare
        };
        let with_google = |options| NodeGroupAutoscalingOptions {
            scale_down_unneeded_duration: google(10),
            scale_down_unready_duration: google(20),
            max_node_provision_duration: google(15),
            ..options
        };
        let with_provision = NodeGroupAutoscalingOptions { max_node_provision_time: kubernetes(15), ..with_kubernetes };
        match dialect {
            Dialect::To128 => with_kubernetes,
            Dialect::From129To133 => with_provision,
            Dialect::V134 => with_google(with_provision),
            Dialect::From135 => with_google(bare),
        }
    }

    const DIALECTS: [Dialect; 4] = [Dialect::To128, Dialect::From129To133, Dialect::V134, Dialect::From135];

    fn mk_overrides() -> Options {
        Options {
            scale_down_utilization_threshold: Some(0.25),
            scale_down_unneeded_time: Some(Duration::from_millis(90_500)),
            zero_or_max_node_scaling: Some(true),
            ignore_daemonsets_utilization: Some(false),
            ..Options::default()
        }
    }

    /// The overrides above over the defaults above, with nothing left out.
    fn mk_expected() -> NodeGroupAutoscalingOptions {
        NodeGroupAutoscalingOptions {
            scale_down_utilization_threshold: 0.25,
            scale_down_gpu_utilization_threshold: 0.5,
            scale_down_unneeded_time: Some(KubernetesDuration { duration: 90_500_000_000 }),
            scale_down_unready_time: Some(KubernetesDuration { duration: 20 * MINUTE_NS }),
            max_node_provision_time: Some(KubernetesDuration { duration: 15 * MINUTE_NS }),
            zero_or_max_node_scaling: true,
            ignore_daemon_sets_utilization: false,
            scale_down_unneeded_duration: Some(prost_types::Duration { seconds: 90, nanos: 500_000_000 }),
            scale_down_unready_duration: Some(prost_types::Duration { seconds: 1200, nanos: 0 }),
            max_node_provision_duration: Some(prost_types::Duration { seconds: 900, nanos: 0 }),
        }
    }

    #[test]
    fn each_release_is_told_by_its_defaults() {
        for dialect in DIALECTS {
            assert_eq!(Dialect::of(Some(&mk_defaults(dialect))), Some(dialect));
        }
        assert_eq!(Dialect::of(None), None);
    }

    #[test]
    fn without_overrides_nobody_is_answered() {
        for dialect in DIALECTS {
            assert_eq!(answer(&Options::default(), Some(&mk_defaults(dialect)), SendPolicy::Send), None, "{dialect:?}");
        }
    }

    #[test]
    fn a_request_without_defaults_is_not_answered() {
        assert_eq!(answer(&mk_overrides(), None, SendPolicy::Send), None);
    }

    #[test]
    fn releases_to_1_28_are_never_answered() {
        for policy in [SendPolicy::Suppress, SendPolicy::Send] {
            assert_eq!(answer(&mk_overrides(), Some(&mk_defaults(Dialect::To128)), policy), None);
        }
    }

    #[test]
    fn releases_from_1_29_to_1_34_are_answered_with_every_field_filled() {
        for dialect in [Dialect::From129To133, Dialect::V134] {
            for policy in [SendPolicy::Suppress, SendPolicy::Send] {
                let answer = answer(&mk_overrides(), Some(&mk_defaults(dialect)), policy);
                assert_eq!(answer, Some(mk_expected()), "{dialect:?}");
            }
        }
    }

    #[test]
    fn releases_from_1_35_are_answered_only_where_that_was_asked_for() {
        let defaults = mk_defaults(Dialect::From135);
        assert_eq!(answer(&mk_overrides(), Some(&defaults), SendPolicy::Suppress), None);
        assert_eq!(answer(&mk_overrides(), Some(&defaults), SendPolicy::Send), Some(mk_expected()));
    }

    #[test]
    fn every_override_reaches_the_fields_of_both_kinds() {
        let overrides = Options {
            scale_down_utilization_threshold: Some(0.1),
            scale_down_gpu_utilization_threshold: Some(0.2),
            scale_down_unneeded_time: Some(Duration::from_secs(1)),
            scale_down_unready_time: Some(Duration::from_secs(2)),
            max_node_provision_time: Some(Duration::MAX),
            zero_or_max_node_scaling: Some(true),
            ignore_daemonsets_utilization: Some(false),
        };
        let answer = answer(&overrides, Some(&mk_defaults(Dialect::V134)), SendPolicy::Suppress).expect("an answer");
        assert!((answer.scale_down_utilization_threshold - 0.1).abs() < f64::EPSILON);
        assert!((answer.scale_down_gpu_utilization_threshold - 0.2).abs() < f64::EPSILON);
        assert_eq!(answer.scale_down_unneeded_time.map(|time| time.duration), Some(NANOSECONDS_PER_SECOND));
        assert_eq!(answer.scale_down_unready_duration.map(|time| time.seconds), Some(2));
        // Longer than the protocol can say: as long as it can.
        assert_eq!(answer.max_node_provision_time.map(|time| time.duration), Some(i64::MAX));
        assert_eq!(
            answer.max_node_provision_duration.map(|time| time.seconds),
            Some(i64::MAX / NANOSECONDS_PER_SECOND)
        );
    }

    #[test]
    fn a_default_that_is_missing_is_not_made_up() {
        let defaults =
            NodeGroupAutoscalingOptions { scale_down_unready_time: None, ..mk_defaults(Dialect::From129To133) };
        assert_eq!(answer(&mk_overrides(), Some(&defaults), SendPolicy::Suppress), None);
    }
}
