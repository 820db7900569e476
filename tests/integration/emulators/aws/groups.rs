//! DescribeAutoScalingGroups.

use headcount::cloud::Permit;
use headcount::clouds::simulated::{CallKind, Phase};

use super::super::backstage::Part;
use super::super::exchange::{Answer, Outcome, Request};
use super::super::sight::{Seen, Sight};
use super::front::{Counter, Service};
use super::habits::{Launch, Look, Override, Requirements};
use super::xml::{element, members, perhaps, scaling_answer, text};

impl Counter {
    /// One group asked for by name is an observation; everything else is a listing.
    pub(super) async fn describe_groups(&self, request: &Request) -> Outcome {
        let names = request.fields("AutoScalingGroupNames.member");
        let filters = filters(request);
        let (kind, group) = match names.as_slice() {
            [one] => (CallKind::Observe, Some(one.as_str())),
            _ => (CallKind::List, None),
        };
        let wanted = |sight: &Sight| {
            (names.is_empty() || names.iter().any(|name| name == sight.name()))
                && filters.iter().all(|(key, values)| passes(sight, key, values))
        };
        let all = self.call(Service::AutoScaling, kind, group, names.join(" "), |world, _| {
            world.groups().map(Sight::of).collect::<Vec<_>>()
        });
        let mut shown = Vec::new();
        for sight in all.await?.into_iter().filter(wanted) {
            let name = sight.name().to_owned();
            let look = self.look(&name);
            match self.backstage.distort(kind, Part::Whole, Some(sight.clone()), &name) {
                Ok(Some(sight)) => shown.push(described(&sight, &look)),
                Ok(None) => {}
                Err(_) => shown.push(described(&sight, &Look { undecodable: true, ..look })),
            }
        }
        let (page, next) = self.page(request, "MaxRecords", 50, shown);
        let result = members("AutoScalingGroups", page) + &perhaps("NextToken", next);
        Ok(Answer::xml(200, scaling_answer("DescribeAutoScalingGroups", result)))
    }

    /// The page of a list that a request asks for, and the token of the next one.
    pub(super) fn page(
        &self,
        request: &Request,
        size: &str,
        usual: usize,
        items: Vec<String>,
    ) -> (Vec<String>, Option<String>) {
        let number = |field: &str| request.field(field).and_then(|text| text.parse::<usize>().ok());
        let size = number(size).unwrap_or(usual).min(self.habits().page).max(1);
        let from = number("NextToken").unwrap_or(0);
        let next = (from + size < items.len()).then(|| (from + size).to_string());
        (items.into_iter().skip(from).take(size).collect(), next)
    }
}

fn filters(request: &Request) -> Vec<(String, Vec<String>)> {
    let of = |number: usize| {
        let name = request.field(&format!("Filters.member.{number}.Name"))?;
        Some((name, request.fields(&format!("Filters.member.{number}.Values.member"))))
    };
    (1..).map_while(of).collect()
}

fn passes(sight: &Sight, filter: &str, values: &[String]) -> bool {
    let tags = &sight.plan.tags;
    match (filter, filter.strip_prefix("tag:")) {
        ("tag-key", _) => values.iter().any(|key| tags.contains_key(key)),
        ("tag-value", _) => values.iter().any(|value| tags.values().any(|known| known == value)),
        (_, Some(key)) => tags.get(key).is_some_and(|known| values.contains(known)),
        _ => false,
    }
}

fn described(sight: &Sight, look: &Look) -> String {
    let units = |nodes: u32| nodes.saturating_mul(sight.plan.units_per_node);
    let name = sight.name();
    let tags = sight.plan.tags.iter().map(|(key, value)| {
        let of = text("ResourceId", name) + &text("ResourceType", "auto-scaling-group");
        of + &text("Key", key) + &text("Value", value) + &text("PropagateAtLaunch", true)
    });
    let weight = weight(sight);
    let others = look.others.iter().map(|(id, lifecycle)| {
        let seen = Seen {
            id: id.clone(),
            zone: sight.plan.zones.first().cloned().unwrap_or_default(),
            instance_type: sight.plan.instance_types.first().cloned().unwrap_or_default(),
            phase: Phase::Running,
            since: std::time::Duration::ZERO,
            failure: None,
        };
        instance(&seen, lifecycle, weight)
    });
    let instances = sight.instances.iter().map(|seen| instance(seen, lifecycle(seen.phase, look), weight));
    [
        text("AutoScalingGroupName", name),
        text("AutoScalingGroupARN", format!("arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:x:{name}")),
        text("MinSize", units(sight.plan.min)),
        text("MaxSize", units(sight.plan.max)),
        if look.undecodable { String::new() } else { text("DesiredCapacity", units(sight.capacity)) },
        perhaps("DesiredCapacityType", look.capacity_type.as_ref()),
        text("DefaultCooldown", 300),
        members("AvailabilityZones", sight.plan.zones.iter().map(|zone| zone.to_owned())),
        text("HealthCheckType", "EC2"),
        text("CreatedTime", "2026-01-01T00:00:00Z"),
        members("SuspendedProcesses", suspended(sight, look)),
        members("Instances", instances.chain(others)),
        members("Tags", tags),
        perhaps("Status", look.status.as_ref()),
        launch(sight, look),
    ]
    .concat()
}

fn instance(seen: &Seen, lifecycle: &str, weight: Option<u32>) -> String {
    [
        text("InstanceId", &seen.id),
        text("InstanceType", &seen.instance_type),
        text("AvailabilityZone", &seen.zone),
        text("LifecycleState", lifecycle),
        text("HealthStatus", "Healthy"),
        text("ProtectedFromScaleIn", false),
        perhaps("WeightedCapacity", weight),
    ]
    .concat()
}

/// The weight of each instance, where the group's instances are weighted.
fn weight(sight: &Sight) -> Option<u32> {
    Some(sight.plan.units_per_node).filter(|units| *units > 1)
}

fn lifecycle(phase: Phase, look: &Look) -> &str {
    let other = look.lifecycles.iter().find(|(of, _)| *of == phase).map(|(_, text)| text.as_str());
    other.unwrap_or(match phase {
        Phase::Requested | Phase::Creating | Phase::Broken => "Pending",
        Phase::Running => "InService",
        Phase::Standby => "Standby",
        Phase::Deleting => "Terminating",
    })
}

fn suspended(sight: &Sight, look: &Look) -> Vec<String> {
    let withheld = [("Launch", &sight.plan.growth), ("Terminate", &sight.plan.removal)];
    let withheld = withheld.into_iter().filter_map(|(process, permit)| match permit {
        Permit::Withheld(reason) => Some((process, reason.as_str())),
        Permit::Granted => None,
    });
    let others = look.suspended.iter().map(|process| (process.as_str(), "User suspended at 2026-01-01T00:00:00Z"));
    withheld
        .chain(others)
        .map(|(process, reason)| text("ProcessName", process) + &text("SuspensionReason", reason))
        .collect()
}

fn launch(sight: &Sight, look: &Look) -> String {
    let name = sight.name();
    let template = text("LaunchTemplateName", name) + &text("Version", "$Latest");
    let mut overrides: Vec<Override> = look.overrides.clone();
    let weight = weight(sight).map(|units| units.to_string());
    if overrides.is_empty() && (sight.plan.instance_types.len() > 1 || weight.is_some()) {
        let of = |name: &String| Override {
            instance_type: Some(name.clone()),
            weight: weight.clone(),
            ..Override::default()
        };
        overrides = sight.plan.instance_types.iter().map(of).collect();
    }
    match look.launch {
        Launch::Nothing => String::new(),
        Launch::Configuration => text("LaunchConfigurationName", name),
        _ if overrides.is_empty() => element("LaunchTemplate", template),
        _ => {
            let overrides = members("Overrides", overrides.iter().map(overriding));
            let template = element("LaunchTemplateSpecification", template) + &overrides;
            element("MixedInstancesPolicy", element("LaunchTemplate", template))
        }
    }
}

fn overriding(over: &Override) -> String {
    let requirements = |wanted: Requirements| {
        let cpus = text("Min", wanted.cpus_min) + &text("Max", wanted.cpus_max);
        let memory = element("MemoryMiB", text("Min", wanted.memory_mib_min));
        element("InstanceRequirements", element("VCpuCount", cpus) + &memory)
    };
    [
        perhaps("InstanceType", over.instance_type.as_ref()),
        perhaps("WeightedCapacity", over.weight.as_ref()),
        over.requirements.map(requirements).unwrap_or_default(),
    ]
    .concat()
}
