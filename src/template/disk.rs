//! The disk that holds the pods' ephemeral storage.

use super::build::Input;
use crate::instance_types::{Provenance, Quantity, TypeCapacity, WithProvenance};

/// A file system keeps a part of its disk for itself and for boot partitions: up to 3.9 % on ext4 (8 GiB on Ubuntu;
/// 3.3 % on AKS), 0.4 % on XFS. 4 % is never too little.
const FILE_SYSTEM_PER_MILLE: u64 = 40;

/// The disk for the pods' ephemeral storage, in bytes: the instance's own disks if it has any and the node combines
/// them, else the volume that it is launched with.
pub(super) fn disk_for_pods(input: &Input<'_>, known: Option<&TypeCapacity>) -> Option<WithProvenance<Quantity>> {
    let partitions = input.launch.image.and_then(|image| image.family.partitions_bytes()).unwrap_or_default();
    let volume = input
        .launch
        .ephemeral_storage_bytes
        .map(|bytes| WithProvenance::new(Quantity::bytes(bytes.saturating_sub(partitions)), Provenance::Group));
    if !input.launch.joins_local_disks {
        return volume;
    }
    let own = known.and_then(|known| known.local_disks.clone())?;
    if own.value.is_zero() { volume } else { Some(own) }
}

/// What a file system leaves of a disk, in whole KiB.
pub(super) fn formatted(disk: Quantity) -> Quantity {
    let bytes = disk.whole();
    let kept = bytes.div_ceil(1000).saturating_mul(FILE_SYSTEM_PER_MILLE);
    Quantity::bytes(bytes.saturating_sub(kept) / 1024 * 1024)
}
