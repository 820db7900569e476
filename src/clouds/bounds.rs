//! How few and how many nodes a group may have, where both the configuration and the group itself say so.

use crate::cloud::NodeGroupSpec;

/// The least and the greatest number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) min: u32,
    pub(super) max: u32,
}

impl Bounds {
    /// The group's own bounds within those of the configuration, and what to tell the operator where the two differ. `own`
    /// says whose the group's own are, as in "the tags of the scale set say".
    pub(super) fn within(self, spec: &NodeGroupSpec, own: &str) -> (Self, Option<String>) {
        let Self { min, max } = self;
        if (spec.min, spec.max) == (min, max) {
            return (self, None);
        }
        let differ = format!("configured as {}:{}, but {own} {min}:{max}", spec.min, spec.max);
        let (min, max) = (min.max(spec.min), max.min(spec.max));
        if min > max {
            let warning = format!("{differ}; these have nothing in common, so the group's own bounds are used");
            return (self, Some(warning));
        }
        (Self { min, max }, Some(format!("{differ}; {min}:{max} is used")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_allow_is_allowed_and_a_difference_is_told() {
        let within = |own: (u32, u32), spec: &str| {
            let own = Bounds { min: own.0, max: own.1 };
            let (bounds, warning) = own.within(&spec.parse().expect("a good spec"), "its tags say");
            (bounds.min, bounds.max, warning)
        };
        assert_eq!(within((1, 10), "1:10:pool"), (1, 10, None));
        let (min, max, warning) = within((2, 10), "1:5:pool");
        assert_eq!((min, max), (2, 5));
        assert_eq!(warning.as_deref(), Some("configured as 1:5, but its tags say 2:10; 2:5 is used"));
        let (min, max, warning) = within((6, 10), "1:5:pool");
        assert_eq!((min, max), (6, 10));
        assert!(warning.is_some_and(|warning| warning.contains("nothing in common")));
    }
}
