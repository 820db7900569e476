//! Machine images, and the volume that holds the pods' ephemeral storage.

use aws_sdk_autoscaling::types::BlockDeviceMapping as ConfigurationMapping;
use aws_sdk_ec2::types::{ArchitectureType, Image, LaunchTemplateBlockDeviceMapping, VirtualizationType};

use crate::cloud::{ImageEvidence, ImageFamily, NodeImage};
use crate::clouds::windows::build_of_image;

/// The root devices of Amazon Linux, and of Ubuntu and Windows.
const ROOTS: [&str; 2] = ["/dev/xvda", "/dev/sda1"];
/// The data device of Bottlerocket. Its root device holds only the system.
const BOTTLEROCKET_DATA: &str = "/dev/xvdb";

/// A volume of a launch template, a launch configuration or an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// The device's name.
    pub(super) device: String,
    /// Its size, if the description has one.
    pub(super) gib: Option<u64>,
}

/// What launch specs need to know about a machine image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageDetails {
    pub(super) architecture: ArchitectureType,
    pub(super) virtualization: VirtualizationType,
    pub(super) windows: bool,
    pub(super) bottlerocket: bool,
    /// Its family and how that is known, if its name or alias shows it.
    pub(super) image: Option<NodeImage>,
    /// The build of Windows that the kubelet labels its node with, if its name or alias shows it.
    pub(super) windows_build: Option<&'static str>,
    /// Whether it is made for EKS, so that its nodes reserve resources as EKS does.
    pub(super) eks: bool,
    /// Whether its kubelet labels nodes with NVIDIA GPUs.
    pub(super) labels_gpus: bool,
    pub(super) root: Option<String>,
    pub(super) volumes: Vec<Volume>,
}

impl From<&Image> for ImageDetails {
    fn from(image: &Image) -> Self {
        let architecture = image.architecture.as_ref().map_or("x86_64", |architecture| architecture.as_str());
        let virtualization = image.virtualization_type.clone().unwrap_or(VirtualizationType::Hvm);
        let volumes = image.block_device_mappings().iter().filter_map(|mapping| {
            volume(mapping.device_name.as_deref(), mapping.ebs.as_ref().map(|ebs| ebs.volume_size))
        });
        Self {
            architecture: ArchitectureType::from(architecture),
            virtualization,
            // EC2 sends `windows`. The SDK knows only `Windows`.
            windows: image.platform.as_ref().is_some_and(|platform| platform.as_str().eq_ignore_ascii_case("windows")),
            bottlerocket: image.name().is_some_and(is_bottlerocket),
            image: image.name().and_then(|name| node_image(name, ImageEvidence::Name)),
            windows_build: image.name().and_then(build_of_image),
            eks: image.name().is_some_and(is_of_eks),
            labels_gpus: image.name().is_some_and(labels_gpus),
            root: image.root_device_name.clone(),
            volumes: volumes.collect(),
        }
    }
}

impl ImageDetails {
    /// What the alias of a public parameter says about its image, which only a launch resolves:
    /// `resolve:ssm:/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id`. `None`
    /// where it does not name the architecture.
    pub(super) fn from_alias(alias: &str) -> Option<Self> {
        let path = alias.strip_prefix("resolve:ssm:/aws/service/")?.to_ascii_lowercase();
        let windows = path.contains("windows");
        let architecture = match path.contains("arm64") {
            true => ArchitectureType::Arm64,
            false if windows || path.contains("x86_64") => ArchitectureType::X8664,
            false => return None,
        };
        let (bottlerocket, eks) = (is_bottlerocket(&path), is_of_eks(&path));
        let virtualization = VirtualizationType::Hvm;
        Some(Self {
            architecture,
            virtualization,
            windows,
            bottlerocket,
            image: node_image(&path, ImageEvidence::Alias),
            windows_build: build_of_image(&path),
            eks,
            labels_gpus: labels_gpus(&path),
            root: None,
            volumes: Vec::new(),
        })
    }
}

/// The family of an image by its name or alias. An ID and an alias of the user's own say nothing.
pub(super) fn node_image(name: &str, evidence: ImageEvidence) -> Option<NodeImage> {
    ImageFamily::of_name(name).map(|family| NodeImage { family, evidence })
}

/// Whether an image's name, alias or type is Bottlerocket's.
pub(super) fn is_bottlerocket(name: &str) -> bool {
    name.to_ascii_lowercase().contains("bottlerocket")
}

/// Whether the name or alias of an image is that of one made for EKS: `amazon-eks-node-…`, `ubuntu-eks/…`,
/// `Windows_Server-…-EKS_Optimized-…`, `bottlerocket-aws-k8s-…`, `resolve:ssm:/aws/service/eks/…`.
pub(super) fn is_of_eks(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_bottlerocket = is_bottlerocket(&name) && name.contains("aws-k8s-");
    is_bottlerocket || name.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| word == "eks")
}

/// Whether the image with this name or alias labels nodes with NVIDIA GPUs `nvidia.com/gpu.present`: nodeadm does from
/// Kubernetes 1.35 on (its api-concepts.md), in images released since (awslabs/amazon-eks-ami#2607).
fn labels_gpus(name: &str) -> bool {
    const MINOR: u32 = 35;
    const RELEASE: u32 = 20_260_209;
    let name = name.to_ascii_lowercase();
    let is_of_nodeadm = ["amazon-eks-node-al2023-", "/eks/optimized-ami/"].iter().any(|part| name.contains(part));
    let parts = || name.split(['-', '/']);
    let minor = parts().find_map(|part| part.strip_prefix("1.")?.parse::<u32>().ok());
    let release = parts().filter(|part| part.len() == 9).find_map(|part| part.strip_prefix('v')?.parse::<u32>().ok());
    is_of_nodeadm
        && ImageFamily::of_name(&name).is_some_and(ImageFamily::is_amazon_linux_2023)
        && minor.is_some_and(|minor| minor >= MINOR)
        && release.map_or_else(|| parts().any(|part| part == "recommended"), |release| release >= RELEASE)
}

fn volume(device: Option<&str>, ebs_gib: Option<Option<i32>>) -> Option<Volume> {
    let gib = ebs_gib?.and_then(|gib| u64::try_from(gib).ok()).filter(|gib| *gib > 0);
    Some(Volume { device: device?.to_owned(), gib })
}

/// The volumes of a launch template.
pub(super) fn of_template(mappings: &[LaunchTemplateBlockDeviceMapping]) -> Vec<Volume> {
    let size = |mapping: &LaunchTemplateBlockDeviceMapping| mapping.ebs.as_ref().map(|ebs| ebs.volume_size);
    mappings.iter().filter_map(|mapping| volume(mapping.device_name.as_deref(), size(mapping))).collect()
}

/// The volumes of a launch configuration.
pub(super) fn of_configuration(mappings: &[ConfigurationMapping]) -> Vec<Volume> {
    let size = |mapping: &ConfigurationMapping| mapping.ebs.as_ref().map(|ebs| ebs.volume_size);
    mappings.iter().filter_map(|mapping| volume(mapping.device_name.as_deref(), size(mapping))).collect()
}

/// Size of the volume that holds the pods' ephemeral storage, in bytes: as the launch sets it, else as the image does.
pub(super) fn ephemeral_bytes(launch: &[Volume], image: Option<&ImageDetails>, bottlerocket: bool) -> Option<u64> {
    let of_image = image.map(|image| image.volumes.as_slice()).unwrap_or_default();
    let has = |device: &str| launch.iter().chain(of_image).any(|volume| volume.device == device);
    let is_bottlerocket = bottlerocket || image.is_some_and(|image| image.bottlerocket);
    let root = image.and_then(|image| image.root.as_deref());
    let device = match root {
        _ if is_bottlerocket && has(BOTTLEROCKET_DATA) => BOTTLEROCKET_DATA,
        // The size of the image's own data volume is not known, and its root volume holds only the system.
        None if is_bottlerocket => return None,
        Some(root) => root,
        // Any other volume of the launch may be one that the node mounts elsewhere.
        None => ROOTS.into_iter().find(|device| has(device))?,
    };
    let size = |volumes: &[Volume]| volumes.iter().find(|volume| volume.device == device).and_then(|volume| volume.gib);
    size(launch).or_else(|| size(of_image))?.checked_mul(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(sizes: &[(&str, u64)]) -> Vec<Volume> {
        sizes.iter().map(|(device, gib)| Volume { device: (*device).to_owned(), gib: Some(*gib) }).collect()
    }

    #[test]
    fn images_of_eks_label_gpus_from_kubernetes_1_35_on() {
        let alias = |minor: &str, release: &str| {
            format!(
                "resolve:ssm:/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/x86_64/nvidia/{release}/image_id"
            )
        };
        for (name, labels) in [
            ("amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260209", true),
            ("amazon-eks-node-al2023-arm64-nvidia-1.36-v20260720", true),
            ("amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260114", false),
            ("amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260720", false),
            (&alias("1.35", "recommended"), true),
            (&alias("1.34", "recommended"), false),
            (&alias("1.35", "amazon-eks-node-al2023-x86_64-nvidia-1.35-v20260114"), false),
            ("bottlerocket-aws-k8s-1.35-nvidia-x86_64-v1.60.0-fcf71a47", false),
            ("al2023-ami-2023.12.20260720.0-kernel-6.18-x86_64", false),
            ("our-image-1.35-v20260801", false),
        ] {
            assert_eq!(labels_gpus(name), labels, "{name}");
        }
    }

    #[test]
    fn an_alias_names_the_system_and_the_architecture_of_its_image() {
        let read = |path: &str| ImageDetails::from_alias(&format!("resolve:ssm:/aws/service/{path}"));
        let windows =
            read("ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.33/image_id").expect("an image");
        assert!(windows.windows && windows.eks && windows.architecture == ArchitectureType::X8664);
        let arm =
            read("eks/optimized-ami/1.33/amazon-linux-2023/arm64/standard/recommended/image_id").expect("an image");
        assert!(!arm.windows && arm.eks && arm.architecture == ArchitectureType::Arm64);
        let disks = volumes(&[("/dev/xvda", 20), ("/dev/xvdb", 500)]);
        assert_eq!(ephemeral_bytes(&disks, Some(&arm), false), Some(20 << 30), "not Bottlerocket");
        let bottlerocket = read("bottlerocket/aws-k8s-1.33/x86_64/latest/image_id").expect("an image");
        assert_eq!(ephemeral_bytes(&disks, Some(&bottlerocket), false), Some(500 << 30));
        let system_alone = volumes(&[("/dev/xvda", 50)]);
        assert_eq!(ephemeral_bytes(&system_alone, Some(&bottlerocket), false), None, "the image's own data volume");
        let extra_alone = volumes(&[("/dev/sdf", 500)]);
        assert_eq!(ephemeral_bytes(&extra_alone, Some(&arm), false), None, "the image's own root volume");
        assert!(read("eks/optimized-ami/1.30/amazon-linux-2/recommended/image_id").is_none(), "no architecture");
        assert!(ImageDetails::from_alias("resolve:ssm:/ours/image/x86_64").is_none(), "it may be anything");
    }

    fn image(root: &str, bottlerocket: bool, sizes: &[(&str, u64)]) -> ImageDetails {
        ImageDetails {
            architecture: ArchitectureType::X8664,
            virtualization: VirtualizationType::Hvm,
            windows: false,
            bottlerocket,
            image: None,
            windows_build: None,
            eks: false,
            labels_gpus: false,
            root: Some(root.to_owned()),
            volumes: volumes(sizes),
        }
    }

    #[test]
    fn the_volume_that_holds_the_pods_storage_is_found() {
        let linux = image("/dev/xvda", false, &[("/dev/xvda", 20)]);
        let ubuntu = image("/dev/sda1", false, &[("/dev/sda1", 8)]);
        let rocket = image("/dev/xvda", true, &[("/dev/xvda", 4), ("/dev/xvdb", 20)]);
        for (launch, image, bottlerocket, gib) in [
            (vec![], None, false, None),
            (vec![("/dev/xvda", 50)], None, false, Some(50)),
            (vec![("/dev/sda1", 30)], None, false, Some(30)),
            (vec![("/dev/sdf", 500)], None, false, None),
            (vec![("/dev/xvda", 4), ("/dev/xvdb", 80)], None, true, Some(80)),
            (vec![("/dev/xvda", 50), ("/dev/xvdb", 500)], None, false, Some(50)),
            (vec![("/dev/xvda", 50), ("/dev/xvdb", 80)], Some(&linux), false, Some(50)),
            (vec![], Some(&linux), false, Some(20)),
            (vec![("/dev/sdf", 500)], Some(&ubuntu), false, Some(8)),
            (vec![], Some(&rocket), false, Some(20)),
            (vec![("/dev/xvdb", 100)], Some(&rocket), true, Some(100)),
        ] {
            let bytes = ephemeral_bytes(&volumes(&launch), image, bottlerocket);
            assert_eq!(bytes, gib.map(|gib: u64| gib << 30), "{launch:?} {image:?}");
        }
    }

    #[test]
    fn the_platform_windows_counts_in_any_case() {
        let is_windows = |image: Image| ImageDetails::from(&image).windows;
        assert!(is_windows(Image::builder().platform("windows".into()).build()), "what EC2 sends");
        assert!(is_windows(Image::builder().platform("Windows".into()).build()), "what the SDK knows");
        assert!(!is_windows(Image::builder().build()));
    }

    #[test]
    fn images_made_for_eks_are_recognised_by_name() {
        for (name, eks) in [
            ("amazon-eks-node-al2023-x86_64-standard-1.31-v20250103", true),
            ("amazon-eks-gpu-node-1.29-v20240202", true),
            ("ubuntu-eks/k8s_1.30/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250101", true),
            ("Windows_Server-2022-English-Core-EKS_Optimized-1.30-2025.01.15", true),
            ("bottlerocket-aws-k8s-1.30-x86_64-v1.20.0-fcf71a47", true),
            ("resolve:ssm:/aws/service/eks/optimized-ami/1.30/amazon-linux-2023/x86_64/standard/recommended", true),
            ("resolve:ssm:/aws/service/bottlerocket/aws-k8s-1.30/x86_64/latest/image_id", true),
            ("bottlerocket-aws-ecs-2-x86_64-v1.20.0", false),
            ("ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server", false),
            ("our-geeks-image", false),
            ("ami-0123456789abcdef0", false),
        ] {
            assert_eq!(is_of_eks(name), eks, "{name}");
        }
    }
}
