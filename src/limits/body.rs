//! Reads the bodies that others send, within a limit and into one piece of memory.

use std::error::Error as StdError;
use std::pin::pin;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};
use thiserror::Error;

use super::Limit;

/// The memory that is reserved before anything has arrived.
const FIRST_BYTES: usize = 64 * 1024;

/// Why there is no whole body.
#[derive(Debug, Error)]
pub enum BodyError {
    /// It is longer than its limit.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// The connection failed.
    #[error(transparent)]
    Broken(Box<dyn StdError + Send + Sync>),
}

/// Reads a body to its end.
///
/// # Errors
///
/// If it has more bytes than its limit, or breaks off.
pub async fn read_body<B>(body: B, limit: Limit) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let (bytes, is_whole) = read(body, limit).await?;
    if is_whole { Ok(bytes) } else { Err(BodyError::TooLong(limit.bytes)) }
}

/// Reads the beginning of a body, as far as its limit, or as far as it arrives. The reason of an error is there, and the
/// status counts even without it.
pub async fn read_beginning<B>(body: B, limit: Limit) -> Bytes
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let mut bytes = Vec::new();
    let _whole_or_not = read_into(&mut bytes, body, limit).await;
    bytes.into()
}

/// Reads as far as the limit, and whether that is the end. Collecting the frames first would take twice the memory.
async fn read<B>(body: B, limit: Limit) -> Result<(Bytes, bool), BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(announced.min(FIRST_BYTES));
    let is_whole = read_into(&mut bytes, body, limit).await?;
    Ok((bytes.into(), is_whole))
}

/// Appends a body as far as the limit. Returns whether that is its end.
async fn read_into<B>(bytes: &mut Vec<u8>, body: B, limit: Limit) -> Result<bool, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let mut body = pin!(body);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(error.into()))?;
        let Ok(data) = frame.into_data() else { continue };
        let room = limit.bytes - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::iter;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;
    use crate::limits::AZURE_ERROR;

    fn body(parts: usize) -> impl Body<Data = Bytes, Error = Infallible> {
        let part = Bytes::from(vec![b'x'; AZURE_ERROR.bytes / 4]);
        StreamBody::new(iter((0..parts).map(move |_| Ok(Frame::data(part.clone())))))
    }

    #[tokio::test]
    async fn a_body_is_read_whole_or_as_far_as_its_limit() {
        for (parts, whole) in [(0, true), (1, true), (4, true), (5, false), (100, false)] {
            let read = read_body(body(parts), AZURE_ERROR).await;
            assert_eq!(read.is_ok(), whole, "{parts} parts");
            let beginning = read_beginning(body(parts), AZURE_ERROR).await;
            assert_eq!(beginning.len(), AZURE_ERROR.bytes.min(parts * AZURE_ERROR.bytes / 4), "{parts} parts");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        let half = || {
            let parts = [Ok(Frame::data(Bytes::from_static(b"x"))), Err(std::io::Error::other("reset"))];
            StreamBody::new(iter(parts))
        };
        let error = read_body(half(), AZURE_ERROR).await.expect_err("half a body");
        assert_eq!(error.to_string(), "reset");
        assert_eq!(read_beginning(half(), AZURE_ERROR).await.as_ref(), b"x", "that of an error is used all the same");
    }
}
