//! The size of one list, over all its pages. Each page has a limit of its own.

/// The most bytes of all pages of one list: 280,000 instances of AWS at 450 bytes each, or 6,500 VMs of Azure with instance views
/// of 20 KB; no cluster has as many nodes. Without it, pages that never end would be held until the memory is used up.
const LIST_BYTES_MAX: usize = 128 << 20;

/// The bytes of all pages of a list so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListSize(usize);

impl ListSize {
    /// Adds a page. If the list is too long now, returns the text of an error.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), String> {
        self.0 = self.0.saturating_add(bytes);
        if self.0 <= LIST_BYTES_MAX {
            return Ok(());
        }
        Err(format!("the list has more than {} MiB", LIST_BYTES_MAX >> 20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_limit_over_all_its_pages() {
        let mut size = ListSize::default();
        assert_eq!((size.add(LIST_BYTES_MAX - 1), size.add(1)), (Ok(()), Ok(())));
        assert_eq!(size.add(1), Err("the list has more than 128 MiB".to_owned()));
        assert!(ListSize::default().add(usize::MAX).is_err());
    }
}
