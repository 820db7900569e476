//! From an Auto Scaling group as AWS describes it to a reading.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use aws_sdk_autoscaling::types::{AutoScalingGroup, TagDescription};

use super::weights::Unit;
use super::{lifecycle, tags};
use crate::cloud::{Counts, GroupReading, Instance, NodeGroupSpec, Permit};

/// A reading, and what the operator should be told about the group.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) reading: GroupReading,
    pub(super) remarks: Vec<String>,
}

/// Reads a group. `Err` says what could not be understood; nothing is made up in its place.
pub(super) fn read(group: &AutoScalingGroup, spec: Option<&NodeGroupSpec>) -> Result<Read, String> {
    let name = group.auto_scaling_group_name.as_deref().ok_or("a group without a name")?;
    let mut remarks = Vec::new();
    let mut instances = Vec::with_capacity(group.instances().len());
    for described in group.instances() {
        instances.extend(lifecycle::instance(described)?);
    }
    let unit = Unit::of(group);
    let sizes = Sizes::read(group)?;
    let (sizes, unfit) = match &unit {
        Unit::PerNode(units) => sizes.in_nodes(*units, spec, &mut remarks),
        Unit::Untranslatable(reason) => sizes.as_live(&instances, spec, reason),
    };
    let leaving = leaving(group);
    let growth = suspended(group, "Launch").or_else(|| leaving.clone()).or(unfit);
    let removal = suspended(group, "Terminate").or(leaving);
    let hints = tags::hints(group.tags().iter().filter_map(pair), &mut remarks);
    let reading = GroupReading {
        name: name.into(),
        min: sizes.min,
        max: sizes.max,
        floor: sizes.floor,
        desired: sizes.desired,
        version: unit.version(),
        growth: growth.map_or(Permit::Granted, Permit::Withheld),
        removal: removal.map_or(Permit::Granted, Permit::Withheld),
        instances: Some(instances),
        hints: Arc::new(hints),
        recipe: recipe(group),
    };
    Ok(Read { reading, remarks })
}

/// A tag's key and value.
pub(super) fn pair(tag: &TagDescription) -> Option<(&str, &str)> {
    Some((tag.key.as_deref()?, tag.value.as_deref().unwrap_or_default()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    floor: u32,
    min: u32,
    max: u32,
    desired: u32,
}

impl Sizes {
    fn read(group: &AutoScalingGroup) -> Result<Self, String> {
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

    /// Sizes in nodes of so many units, within the bounds of the configuration; and why it cannot grow, if so.
    fn in_nodes(self, units: u32, spec: Option<&NodeGroupSpec>, remarks: &mut Vec<String>) -> (Self, Option<String>) {
        // Up, because the group launches until its capacity is reached; the bounds so that what is written is in them.
        let floor = self.min.div_ceil(units);
        let max = self.max / units;
        let own = Self { floor, min: floor, max: max.max(floor), desired: self.desired.div_ceil(units) };
        let unfit = (max < floor).then(|| {
            format!(
                "no whole number of nodes of {units} units each is between min size {} and max size {}",
                self.min, self.max
            )
        });
        (own.within(spec, remarks), unfit)
    }

    fn within(self, spec: Option<&NodeGroupSpec>, remarks: &mut Vec<String>) -> Self {
        let Some(spec) = spec else { return self };
        let (min, max) = (self.min.max(spec.min), self.max.min(spec.max));
        if (spec.min, spec.max) == (self.min, self.max) {
            return self;
        }
        let differ = format!(
            "configured as {}:{}, but the Auto Scaling group itself says {}:{}",
            spec.min, spec.max, self.min, self.max
        );
        if min > max {
            remarks.push(format!("{differ}; these have nothing in common, so the group's own bounds are used"));
            return self;
        }
        remarks.push(format!("{differ}; {min}:{max} is used"));
        Self { min, max, ..self }
    }

    /// Sizes of a group whose units say nothing of nodes: it is as large as what lives in it, and stays so.
    fn as_live(self, instances: &[Instance], spec: Option<&NodeGroupSpec>, why: &str) -> (Self, Option<String>) {
        let live = instances.iter().filter(|instance| instance.counts == Counts::Yes).count();
        let live = u32::try_from(live).unwrap_or(u32::MAX);
        // Any lower bound in units needs one node at least; AWS itself refuses a removal that breaks it.
        let min = u32::from(self.min > 0).max(spec.map_or(0, |spec| spec.min));
        (Self { floor: u32::from(self.min > 0), min, max: live.max(min), desired: live }, Some(why.to_owned()))
    }
}

fn suspended(group: &AutoScalingGroup, process: &str) -> Option<String> {
    let suspended = group.suspended_processes().iter().find(|suspended| suspended.process_name() == Some(process))?;
    let because = suspended.suspension_reason().filter(|reason| !reason.is_empty());
    let because = because.map(|reason| format!(" ({reason})")).unwrap_or_default();
    Some(format!(
        "the group's {process} process is suspended{because}; resume it with: aws autoscaling resume-processes \
         --auto-scaling-group-name {} --scaling-processes {process}",
        group.auto_scaling_group_name().unwrap_or_default()
    ))
}

fn leaving(group: &AutoScalingGroup) -> Option<String> {
    let status = group.status().filter(|status| status.to_ascii_lowercase().contains("delete"))?;
    Some(format!("the group is being deleted (status {status:?})"))
}

/// A number that changes with whatever a new machine is made from, and with nothing else.
pub(super) fn recipe(group: &AutoScalingGroup) -> u64 {
    let mut hasher = DefaultHasher::new();
    let sorted = |texts: &[String]| {
        let mut texts = texts.to_vec();
        texts.sort();
        texts
    };
    group.launch_configuration_name.hash(&mut hasher);
    format!("{:?}", group.launch_template).hash(&mut hasher);
    let template = group.mixed_instances_policy.as_ref().and_then(|policy| policy.launch_template.as_ref());
    format!("{template:?}").hash(&mut hasher);
    sorted(group.availability_zones()).hash(&mut hasher);
    group.vpc_zone_identifier.hash(&mut hasher);
    let mut shaping: Vec<_> = group.tags().iter().filter_map(pair).filter(|(key, _)| tags::shapes_nodes(key)).collect();
    shaping.sort_unstable();
    shaping.hash(&mut hasher);
    hasher.finish()
}
