//! A watch, which sends one object a line and never ends. A line has a limit: `kube` collects it as a whole.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use thiserror::Error;

use crate::limits::WATCH_LINE;

/// A line without an end.
#[derive(Debug, Error)]
#[error("a line of the watch has more than {} MiB", WATCH_LINE.bytes >> 20)]
pub(super) struct LineTooLong;

/// The body of a watch.
pub(super) struct WatchLines<B> {
    body: B,
    /// The bytes since the last line break.
    unfinished: usize,
}

impl<B> WatchLines<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, unfinished: 0 }
    }
}

impl<B> Body for WatchLines<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn StdError + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        for line in frame.data_ref().into_iter().flat_map(|data| data.split_inclusive(|byte| *byte == b'\n')) {
            self.unfinished += line.len();
            if self.unfinished > WATCH_LINE.bytes {
                return Poll::Ready(Some(Err(LineTooLong.into())));
            }
            if line.ends_with(b"\n") {
                self.unfinished = 0;
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    async fn read(lines: Vec<Vec<u8>>) -> Result<usize, String> {
        let frames = lines.into_iter().map(|line| Ok::<_, std::io::Error>(Frame::data(Bytes::from(line))));
        let body = WatchLines::new(StreamBody::new(futures_util::stream::iter(frames)));
        body.collect().await.map(|whole| whole.to_bytes().len()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_line_has_a_limit_and_a_watch_has_none() {
        let half = vec![b'x'; WATCH_LINE.bytes / 2];
        let ended = [half.clone(), b"\n".to_vec()].concat();
        assert_eq!(read(vec![ended.clone(); 20]).await, Ok(20 * ended.len()));
        let error = read(vec![ended, half.clone(), half.clone(), half]).await.expect_err("too long");
        assert_eq!(error, "a line of the watch has more than 4 MiB");
    }
}
