//! The autoscaling options of a node group, in the dialect of the calling Cluster Autoscaler.
//!
//! Every release treats absent options as "use my own flags". Present options are dangerous: a field that the release
//! reads and that is missing becomes zero, which makes CA delete new nodes at once, or crash. So options are sent only
//! if the group overrides something and the release finds every field it reads.

use std::time::Duration;

use super::dialect::{Dialect, SendPolicy};
use super::proto::{KubernetesDuration, NodeGroupAutoscalingOptions};
use crate::fleet::options::Options;

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// Returns the options to send for a group with these overrides: the overrides on top of the request's defaults, with
/// every field set; `None` for "use your own flags".
pub(super) fn options_to_send(
    overrides: &Options,
    defaults: Option<&NodeGroupAutoscalingOptions>,
    since_135: SendPolicy,
) -> Option<NodeGroupAutoscalingOptions> {
    if overrides.is_empty() {
        return None;
    }
    match (Dialect::of(defaults)?, since_135) {
        (Dialect::To128, _) | (Dialect::From135, SendPolicy::Suppress) => None,
        (Dialect::From129To133 | Dialect::V134 | Dialect::WithStartup, _) | (Dialect::From135, SendPolicy::Send) => {
            merged(overrides, defaults?)
        }
    }
}

/// Returns `None` if the defaults lack a duration: there is no correct value to send, and it must not become zero.
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
        max_node_startup_duration: defaults.max_node_startup_duration,
        allow_non_atomic_scale_up_to_max: defaults.allow_non_atomic_scale_up_to_max,
    })
}

/// Returns the override, or else the default from the field that has it. 1.34 sets both and reads the protobuf field
/// first.
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
        // The remainder is below 10^9, which fits into 32 bits.
        nanos: i32::try_from(nanoseconds % NANOSECONDS_PER_SECOND).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60 * NANOSECONDS_PER_SECOND;

    /// The flags that a release sends: thresholds 0.5, unneeded 10 min, unready 20 min, provision 15 min.
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
            Dialect::WithStartup => NodeGroupAutoscalingOptions {
                max_node_startup_duration: google(7),
                allow_non_atomic_scale_up_to_max: true,
                ..with_google(bare)
            },
        }
    }

    fn mk_overrides() -> Options {
        Options {
            scale_down_utilization_threshold: Some(0.25),
            scale_down_unneeded_time: Some(Duration::from_millis(90_500)),
            zero_or_max_node_scaling: Some(true),
            ignore_daemonsets_utilization: Some(false),
            ..Options::default()
        }
    }

    /// The overrides above on top of the defaults above, with every field set.
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
            max_node_startup_duration: None,
            allow_non_atomic_scale_up_to_max: false,
        }
    }

    #[test]
    fn each_release_is_recognised_by_its_defaults() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::of(Some(&mk_defaults(dialect))), Some(dialect));
        }
        assert_eq!(Dialect::of(None), None);
    }

    #[test]
    fn no_options_are_sent_without_overrides() {
        for dialect in Dialect::ALL {
            assert_eq!(
                options_to_send(&Options::default(), Some(&mk_defaults(dialect)), SendPolicy::Send),
                None,
                "{dialect:?}"
            );
        }
    }

    #[test]
    fn no_options_are_sent_if_the_request_has_no_defaults() {
        assert_eq!(options_to_send(&mk_overrides(), None, SendPolicy::Send), None);
    }

    #[test]
    fn releases_to_1_28_never_get_options() {
        for policy in [SendPolicy::Suppress, SendPolicy::Send] {
            assert_eq!(options_to_send(&mk_overrides(), Some(&mk_defaults(Dialect::To128)), policy), None);
        }
    }

    #[test]
    fn releases_from_1_29_to_1_34_get_every_field() {
        for dialect in [Dialect::From129To133, Dialect::V134] {
            for policy in [SendPolicy::Suppress, SendPolicy::Send] {
                let sent = options_to_send(&mk_overrides(), Some(&mk_defaults(dialect)), policy);
                assert_eq!(sent, Some(mk_expected()), "{dialect:?}");
            }
        }
    }

    #[test]
    fn releases_from_1_35_get_options_only_if_configured() {
        let defaults = mk_defaults(Dialect::From135);
        assert_eq!(options_to_send(&mk_overrides(), Some(&defaults), SendPolicy::Suppress), None);
        assert_eq!(options_to_send(&mk_overrides(), Some(&defaults), SendPolicy::Send), Some(mk_expected()));
    }

    #[test]
    fn a_release_that_sends_a_startup_time_gets_it_back_with_every_field_whatever_is_configured() {
        let defaults = mk_defaults(Dialect::WithStartup);
        let expected = NodeGroupAutoscalingOptions {
            max_node_startup_duration: Some(prost_types::Duration { seconds: 420, nanos: 0 }),
            allow_non_atomic_scale_up_to_max: true,
            ..mk_expected()
        };
        for policy in [SendPolicy::Suppress, SendPolicy::Send] {
            assert_eq!(options_to_send(&mk_overrides(), Some(&defaults), policy), Some(expected));
        }
    }

    #[test]
    fn overrides_set_both_forms_of_each_duration() {
        let overrides = Options {
            scale_down_utilization_threshold: Some(0.1),
            scale_down_gpu_utilization_threshold: Some(0.2),
            scale_down_unneeded_time: Some(Duration::from_secs(1)),
            scale_down_unready_time: Some(Duration::from_secs(2)),
            max_node_provision_time: Some(Duration::MAX),
            zero_or_max_node_scaling: Some(true),
            ignore_daemonsets_utilization: Some(false),
        };
        let sent =
            options_to_send(&overrides, Some(&mk_defaults(Dialect::V134)), SendPolicy::Suppress).expect("options");
        assert!((sent.scale_down_utilization_threshold - 0.1).abs() < f64::EPSILON);
        assert!((sent.scale_down_gpu_utilization_threshold - 0.2).abs() < f64::EPSILON);
        assert_eq!(sent.scale_down_unneeded_time.map(|time| time.duration), Some(NANOSECONDS_PER_SECOND));
        assert_eq!(sent.scale_down_unready_duration.map(|time| time.seconds), Some(2));
        // Too long for the protocol, so the longest it allows.
        assert_eq!(sent.max_node_provision_time.map(|time| time.duration), Some(i64::MAX));
        assert_eq!(sent.max_node_provision_duration.map(|time| time.seconds), Some(i64::MAX / NANOSECONDS_PER_SECOND));
    }

    #[test]
    fn no_options_are_sent_if_a_default_is_missing() {
        let defaults =
            NodeGroupAutoscalingOptions { scale_down_unready_time: None, ..mk_defaults(Dialect::From129To133) };
        assert_eq!(options_to_send(&mk_overrides(), Some(&defaults), SendPolicy::Suppress), None);
    }
}
