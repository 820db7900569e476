//! Renders pages for any number of readers: two at a time at most, and under load one page for all who ask within a
//! second. Readers that are slow hold few pages that way.
//!
//! At 1,000 groups, a page takes some milliseconds and some MiB. One rendering for each of hundreds of requests took
//! 1.3 GiB.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

/// The most renderings at a time, of all pages.
const AT_A_TIME: usize = 2;
/// The most renderings of one page within [`COUNTED_FOR`]. Scrapers and people ask less often, and get a new one each.
const FRESH_MAX: u32 = 5;
/// As long as a client may take to read its page, which is held until then.
const COUNTED_FOR: Duration = super::connections::LIFETIME;
/// How long a page is shared once there were as many.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// A page with a format of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum PageKind {
    /// `/metrics` in the classic format.
    ClassicMetrics,
    /// `/metrics` as OpenMetrics.
    OpenMetrics,
    /// `/statusz` for people.
    StatusPage,
    /// `/statusz` for programs.
    StatusDocument,
}

/// A rendered page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
}

/// The renderings of all pages.
#[derive(Clone, Debug)]
pub(super) struct Renderings {
    places: Arc<Semaphore>,
    pages: Arc<[Mutex<Last>; 4]>,
}

impl Default for Renderings {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_A_TIME)), pages: Arc::default() }
    }
}

/// The last renderings of one page.
#[derive(Debug, Default)]
struct Last {
    /// The first rendering that is counted, and how many there were since.
    counted: Option<(Instant, u32)>,
    /// Kept only under load.
    shared: Option<(Instant, Page)>,
}

impl Renderings {
    /// Renders a page on a thread of its own, or shares the last one; `None` if it cannot be rendered.
    pub(super) async fn page(
        &self,
        kind: PageKind,
        render: impl FnOnce() -> Option<Page> + Send + 'static,
    ) -> Option<Page> {
        let mut last = self.pages[kind as usize].lock().await;
        let now = Instant::now();
        let is_within = |since: Instant, time: Duration| now.saturating_duration_since(since) < time;
        if let Some((_, page)) = last.shared.as_ref().filter(|(rendered, _)| is_within(*rendered, SHARED_FOR)) {
            return Some(page.clone());
        }
        let (first, renderings) = last.counted.filter(|(first, _)| is_within(*first, COUNTED_FOR)).unwrap_or((now, 0));
        last.counted = Some((first, renderings + 1));
        last.shared = None;
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        // A rendering whose reader has gone keeps its place until it ends.
        let rendering = tokio::task::spawn_blocking(move || {
            let _place = place;
            render()
        });
        let page = rendering.await.ok().flatten()?;
        last.shared = (renderings + 1 >= FRESH_MAX).then(|| (Instant::now(), page.clone()));
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn mk_page(number: usize) -> Page {
        Page { content_type: "text/plain", body: Bytes::from(number.to_string()) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_readers_shares_a_few_renderings_and_a_single_reader_gets_its_own() {
        let (renderings, rendered) = (Renderings::default(), Arc::new(AtomicUsize::new(0)));
        let ask = async || {
            let rendered = Arc::clone(&rendered);
            let render = move || Some(mk_page(rendered.fetch_add(1, Ordering::Relaxed)));
            renderings.page(PageKind::ClassicMetrics, render).await.expect("a page")
        };
        for number in 0..FRESH_MAX as usize {
            assert_eq!(ask().await, mk_page(number), "each of the first gets a rendering of its own");
        }
        futures_util::future::join_all((0..500).map(|_| ask())).await;
        assert_eq!(rendered.load(Ordering::Relaxed), FRESH_MAX as usize, "the others share the last one");
    }

    #[tokio::test(start_paused = true)]
    async fn few_renderings_are_held_by_readers_that_are_slow() {
        let (renderings, rendered) = (Renderings::default(), Arc::new(AtomicUsize::new(0)));
        let until = Instant::now() + COUNTED_FOR;
        while Instant::now() < until {
            let rendered = Arc::clone(&rendered);
            let render = move || Some(mk_page(rendered.fetch_add(1, Ordering::Relaxed)));
            renderings.page(PageKind::ClassicMetrics, render).await.expect("a page");
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        let rendered = rendered.load(Ordering::Relaxed);
        assert!(rendered <= FRESH_MAX as usize + 10, "{rendered} renderings for 100 readers in ten seconds");
    }

    #[tokio::test]
    async fn no_more_than_two_pages_are_rendered_at_a_time() {
        let renderings = Renderings::default();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let kinds = [PageKind::ClassicMetrics, PageKind::OpenMetrics, PageKind::StatusPage, PageKind::StatusDocument];
        let readers = (0..40).map(|number| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            renderings.page(kinds[number % kinds.len()], move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // The first one waits until another one is rendered.
                let until = std::time::Instant::now() + Duration::from_secs(10);
                while most.load(Ordering::SeqCst) < AT_A_TIME && std::time::Instant::now() < until {
                    std::thread::yield_now();
                }
                now.fetch_sub(1, Ordering::SeqCst);
                Some(mk_page(number))
            })
        });
        let pages = futures_util::future::join_all(readers).await;
        assert!(pages.iter().all(Option::is_some));
        assert_eq!(most.load(Ordering::SeqCst), AT_A_TIME);
    }
}
