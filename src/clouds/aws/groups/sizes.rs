//! The size and the bounds of a group, in nodes.

use aws_sdk_autoscaling::types::AutoScalingGroup;

use crate::cloud::{Counts, Instance, NodeGroupSpec};
use crate::clouds::bounds::Bounds;

/// The sizes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// The group's own min size, regardless of the configuration.
    pub(super) floor: u32,
    /// The bounds in effect.
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) desired: u32,
}

impl Sizes {
    /// The group's own sizes, in its own units.
    pub(super) fn read(group: &AutoScalingGroup) -> Result<Self, String> {
        let size = |what: &str, value: Option<i32>| {
            let value = value.ok_or_else(|| format!("no {what}"))?;
            u32::try_from(value).map_err(|_| format!("{what} {value} is negative"))
        };
        let min = size("min size", group.min_size)?;
        let max = size("max size", group.max_size)?;
        let desired = size("desired capacity", group.desired_capacity)?;
        if min > max {
            return Err(format!("min size {min} is greater than max size {max}"));
        }
        Ok(Self { floor: min, min, max, desired })
    }

    /// The sizes in nodes of `units` units each, within the bounds of the configuration. Also returns why the group
    /// cannot grow, if so.
    pub(super) fn in_nodes(
        self,
        units: u32,
        spec: Option<&NodeGroupSpec>,
        warnings: &mut Vec<String>,
    ) -> (Self, Option<String>) {
        // The desired capacity is rounded up, because the group launches until it is reached. The bounds are rounded
        // inwards, so that every capacity in nodes is valid in units.
        let floor = self.min.div_ceil(units);
        let max = self.max / units;
        let own = Self { floor, min: floor, max: max.max(floor), desired: self.desired.div_ceil(units) };
        let unfit = (max < floor).then(|| {
            format!(
                "no whole number of nodes of {units} units each is between min size {} and max size {}",
                self.min, self.max
            )
        });
        (own.within(spec, warnings), unfit)
    }

    fn within(self, spec: Option<&NodeGroupSpec>, warnings: &mut Vec<String>) -> Self {
        let Some(spec) = spec else { return self };
        let own = Bounds { min: self.min, max: self.max };
        let (Bounds { min, max }, differ) = own.within(spec, "the Auto Scaling group has");
        warnings.extend(differ);
        Self { min, max, ..self }
    }

    /// The sizes of a group whose units do not convert to nodes: its size is its number of live instances, and it
    /// cannot grow.
    pub(super) fn as_live(
        self,
        instances: &[Instance],
        spec: Option<&NodeGroupSpec>,
        why: &str,
    ) -> (Self, Option<String>) {
        let live = instances.iter().filter(|instance| instance.counts == Counts::Yes).count();
        let live = u32::try_from(live).unwrap_or(u32::MAX);
        // Any min size above 0 needs at least one node. AWS refuses a termination that would go below it.
        let min = u32::from(self.min > 0).max(spec.map_or(0, |spec| spec.min));
        (Self { floor: u32::from(self.min > 0), min, max: live.max(min), desired: live }, Some(why.to_owned()))
    }
}
