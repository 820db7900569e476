//! Launch configurations and images of groups. A launch configuration has the name of its group.

use headcount::clouds::simulated::CallKind;

use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::behavior::Launch;
use super::errors::ec2_error;
use super::router::{AwsApi, Service};
use super::xml::{ec2_answer, element, items, members, perhaps, scaling_answer, text};

/// The root device of images, launch configurations and launch templates.
pub(super) const ROOT: &str = "/dev/xvda";

impl AwsApi {
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
    pub(super) async fn types_of(
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
