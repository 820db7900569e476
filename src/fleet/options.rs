//! The autoscaling options of one node group that override the Cluster Autoscaler's flags.

use std::collections::BTreeMap;
use std::time::Duration;

use tracing::warn;

use crate::cloud::go_syntax;

/// What one group overrides of the Cluster Autoscaler's flags; `None` leaves the flag in force.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// `--scale-down-utilization-threshold`, 0 to 1.
    pub scale_down_utilization_threshold: Option<f64>,
    /// `--scale-down-gpu-utilization-threshold`, 0 to 1.
    pub scale_down_gpu_utilization_threshold: Option<f64>,
    /// `--scale-down-unneeded-time`.
    pub scale_down_unneeded_time: Option<Duration>,
    /// `--scale-down-unready-time`.
    pub scale_down_unready_time: Option<Duration>,
    /// `--max-node-provision-time`; never zero, because CA would then delete every new node at once.
    pub max_node_provision_time: Option<Duration>,
    /// Whether the group is scaled only to its maximum or to zero.
    pub zero_or_max_node_scaling: Option<bool>,
    /// `--ignore-daemonsets-utilization`.
    pub ignore_daemonsets_utilization: Option<bool>,
}

impl Options {
    /// Reads a group's option tags: lower-case option names without their prefix, values as written.
    ///
    /// As in the in-tree providers, a value that cannot be read causes a warning and leaves the flag in force, and an
    /// unknown name is ignored.
    pub fn from_tags(group: &str, tags: &BTreeMap<String, String>) -> Self {
        let mut options = Self::default();
        for (name, value) in tags {
            let set = match name.as_str() {
                "scaledownutilizationthreshold" => {
                    set(&mut options.scale_down_utilization_threshold, parse_threshold(value))
                }
                "scaledowngpuutilizationthreshold" => {
                    set(&mut options.scale_down_gpu_utilization_threshold, parse_threshold(value))
                }
                "scaledownunneededtime" => set(&mut options.scale_down_unneeded_time, go_syntax::parse_duration(value)),
                "scaledownunreadytime" => set(&mut options.scale_down_unready_time, go_syntax::parse_duration(value)),
                "maxnodeprovisiontime" => {
                    let time = go_syntax::parse_duration(value).filter(|time| !time.is_zero());
                    set(&mut options.max_node_provision_time, time)
                }
                "zeroormaxnodescaling" => set(&mut options.zero_or_max_node_scaling, go_syntax::parse_bool(value)),
                "ignoredaemonsetsutilization" => {
                    set(&mut options.ignore_daemonsets_utilization, go_syntax::parse_bool(value))
                }
                _ => continue,
            };
            if !set {
                warn!(group, option = %name, %value, "autoscaling option tag has an invalid value; ignoring the tag");
            }
        }
        options
    }

    /// These options, with those of `under` for the ones that are not set.
    #[must_use]
    pub fn merge(self, under: &Self) -> Self {
        Self {
            scale_down_utilization_threshold: self
                .scale_down_utilization_threshold
                .or(under.scale_down_utilization_threshold),
            scale_down_gpu_utilization_threshold: self
                .scale_down_gpu_utilization_threshold
                .or(under.scale_down_gpu_utilization_threshold),
            scale_down_unneeded_time: self.scale_down_unneeded_time.or(under.scale_down_unneeded_time),
            scale_down_unready_time: self.scale_down_unready_time.or(under.scale_down_unready_time),
            max_node_provision_time: self.max_node_provision_time.or(under.max_node_provision_time),
            zero_or_max_node_scaling: self.zero_or_max_node_scaling.or(under.zero_or_max_node_scaling),
            ignore_daemonsets_utilization: self.ignore_daemonsets_utilization.or(under.ignore_daemonsets_utilization),
        }
    }

    /// Whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Sets `field` if there is a value. Returns whether there was one.
fn set<T>(field: &mut Option<T>, value: Option<T>) -> bool {
    let usable = value.is_some();
    *field = value;
    usable
}

/// A share of a node: finite, 0 to 1.
fn parse_threshold(text: &str) -> Option<f64> {
    text.parse().ok().filter(|threshold| (0.0..=1.0).contains(threshold))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    fn mk_tags<'a>(tags: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
        tags.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn option_tags_of_an_auto_scaling_group_are_applied() {
        let options = Options::from_tags(
            "g",
            &mk_tags([
                ("scaledownutilizationthreshold", "0.42"),
                ("scaledownunneededtime", "1h"),
                ("scaledowngpuutilizationthreshold", "0.7"),
                ("scaledownunreadytime", "25m"),
                ("ignoredaemonsetsutilization", "true"),
            ]),
        );
        let expected = Options {
            scale_down_utilization_threshold: Some(0.42),
            scale_down_gpu_utilization_threshold: Some(0.7),
            scale_down_unneeded_time: Some(60 * MINUTE),
            scale_down_unready_time: Some(25 * MINUTE),
            ignore_daemonsets_utilization: Some(true),
            ..Options::default()
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn option_tags_of_a_scale_set_are_applied() {
        let options = Options::from_tags(
            "g",
            &mk_tags([
                ("scaledownutilizationthreshold", "0.2"),
                ("scaledowngpuutilizationthreshold", "0.3"),
                ("scaledownunneededtime", "30m"),
                ("scaledownunreadytime", "1h"),
            ]),
        );
        assert_eq!(options.scale_down_utilization_threshold, Some(0.2));
        assert_eq!(options.scale_down_gpu_utilization_threshold, Some(0.3));
        assert_eq!(options.scale_down_unneeded_time, Some(30 * MINUTE));
        assert_eq!(options.scale_down_unready_time, Some(60 * MINUTE));
    }

    #[test]
    fn the_options_that_the_in_tree_providers_do_not_read_are_applied_too() {
        let options =
            Options::from_tags("g", &mk_tags([("maxnodeprovisiontime", "20m"), ("zeroormaxnodescaling", "false")]));
        assert_eq!(options.max_node_provision_time, Some(20 * MINUTE));
        assert_eq!(options.zero_or_max_node_scaling, Some(false));
    }

    #[test]
    fn a_bad_value_leaves_the_flag_in_force_and_an_unknown_name_is_passed_over() {
        let options = Options::from_tags(
            "g",
            &mk_tags([
                ("scaledownutilizationthreshold", "not-a-float"),
                ("scaledowngpuutilizationthreshold", "NaN"),
                ("scaledownunneededtime", "not-a-duration"),
                ("scaledownunreadytime", ""),
                ("maxnodeprovisiontime", "0"),
                ("ignoredaemonsetsutilization", "not-a-bool"),
                ("scaleDownUnneededTime", "1h"),
                ("unknown", "1"),
            ]),
        );
        assert!(options.is_empty(), "{options:?}");
    }

    #[test]
    fn a_threshold_lies_between_nothing_and_everything() {
        for bad in ["-0.1", "1.01", "inf", "-inf", "nan", "", "50%"] {
            assert_eq!(parse_threshold(bad), None, "{bad}");
        }
        for (good, value) in [("0", 0.0), ("1", 1.0), (".5", 0.5), ("5e-1", 0.5)] {
            assert_eq!(parse_threshold(good), Some(value), "{good}");
        }
    }

    #[test]
    fn the_upper_options_win_where_both_speak() {
        let over = Options { scale_down_unneeded_time: Some(MINUTE), ..Options::default() };
        let under = Options {
            scale_down_unneeded_time: Some(2 * MINUTE),
            scale_down_utilization_threshold: Some(0.5),
            ..Options::default()
        };
        let merged = over.merge(&under);
        assert_eq!(merged.scale_down_unneeded_time, Some(MINUTE));
        assert_eq!(merged.scale_down_utilization_threshold, Some(0.5));
        assert_eq!(Options::default().merge(&under), under);
        assert!(Options::default().is_empty() && !over.is_empty());
    }
}
