//! The walk over the pages of one list. Each page names the next one: AWS by a token, Azure by a link.

use std::collections::HashSet;

/// The next pages that the pages of one list have named. Each caller limits their number.
#[derive(Debug, Default)]
pub(super) struct PageWalk(HashSet<String>);

impl PageWalk {
    /// Notes what a page names as the next one. `Err` if the list has named it before: such a list never ends.
    pub(super) fn follow(&mut self, next: &str) -> Result<(), &'static str> {
        if self.0.insert(next.to_owned()) { Ok(()) } else { Err("a page leads back to one that was read before") }
    }

    /// Notes the token of the next page, and returns it; `None` after the last page, which may have an empty token.
    pub(super) fn token(&mut self, next: Option<String>) -> Result<Option<String>, &'static str> {
        let Some(next) = next.filter(|next| !next.is_empty()) else { return Ok(None) };
        self.follow(&next).map(|()| Some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_where_its_pages_lead_back_to_one_of_them() {
        let mut walk = PageWalk::default();
        assert_eq!((walk.follow("first"), walk.follow("second")), (Ok(()), Ok(())));
        assert!(walk.follow("first").is_err());
        let mut walk = PageWalk::default();
        assert_eq!(walk.token(Some("a".to_owned())), Ok(Some("a".to_owned())));
        assert_eq!((walk.token(Some(String::new())), walk.token(None)), (Ok(None), Ok(None)));
        assert!(walk.token(Some("a".to_owned())).is_err());
    }
}
