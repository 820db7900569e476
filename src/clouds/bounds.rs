//! The bounds of a group's size, from the configuration and from the group itself.

use crate::cloud::NodeGroupSpec;

/// The minimum and the maximum number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) min: u32,
    pub(super) max: u32,
}

impl Bounds {
    /// The bounds of the configuration within the group's own, and a warning if the two differ. `own` introduces the
    /// group's bounds in the warning, as in "the tags of the scale set say".
    pub(super) fn within(self, spec: &NodeGroupSpec, own: &str) -> (Self, Option<String>) {
        let Self { min, max } = self;
        if (spec.min, spec.max) == (min, max) {
            return (self, None);
        }
        let differ = format!("configured as {}:{}, but {own} {min}:{max}", spec.min, spec.max);
        // If the two ranges do not overlap, both bounds are the group's own bound that is nearest to the configuration.
        let (min, max) = (spec.min.clamp(min, max), spec.max.clamp(min, max));
        let apart = if self.overlaps(spec) { "" } else { "these bounds do not overlap, so " };
        (Self { min, max }, Some(format!("{differ}; {apart}{min}:{max} is used")))
    }

    /// Whether there is a size that the group and the configuration both allow.
    pub(super) fn overlaps(self, spec: &NodeGroupSpec) -> bool {
        self.min <= spec.max && spec.min <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_that_both_allow_and_a_difference_gives_a_warning() {
        let within = |own: (u32, u32), spec: &str| {
            let own = Bounds { min: own.0, max: own.1 };
            let (bounds, warning) = own.within(&spec.parse().expect("a good spec"), "its tags say");
            (bounds.min, bounds.max, warning)
        };
        assert_eq!(within((1, 10), "1:10:pool"), (1, 10, None));
        let (min, max, warning) = within((2, 10), "1:5:pool");
        assert_eq!((min, max), (2, 5));
        assert_eq!(warning.as_deref(), Some("configured as 1:5, but its tags say 2:10; 2:5 is used"));
        for (spec, only) in [("1:5:pool", 6), ("0:0:pool", 6), ("11:20:pool", 10)] {
            let (min, max, warning) = within((6, 10), spec);
            assert_eq!((min, max), (only, only), "{spec}: it does not grow past what is configured");
            assert!(warning.is_some_and(|warning| warning.contains("do not overlap")));
        }
    }
}
