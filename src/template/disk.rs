//! The disk that holds the pods' ephemeral storage.

use super::build::Input;
use crate::cloud::{ImageEvidence, ImageFamily, LocalDisks, NodeImage};
use crate::instance_types::{Provenance, Quantity, TypeCapacity, WithProvenance};

/// A file system keeps a part of its disk for itself and for boot partitions: up to 3.9 % on ext4 (8 GiB on Ubuntu;
/// 3.3 % on AKS), 0.4 % on XFS. 4 % is never too little.
const FILE_SYSTEM_PER_MILLE: u64 = 40;
/// EKS's images of Amazon Linux have XFS: 45 known nodes with 20 to 512 GiB lack 0.37 % at most.
const AMAZON_LINUX_PER_MILLE: u64 = 5;

/// The pods' ephemeral storage: what a file system leaves of the instance's own disks if it has any and the node
/// combines them, else of the volume that it is launched with.
pub(super) fn storage_for_pods(input: &Input<'_>, known: Option<&TypeCapacity>) -> Option<WithProvenance<Quantity>> {
    let is_own = |disk: &WithProvenance<Quantity>| disk.provenance != Provenance::Group;
    let disk = disk_for_pods(input, known)?;
    let per_mille = if is_own(&disk) { FILE_SYSTEM_PER_MILLE } else { per_mille(input.launch.image) };
    Some(disk.map(|bytes| formatted(bytes, per_mille)))
}

/// What the file system of a root volume keeps. User data does not show it: other images read nodeadm's, too.
fn per_mille(image: Option<NodeImage>) -> u64 {
    match image.filter(|image| image.evidence != ImageEvidence::UserData).map(|image| image.family) {
        Some(ImageFamily::AmazonLinux2 | ImageFamily::AmazonLinux2023 | ImageFamily::AmazonLinux2023Late) => {
            AMAZON_LINUX_PER_MILLE
        }
        _ => FILE_SYSTEM_PER_MILLE,
    }
}

fn disk_for_pods(input: &Input<'_>, known: Option<&TypeCapacity>) -> Option<WithProvenance<Quantity>> {
    let images = input.launch.image.iter().chain(&input.launch.images);
    let partitions = images.filter_map(|image| image.family.partitions_bytes()).max().unwrap_or_default();
    let volume = input
        .launch
        .ephemeral_storage_bytes
        .map(|bytes| WithProvenance::new(Quantity::bytes(bytes.saturating_sub(partitions)), Provenance::Group));
    let combined: fn(Quantity) -> Quantity = match input.launch.local_disks {
        LocalDisks::Apart => return volume,
        LocalDisks::Mirrored => Quantity::halved,
        LocalDisks::Joined => |disks| disks,
    };
    let own = known.and_then(|known| known.local_disks.clone())?;
    if own.value.is_zero() { volume } else { Some(own.map(combined)) }
}

/// What a file system leaves of a disk, in whole KiB.
fn formatted(disk: Quantity, per_mille: u64) -> Quantity {
    let bytes = disk.whole();
    let kept = bytes.div_ceil(1000).saturating_mul(per_mille);
    Quantity::bytes(bytes.saturating_sub(kept) / 1024 * 1024)
}
