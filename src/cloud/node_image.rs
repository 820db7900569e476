//! The family of machine images that a node group launches: it decides which kernels its nodes run.

use std::fmt;

/// From this minor version of Kubernetes on, EKS's images of Amazon Linux 2023 may have Linux 6.13 or later: a node
/// of 1.36 has 6.18.
const LATE_KERNEL_SINCE: u32 = 36;
/// From this release on, Flatcar may keep as much as Linux 6 does. Its releases before have Linux 5.15 or older.
const FLATCAR_LINUX_6: u32 = 3510;

/// Images that run the same generation of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageFamily {
    /// Amazon Linux 2.
    AmazonLinux2,
    /// Amazon Linux 2023, with Linux 6.1 or 6.12.
    AmazonLinux2023,
    /// Amazon Linux 2023 for Kubernetes 1.36 and later, or with a newer kernel than 6.12.
    AmazonLinux2023Late,
    /// Bottlerocket.
    Bottlerocket,
    /// Ubuntu up to 18.04.
    Ubuntu18,
    /// Ubuntu 20.04, and AKS's images of Ubuntu up to 22.04, which stay at Linux 5.15.
    Ubuntu20,
    /// Ubuntu 22.04 to 25.10.
    Ubuntu22,
    /// Ubuntu 26.04 and later, with Linux 7.
    Ubuntu26,
    /// Container Linux, and Flatcar before 3510.
    FlatcarEarly,
    /// Flatcar.
    Flatcar,
    /// Azure Linux and its predecessor CBL-Mariner.
    AzureLinux,
    /// Debian up to 11.
    Debian11,
    /// Debian 12 and later.
    Debian12,
    /// Red Hat CoreOS, which OpenShift runs on.
    RedHatCoreOs,
    /// CentOS and RHEL 7.
    RedHat7,
    /// CentOS Stream, RHEL, Rocky Linux and AlmaLinux from 8 on.
    RedHat8,
}

/// What shows the image of a node group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageEvidence {
    /// The name of the machine image.
    Name,
    /// The alias by which the launch settings name the image.
    Alias,
    /// What EKS says of the managed node group.
    NodeGroup,
    /// The user data: only such an image reads it.
    UserData,
    /// The image gallery that the scale set names.
    Gallery,
}

/// The image that a node group launches, and why that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeImage {
    /// Its family.
    pub family: ImageFamily,
    /// What shows it.
    pub evidence: ImageEvidence,
}

impl fmt::Display for ImageFamily {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::AmazonLinux2 => "Amazon Linux 2",
            Self::AmazonLinux2023 => "Amazon Linux 2023",
            Self::AmazonLinux2023Late => "Amazon Linux 2023 with a late kernel",
            Self::Bottlerocket => "Bottlerocket",
            Self::Ubuntu18 => "Ubuntu up to 18.04",
            Self::Ubuntu20 => "Ubuntu with Linux 5.15",
            Self::Ubuntu22 => "Ubuntu from 22.04",
            Self::Ubuntu26 => "Ubuntu from 26.04",
            Self::FlatcarEarly => "Flatcar before 3510",
            Self::Flatcar => "Flatcar",
            Self::AzureLinux => "Azure Linux",
            Self::Debian11 => "Debian up to 11",
            Self::Debian12 => "Debian from 12",
            Self::RedHatCoreOs => "Red Hat CoreOS",
            Self::RedHat7 => "RHEL 7",
            Self::RedHat8 => "RHEL from 8",
        })
    }
}

impl fmt::Display for ImageEvidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Name => "image name",
            Self::Alias => "image alias",
            Self::NodeGroup => "managed node group",
            Self::UserData => "user data",
            Self::Gallery => "image gallery",
        })
    }
}

impl ImageFamily {
    /// How much of the root disk other partitions take, in bytes; `None` where a file system has all but a few percent.
    ///
    /// Container Linux keeps two copies of `/usr`, of which nodes with disks of 8 to 50 GiB show up to 2400 MiB with
    /// the rest. Flatcar's layout of today (flatcar/scripts, build_library/disk_layout.json) has 6210 MiB. A disk
    /// keeps the layout with which it was made, and the release that changed it is not known, so all but the early
    /// ones count with the larger one.
    pub fn partitions_bytes(self) -> Option<u64> {
        const MIB: u64 = 1 << 20;
        match self {
            Self::FlatcarEarly => Some(2400 * MIB),
            Self::Flatcar => Some(6210 * MIB),
            _ => None,
        }
    }

    /// Whether it is Amazon Linux 2023, with any kernel.
    pub fn is_amazon_linux_2023(self) -> bool {
        matches!(self, Self::AmazonLinux2023 | Self::AmazonLinux2023Late)
    }

    /// The family of a machine image by its name or alias (`amazon-eks-node-al2023-x86_64-standard-1.33-v20251001`),
    /// or by the name of an operating system as a kubelet reports it (`Amazon Linux 2023.7.20250609`).
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let has = |part: &str| name.contains(part);
        if has("windows") {
            return None;
        }
        if has("bottlerocket") {
            return Some(Self::Bottlerocket);
        }
        if has("al2023") || has("amazon-linux-2023") || has("amazon linux 2023") {
            return Some(amazon_linux_2023(&name));
        }
        let of_eks = ["amazon-eks-node-", "amazon-eks-gpu-node-", "amazon-eks-arm64-node-"];
        if has("amzn2-") || has("amazon-linux-2/") || has("amazon linux 2") || of_eks.iter().any(|part| has(part)) {
            return Some(Self::AmazonLinux2);
        }
        if has("ubuntu") {
            return Some(ubuntu(&name));
        }
        if has("flatcar") || has("container linux") || name.starts_with("coreos-") {
            let major = numbers(&name).find(|number| (1000..10_000).contains(number));
            let early = major.is_some_and(|major| major < FLATCAR_LINUX_6);
            return Some(if early { Self::FlatcarEarly } else { Self::Flatcar });
        }
        if has("rhcos") || has("enterprise linux coreos") {
            return Some(Self::RedHatCoreOs);
        }
        if has("debian") {
            let old = ["stretch", "buster", "bullseye"].iter().any(|part| has(part));
            let release = numbers(&name).find(|number| (8..20).contains(number));
            return Some(if old || release.is_some_and(|release| release < 12) {
                Self::Debian11
            } else {
                Self::Debian12
            });
        }
        red_hat(&name)
    }

    /// The family of an AKS image by its gallery and name: `AKSUbuntu`, `2204gen2containerd`.
    pub fn of_aks_gallery(gallery: &str, name: &str) -> Option<Self> {
        let (gallery, name) = (gallery.to_ascii_lowercase(), name.to_ascii_lowercase());
        match gallery.as_str() {
            "aksubuntu" => {
                let release = numbers(&name).find(|number| (1600..3000).contains(number));
                Some(match release {
                    Some(..=2204) => Self::Ubuntu20,
                    Some(2604..) => Self::Ubuntu26,
                    Some(_) | None => Self::Ubuntu22,
                })
            }
            // Azure Container Linux is made of Flatcar, and is assumed to have its partitions.
            "aksazurelinux" if name.starts_with("acl") => Some(Self::Flatcar),
            "aksazurelinux" | "akscblmariner" => Some(Self::AzureLinux),
            "aksflatcar" => Some(Self::Flatcar),
            _ => None,
        }
    }

    /// The family of EKS's images by the type that a managed node group names (`AL2023_x86_64_STANDARD`) and its
    /// version of Kubernetes.
    pub fn of_ami_type(ami_type: &str, version: Option<&str>) -> Option<Self> {
        match ami_type {
            _ if ami_type.starts_with("AL2023_") => {
                let minor = version.and_then(|version| version.strip_prefix("1.")?.parse::<u32>().ok());
                let late = minor.is_some_and(|minor| minor >= LATE_KERNEL_SINCE);
                Some(if late { Self::AmazonLinux2023Late } else { Self::AmazonLinux2023 })
            }
            _ if ami_type.starts_with("AL2_") => Some(Self::AmazonLinux2),
            _ if ami_type.starts_with("BOTTLEROCKET_") => Some(Self::Bottlerocket),
            _ => None,
        }
    }
}

fn amazon_linux_2023(name: &str) -> ImageFamily {
    let minors = name.split(['-', '/']).filter_map(|part| part.strip_prefix("1.")?.parse::<u32>().ok());
    let of_kernel = name.split_once("kernel-6.").and_then(|(_, rest)| numbers(rest).next());
    let late = minors.into_iter().any(|minor| minor >= LATE_KERNEL_SINCE) || of_kernel.is_some_and(|minor| minor > 12);
    if late { ImageFamily::AmazonLinux2023Late } else { ImageFamily::AmazonLinux2023 }
}

fn ubuntu(name: &str) -> ImageFamily {
    const RELEASES: [(&str, u32); 5] =
        [("trusty", 14), ("xenial", 16), ("bionic", 18), ("focal", 20), ("resolute", 26)];
    let named = RELEASES.iter().find(|(codename, _)| name.contains(codename)).map(|(_, release)| *release);
    let written = || {
        let dotted = name.match_indices(".04").filter_map(|(at, _)| name.get(at.checked_sub(2)?..at)?.parse().ok());
        dotted.max()
    };
    match named.or_else(written) {
        Some(..=18) => ImageFamily::Ubuntu18,
        Some(..=20) => ImageFamily::Ubuntu20,
        Some(26..) => ImageFamily::Ubuntu26,
        _ => ImageFamily::Ubuntu22,
    }
}

fn red_hat(name: &str) -> Option<ImageFamily> {
    const NAMES: [&str; 6] = ["centos", "rhel", "red hat enterprise linux", "rocky", "almalinux", "oracle linux"];
    let (at, word) = NAMES.iter().find_map(|word| Some((name.find(word)?, *word)))?;
    let release = numbers(name.get(at + word.len()..)?).next();
    Some(if release == Some(7) { ImageFamily::RedHat7 } else { ImageFamily::RedHat8 })
}

/// The whole numbers in a text, as far as they are not too large.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::ImageFamily::{self, *};

    #[test]
    fn the_family_of_an_image_is_known_by_its_name() {
        for (name, family) in [
            ("amazon-eks-node-al2023-x86_64-standard-1.31-v20250103", Some(AmazonLinux2023)),
            ("amazon-eks-node-al2023-x86_64-nvidia-1.36-v20260720", Some(AmazonLinux2023Late)),
            ("al2023-ami-2023.7.20250609.0-kernel-6.1-x86_64", Some(AmazonLinux2023)),
            ("al2023-ami-2023.12.20260720.0-kernel-6.18-x86_64", Some(AmazonLinux2023Late)),
            ("resolve:ssm:/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/x", Some(AmazonLinux2023Late)),
            ("resolve:ssm:/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/x", Some(AmazonLinux2023)),
            ("resolve:ssm:/aws/service/eks/optimized-ami/1.30/amazon-linux-2/recommended/image_id", Some(AmazonLinux2)),
            ("amazon-eks-node-1.30-v20240202", Some(AmazonLinux2)),
            ("amazon-eks-gpu-node-1.29-v20240202", Some(AmazonLinux2)),
            ("amzn2-ami-hvm-2.0.20240131.0-x86_64-gp2", Some(AmazonLinux2)),
            ("Amazon Linux 2", Some(AmazonLinux2)),
            ("Amazon Linux 2023.7.20250609", Some(AmazonLinux2023)),
            ("bottlerocket-aws-k8s-1.30-x86_64-v1.20.0-fcf71a47", Some(Bottlerocket)),
            ("ubuntu-eks/k8s_1.30/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250101", Some(Ubuntu22)),
            ("ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server", Some(Ubuntu22)),
            ("ubuntu/images/hvm-ssd/ubuntu-focal-20.04-amd64-server", Some(Ubuntu20)),
            ("ubuntu/images/hvm-ssd/ubuntu-bionic-18.04-amd64-server", Some(Ubuntu18)),
            ("Ubuntu 20.04.4 LTS", Some(Ubuntu20)),
            ("Ubuntu 16.04.6 LTS", Some(Ubuntu18)),
            ("our-ubuntu", Some(Ubuntu22)),
            ("ubuntu-eks/k8s_1.35/images/hvm-ssd-gp3/ubuntu-resolute-26.04-amd64-server-20260801", Some(Ubuntu26)),
            ("Flatcar-stable-3033.2.0-hvm", Some(FlatcarEarly)),
            ("Flatcar-stable-4230.2.1-hvm", Some(Flatcar)),
            ("Container Linux by CoreOS 2023.5.0 (Rhyolite)", Some(FlatcarEarly)),
            ("rhcos-412.86.202301311551-0-x86_64", Some(RedHatCoreOs)),
            ("Red Hat Enterprise Linux CoreOS 412.86.202301061548-0 (Ootpa)", Some(RedHatCoreOs)),
            ("debian-10-amd64-20230101", Some(Debian11)),
            ("debian-stretch-hvm-x86_64-gp2-2018-11-10-63975", Some(Debian11)),
            ("debian-12-amd64-20240101-1616", Some(Debian12)),
            ("CentOS Linux 7 x86_64 HVM EBS ENA 2002_01", Some(RedHat7)),
            ("RHEL-7.7_HVM-20190923-x86_64-0-Hourly2-GP2", Some(RedHat7)),
            ("Rocky-9-EC2-Base-9.3-20231113.0.x86_64", Some(RedHat8)),
            ("Windows_Server-2022-English-Core-EKS_Optimized-1.33", None),
            ("SUSE Linux Enterprise Server 15 SP4", None),
            ("our-image", None),
            ("", None),
        ] {
            assert_eq!(ImageFamily::of_name(name), family, "{name}");
        }
    }

    #[test]
    fn the_family_of_an_aks_image_is_known_by_its_gallery() {
        for (gallery, name, family) in [
            ("AKSUbuntu", "2204gen2containerd", Some(Ubuntu20)),
            ("AKSUbuntu", "2404gen2containerd", Some(Ubuntu22)),
            ("AKSUbuntu", "2604minimalgen2containerd", Some(Ubuntu26)),
            ("AKSAzureLinux", "aclgen2TL", Some(Flatcar)),
            ("AKSAzureLinux", "OSGuardV3gen2fipsTL", Some(AzureLinux)),
            ("aksubuntu", "something", Some(Ubuntu22)),
            ("AKSAzureLinux", "V3gen2", Some(AzureLinux)),
            ("AKSCBLMariner", "V2gen2", Some(AzureLinux)),
            ("AKSWindows", "windows-2022-containerd-gen2", None),
            ("ours", "node", None),
        ] {
            assert_eq!(ImageFamily::of_aks_gallery(gallery, name), family, "{gallery} {name}");
        }
    }

    #[test]
    fn the_family_of_a_managed_node_group_is_known_by_its_type_and_version() {
        for (ami_type, version, family) in [
            ("AL2023_x86_64_STANDARD", Some("1.33"), Some(AmazonLinux2023)),
            ("AL2023_ARM_64_STANDARD", None, Some(AmazonLinux2023)),
            ("AL2023_x86_64_NVIDIA", Some("1.36"), Some(AmazonLinux2023Late)),
            ("AL2_x86_64_GPU", Some("1.32"), Some(AmazonLinux2)),
            ("BOTTLEROCKET_ARM_64", Some("1.36"), Some(Bottlerocket)),
            ("WINDOWS_CORE_2022_x86_64", Some("1.33"), None),
            ("CUSTOM", Some("1.33"), None),
        ] {
            assert_eq!(ImageFamily::of_ami_type(ami_type, version), family, "{ami_type} {version:?}");
        }
    }
}
