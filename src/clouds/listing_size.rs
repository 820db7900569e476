//! The size of one list, over all its pages. Each page has a limit of its own.

/// The most bytes of all pages of one list of AWS: 280,000 instances at 450 bytes each. A page is decoded, and dropped,
/// as it arrives.
#[cfg(feature = "aws")]
pub(super) const AWS_LIST_BYTES_MAX: usize = 128 << 20;
/// The most items of one page of AWS, nested ones included: 100 groups of 1,000 instances, and of 1,000 other items each.
#[cfg(feature = "aws")]
pub(super) const AWS_PAGE_ITEMS_MAX: usize = 200_000;
/// The most bytes of all pages of one list of Azure: more than every size of a subscription.
#[cfg(feature = "azure")]
pub(super) const AZURE_LIST_BYTES_MAX: usize = 32 << 20;
/// The most bytes of all pages of one list of VMs: 130 KB for each of the 1,000 that a scale set can have. A VM takes 20 KB
/// with its instance view, and with Azure CNI 500 bytes more for each of its pods' addresses. A page is decoded, and
/// dropped, as it arrives.
#[cfg(feature = "azure")]
pub(super) const AZURE_MACHINE_LIST_BYTES_MAX: usize = 128 << 20;
/// The most items of one list of Azure. They take memory however short each is.
#[cfg(feature = "azure")]
pub(super) const AZURE_LIST_ITEMS_MAX: usize = 100_000;

/// The bytes of all pages of a list so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListSize {
    bytes: usize,
    max: usize,
}

impl ListSize {
    /// An empty list.
    pub(super) fn of_at_most(max: usize) -> Self {
        Self { bytes: 0, max }
    }

    /// Adds a page. If the list is too long now, returns the text of an error.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.max { Ok(()) } else { Err(format!("the list has more than {} MiB", self.max >> 20)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_limit_over_all_its_pages() {
        let max = 2 << 20;
        let mut size = ListSize::of_at_most(max);
        assert_eq!((size.add(max - 1), size.add(1)), (Ok(()), Ok(())));
        assert_eq!(size.add(1), Err("the list has more than 2 MiB".to_owned()));
        assert!(ListSize::of_at_most(max).add(usize::MAX).is_err());
    }
}
