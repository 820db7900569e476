//! Launch templates, launch configurations and images of groups. They have the name of the group.

use headcount::clouds::simulated::CallKind;

use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::behavior::{GroupDetails, Launch};
use super::errors::ec2_error;
use super::router::{AwsApi, Service};
use super::xml::{ec2_answer, element, items, members, perhaps, scaling_answer, text};

const ROOT: &str = "/dev/xvda";

impl AwsApi {
    pub(super) async fn describe_launch_template_versions(&self, request: &Request) -> HandlerResult {
        let name =
            request.field("LaunchTemplateName").or_else(|| request.field("LaunchTemplateId")).unwrap_or_default();
        let types = self.types_of(Service::Ec2, &name).await?;
        let details = self.group_details(&name);
        let Some(types) = types.filter(|_| details.launch == Launch::Template) else {
            let message = format!("The specified launch template, with template name {name}, does not exist.");
            return Ok(ec2_error(400, "InvalidLaunchTemplateName.NotFoundException", &message));
        };
        let version = [
            text("launchTemplateId", "lt-0123456789abcdef0"),
            text("launchTemplateName", &name),
            text("versionNumber", 1),
            text("defaultVersion", true),
            element("launchTemplateData", data(&types, &details)),
        ];
        let result = items("launchTemplateVersionSet", [version.concat()]);
        Ok(HttpResponse::xml(200, ec2_answer("DescribeLaunchTemplateVersions", result)))
    }

    pub(super) async fn describe_launch_configurations(&self, request: &Request) -> HandlerResult {
        let names = request.fields("LaunchConfigurationNames.member");
        let mut found = Vec::new();
        for name in names {
            let details = self.group_details(&name);
            let types = self.types_of(Service::AutoScaling, &name).await?;
            let Some(types) = types.filter(|_| details.launch == Launch::Configuration) else { continue };
            let disk = text("DeviceName", ROOT) + &element("Ebs", text("VolumeSize", details.disk_gib));
            found.push(
                [
                    text("LaunchConfigurationName", &name),
                    text("ImageId", &details.image),
                    text("UserData", aws_smithy_types::base64::encode(&details.user_data)),
                    text("InstanceType", types.first().map_or("", String::as_str)),
                    members("BlockDeviceMappings", [disk]),
                    text("CreatedTime", "2026-01-01T00:00:00Z"),
                ]
                .concat(),
            );
        }
        let result = members("LaunchConfigurations", found);
        Ok(HttpResponse::xml(200, scaling_answer("DescribeLaunchConfigurations", result)))
    }

    pub(super) async fn describe_images(&self, request: &Request) -> HandlerResult {
        let ids = request.fields("ImageId");
        self.call(Service::Ec2, CallKind::LaunchSpec, None, ids.join(" "), |_, _| ()).await?;
        if let Some(id) = ids.iter().find(|id| id.ends_with("missing")) {
            let message = format!("The image id '[{id}]' does not exist");
            return Ok(ec2_error(400, "InvalidAMIID.NotFound", &message));
        }
        let group_details = self.all_group_details();
        let image = |id: &String| {
            let of_image = group_details.iter().find(|details| details.image == *id);
            let name = of_image.map_or("", |details| &details.image_name);
            let platform = of_image.and_then(|details| details.platform.as_ref());
            let disk = text("deviceName", ROOT) + &element("ebs", text("volumeSize", 8));
            [
                text("imageId", id),
                text("name", name),
                text("imageState", "available"),
                perhaps("platform", platform),
                text("architecture", if id.contains("arm") { "arm64" } else { "x86_64" }),
                text("virtualizationType", "hvm"),
                text("rootDeviceType", "ebs"),
                text("rootDeviceName", ROOT),
                items("blockDeviceMapping", [disk]),
            ]
            .concat()
        };
        Ok(HttpResponse::xml(200, ec2_answer("DescribeImages", items("imagesSet", ids.iter().map(image)))))
    }

    /// The instance types of the group of that name.
    async fn types_of(
        &self,
        service: Service,
        name: &str,
    ) -> Result<Option<Vec<String>>, super::super::http_messages::Interruption> {
        self.call(service, CallKind::LaunchSpec, Some(name), String::new(), |world, _| {
            world.group(name).map(|group| group.plan().instance_types.clone())
        })
        .await
    }
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
