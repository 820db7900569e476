//! DescribeLaunchTemplates and DescribeLaunchTemplateVersions. A launch template has the name of its group. It gets a
//! new version, which is the default one as well, whenever the group's launch details have changed.

use std::hash::{DefaultHasher, Hash, Hasher};

use headcount::clouds::simulated::{CallKind, World};

use super::super::core::lock;
use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::behavior::{GroupDetails, Launch};
use super::errors::ec2_error;
use super::launch::ROOT;
use super::router::{AwsApi, Service};
use super::xml::{ec2_answer, element, items, perhaps, text};

/// The most launch templates on a page.
const PAGE: usize = 200;

/// The ID of the launch template of a group.
pub(crate) fn template_id(group: &str) -> String {
    let mut hasher = DefaultHasher::new();
    group.hash(&mut hasher);
    format!("lt-0{:016x}", hasher.finish())
}

impl AwsApi {
    /// Fails if one of the launch templates does not exist.
    pub(super) async fn describe_launch_templates(&self, request: &Request) -> HandlerResult {
        let ids = request.fields("LaunchTemplateId");
        let groups = self.call(Service::Ec2, CallKind::LaunchSpec, None, ids.join(" "), |world, _| {
            let groups = world.groups().map(|group| (group.name().to_owned(), group.plan().instance_types.clone()));
            groups.collect::<Vec<_>>()
        });
        let mut groups = groups.await?;
        groups.retain(|(name, _)| self.group_details(name).launch == Launch::Template);
        if let Some(id) = ids.iter().find(|id| !groups.iter().any(|(name, _)| template_id(name) == **id)) {
            return Ok(no_template(id));
        }
        groups.retain(|(name, _)| ids.is_empty() || ids.contains(&template_id(name)));
        let described = groups.iter().map(|(name, types)| {
            let latest = self.versions(name, types).len();
            [
                text("launchTemplateId", template_id(name)),
                text("launchTemplateName", name),
                text("createTime", "2026-01-01T00:00:00Z"),
                text("defaultVersionNumber", latest),
                text("latestVersionNumber", latest),
            ]
            .concat()
        });
        let (page, next) = self.page(request, "MaxResults", PAGE, described.collect());
        let result = items("launchTemplates", page) + &perhaps("nextToken", next);
        Ok(HttpResponse::xml(200, ec2_answer("DescribeLaunchTemplates", result)))
    }

    pub(super) async fn describe_launch_template_versions(&self, request: &Request) -> HandlerResult {
        let (id, name) = (request.field("LaunchTemplateId"), request.field("LaunchTemplateName"));
        let is_wanted = |group: &str| match &id {
            Some(id) => template_id(group) == *id,
            None => name.as_deref() == Some(group),
        };
        let of = |world: &World| {
            let group = world.groups().find(|group| is_wanted(group.name()))?;
            Some((group.name().to_owned(), group.plan().instance_types.clone()))
        };
        let found = self.core.simulated.world(|world, _| of(world));
        let group = found.as_ref().map(|(name, _)| name.as_str());
        self.call(Service::Ec2, CallKind::LaunchSpec, group, String::new(), |_, _| ()).await?;
        let found = found.filter(|(name, _)| self.group_details(name).launch == Launch::Template);
        let Some((name, types)) = found else {
            return Ok(match id {
                Some(id) => no_template(&id),
                None => no_template_named(&name.unwrap_or_default()),
            });
        };
        let versions = self.versions(&name, &types);
        let wanted = request.fields("LaunchTemplateVersion");
        let latest = versions.len();
        let number = |version: &String| match version.as_str() {
            "$Default" | "$Latest" => Some(latest),
            number => number.parse::<usize>().ok().filter(|number| (1..=latest).contains(number)),
        };
        let Some(numbers) = wanted.iter().map(number).collect::<Option<Vec<usize>>>() else {
            let message = format!("Could not find the specified version {wanted:?} for the launch template {name}.");
            return Ok(ec2_error(400, "InvalidLaunchTemplateId.VersionNotFound", &message));
        };
        let described = numbers.into_iter().map(|number| {
            [
                text("launchTemplateId", template_id(&name)),
                text("launchTemplateName", &name),
                text("versionNumber", number),
                text("defaultVersion", number == latest),
                element("launchTemplateData", &versions[number - 1]),
            ]
            .concat()
        });
        let result = items("launchTemplateVersionSet", described);
        Ok(HttpResponse::xml(200, ec2_answer("DescribeLaunchTemplateVersions", result)))
    }

    /// The data of all versions of a group's launch template.
    fn versions(&self, group: &str, types: &[String]) -> Vec<String> {
        let data = data(types, &self.group_details(group));
        let mut all = lock(&self.template_versions);
        let versions = all.entry(group.to_owned()).or_default();
        if versions.last() != Some(&data) {
            versions.push(data);
        }
        versions.clone()
    }
}

fn no_template(id: &str) -> HttpResponse {
    let message = format!("The specified launch template, with template ID {id}, does not exist.");
    ec2_error(400, "InvalidLaunchTemplateId.NotFound", &message)
}

fn no_template_named(name: &str) -> HttpResponse {
    let message = format!("The specified launch template, with template name {name}, does not exist.");
    ec2_error(400, "InvalidLaunchTemplateName.NotFoundException", &message)
}

fn data(types: &[String], details: &GroupDetails) -> String {
    let disk = text("deviceName", ROOT) + &element("ebs", text("volumeSize", details.disk_gib));
    let made_of = match details.requirements {
        Some(wanted) => {
            let cpus = text("min", wanted.cpus_min) + &text("max", wanted.cpus_max);
            let memory = element("memoryMiB", text("min", wanted.memory_mib_min));
            element("instanceRequirements", element("vCpuCount", cpus) + &memory)
        }
        None => text("instanceType", types.first().map_or("", String::as_str)),
    };
    let user_data = aws_smithy_types::base64::encode(&details.user_data);
    let interface = |index: u32| text("deviceIndex", index) + &text("interfaceType", "efa");
    let options = details
        .cpu_options
        .map(|(cores, threads)| element("cpuOptions", text("coreCount", cores) + &text("threadsPerCore", threads)));
    [
        made_of,
        text("imageId", &details.image),
        items("blockDeviceMappingSet", [disk]),
        perhaps("userData", Some(user_data).filter(|encoded| !encoded.is_empty())),
        items("networkInterfaceSet", (0..details.efa_interfaces).map(interface)),
        options.unwrap_or_default(),
    ]
    .concat()
}
