//! The image of a node, as its kubelet reports it: `Amazon Linux 2023.7.20250609, kernel
//! 6.1.140-154.222.amzn2023.x86_64`.

use crate::cloud::ImageFamily;
use crate::instance_types::memory_model::{Kernel, keeps_kib};

/// The operating system and the release of the kernel in an image's text.
fn parts(image: &str) -> Option<(&str, &str)> {
    image.rsplit_once(", kernel ")
}

/// The generation of an image's kernel, if it is one of Linux.
pub(super) fn kernel(image: &str) -> Option<Kernel> {
    let (system, release) = parts(image)?;
    Kernel::of_release(release, system.contains("CoreOS"))
}

/// Whether a group that launches `launched` has another image now, whose kernel keeps more memory: what nodes with
/// the earlier image reported would be too much.
pub(super) fn keeps_less_than(image: &str, launched: ImageFamily) -> bool {
    let Some((system, _)) = parts(image) else { return false };
    let Some(family) = ImageFamily::of_name(system).filter(|family| *family != launched) else { return false };
    kernel(image).is_some_and(|kernel| keeps_kib(family, Some(kernel)) < keeps_kib(launched, None))
}
