//! DescribeAutoScalingGroups.

use headcount::cloud::Permit;
use headcount::clouds::simulated::{CallKind, Phase};

use super::super::core::ReadScope;
use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::super::shown::{ShownGroup, ShownInstance};
use super::behavior::{GroupDetails, Launch, Override, Requirements};
use super::launch_templates::template_id;
use super::router::{AwsApi, Service};
use super::xml::{element, members, perhaps, scaling_answer, text};

impl AwsApi {
    /// A request for one group by name is an observation; everything else is a listing.
    pub(super) async fn describe_groups(&self, request: &Request) -> HandlerResult {
        let names = request.fields("AutoScalingGroupNames.member");
        let filters = filters(request);
        let (kind, group) = match names.as_slice() {
            [one] => (CallKind::Observe, Some(one.as_str())),
            _ => (CallKind::List, None),
        };
        let wanted = |group: &ShownGroup| {
            (names.is_empty() || names.iter().any(|name| name == group.name()))
                && filters.iter().all(|(key, values)| passes(group, key, values))
        };
        let all = self.call(Service::AutoScaling, kind, group, names.join(" "), |world, _| {
            world.groups().map(ShownGroup::of).collect::<Vec<_>>()
        });
        let mut shown = Vec::new();
        for group in all.await?.into_iter().filter(wanted) {
            let name = group.name().to_owned();
            let details = self.group_details(&name);
            match self.core.apply_read_fault(kind, ReadScope::Whole, Some(group.clone()), &name) {
                Ok(Some(group)) => shown.push(described(&group, &details)),
                Ok(None) => {}
                Err(_) => shown.push(described(&group, &GroupDetails { undecodable: true, ..details })),
            }
        }
        let (page, next) = self.page(request, "MaxRecords", 50, shown);
        let result = members("AutoScalingGroups", page) + &perhaps("NextToken", next);
        Ok(HttpResponse::xml(200, scaling_answer("DescribeAutoScalingGroups", result)))
    }

    /// The requested page of a list, and the token of the next one.
    pub(super) fn page(
        &self,
        request: &Request,
        size: &str,
        usual: usize,
        items: Vec<String>,
    ) -> (Vec<String>, Option<String>) {
        let number = |field: &str| request.field(field).and_then(|text| text.parse::<usize>().ok());
        let size = number(size).unwrap_or(usual).min(self.behavior().page).max(1);
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

fn passes(group: &ShownGroup, filter: &str, values: &[String]) -> bool {
    let tags = &group.plan.tags;
    match (filter, filter.strip_prefix("tag:")) {
        ("tag-key", _) => values.iter().any(|key| tags.contains_key(key)),
        ("tag-value", _) => values.iter().any(|value| tags.values().any(|known| known == value)),
        (_, Some(key)) => tags.get(key).is_some_and(|known| values.contains(known)),
        _ => false,
    }
}

fn described(group: &ShownGroup, details: &GroupDetails) -> String {
    let units = |nodes: u32| nodes.saturating_mul(group.plan.units_per_node);
    let name = group.name();
    let tags = group.plan.tags.iter().map(|(key, value)| {
        let of = text("ResourceId", name) + &text("ResourceType", "auto-scaling-group");
        of + &text("Key", key) + &text("Value", value) + &text("PropagateAtLaunch", true)
    });
    let others = details.others.iter().map(|(id, lifecycle)| {
        let instance = ShownInstance {
            id: id.clone(),
            zone: group.plan.zones.first().cloned().unwrap_or_default(),
            instance_type: group.plan.instance_types.first().cloned().unwrap_or_default(),
            phase: Phase::Running,
            since: std::time::Duration::ZERO,
            failure: None,
        };
        describe_instance(group, &instance, lifecycle)
    });
    let instances =
        group.instances.iter().map(|instance| describe_instance(group, instance, lifecycle(instance.phase, details)));
    [
        text("AutoScalingGroupName", name),
        text("AutoScalingGroupARN", arn(group)),
        text("MinSize", units(group.plan.min)),
        text("MaxSize", units(group.plan.max)),
        if details.undecodable { String::new() } else { text("DesiredCapacity", units(group.capacity)) },
        perhaps("DesiredCapacityType", details.capacity_type.as_ref()),
        text("DefaultCooldown", 300),
        members("AvailabilityZones", group.plan.zones.iter().map(|zone| zone.to_owned())),
        text("HealthCheckType", "EC2"),
        text("CreatedTime", format!("2026-01-01T00:00:{:02}Z", group.generation % 60)),
        members("SuspendedProcesses", suspended(group, details)),
        members("Instances", instances.chain(others)),
        members("Tags", tags),
        perhaps("Status", details.status.as_ref()),
        launch(group, details),
        details.settings.clone(),
        impairment_policy(details),
    ]
    .concat()
}

fn impairment_policy(details: &GroupDetails) -> String {
    let content = text("ZonalShiftEnabled", true) + &text("ImpairedZoneHealthCheckBehavior", "IgnoreUnhealthy");
    details.shifted.as_ref().map(|_| element("AvailabilityZoneImpairmentPolicy", content)).unwrap_or_default()
}

fn describe_instance(group: &ShownGroup, instance: &ShownInstance, lifecycle: &str) -> String {
    [
        text("InstanceId", &instance.id),
        text("InstanceType", &instance.instance_type),
        text("AvailabilityZone", &instance.zone),
        text("LifecycleState", lifecycle),
        text("HealthStatus", "Healthy"),
        text("ProtectedFromScaleIn", group.plan.is_protected),
        perhaps("WeightedCapacity", weight(group)),
    ]
    .concat()
}

/// The weight of each instance, where the group's instances are weighted.
fn weight(group: &ShownGroup) -> Option<u32> {
    Some(group.plan.units_per_node).filter(|units| *units > 1)
}

fn lifecycle(phase: Phase, details: &GroupDetails) -> &str {
    let other = details.lifecycles.iter().find(|(of, _)| *of == phase).map(|(_, text)| text.as_str());
    other.unwrap_or(match phase {
        Phase::Requested | Phase::Creating | Phase::Broken => "Pending",
        Phase::Running => "InService",
        Phase::Standby => "Standby",
        Phase::Deleting => "Terminating",
    })
}

fn suspended(group: &ShownGroup, details: &GroupDetails) -> Vec<String> {
    let withheld = [("Launch", &group.plan.growth), ("Terminate", &group.plan.removal)];
    let withheld = withheld.into_iter().filter_map(|(process, permit)| match permit {
        Permit::Withheld(reason) => Some((process, reason.as_str())),
        Permit::Granted => None,
    });
    let others = details.suspended.iter().map(|process| (process.as_str(), "User suspended at 2026-01-01T00:00:00Z"));
    withheld
        .chain(others)
        .map(|(process, reason)| text("ProcessName", process) + &text("SuspensionReason", reason))
        .collect()
}

fn launch(group: &ShownGroup, details: &GroupDetails) -> String {
    let name = group.name();
    let template = [
        text("LaunchTemplateId", template_id(name)),
        text("LaunchTemplateName", name),
        text("Version", &details.version),
    ];
    let template = template.concat();
    let mut overrides: Vec<Override> = details.overrides.clone();
    let weight = weight(group).map(|units| units.to_string());
    if overrides.is_empty() && (group.plan.instance_types.len() > 1 || weight.is_some()) {
        let of = |name: &String| Override {
            instance_type: Some(name.clone()),
            weight: weight.clone(),
            ..Override::default()
        };
        overrides = group.plan.instance_types.iter().map(of).collect();
    }
    match details.launch {
        Launch::Nothing => String::new(),
        Launch::Configuration => text("LaunchConfigurationName", name),
        _ if overrides.is_empty() && details.on_demand.is_none() => element("LaunchTemplate", template),
        _ => {
            let overrides = members("Overrides", overrides.iter().map(overriding));
            let template = element("LaunchTemplateSpecification", template) + &overrides;
            let share = details.on_demand.map(|percent| text("OnDemandPercentageAboveBaseCapacity", percent));
            let distribution = share.map(|share| element("InstancesDistribution", share)).unwrap_or_default();
            element("MixedInstancesPolicy", element("LaunchTemplate", template) + &distribution)
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

/// A group that is created again under its name has another ARN.
fn arn(group: &ShownGroup) -> String {
    let (id, name) = (group.generation, group.name());
    format!("arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:{id:08x}-7c1d-4b5e-a2f0-9d3e6c8b1a47:{name}")
}
