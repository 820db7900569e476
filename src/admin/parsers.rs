//! The parser of what clients of the admin port send, as a function of any bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use axum::Router;
use tokio::io::{AsyncWriteExt as _, copy, duplex, sink};
use tokio::runtime::{Builder, Runtime};

use super::connections::serve_one;
use super::{Pages, Readiness, router};

static SERVED: LazyLock<Option<(Runtime, Router)>> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let pages = Pages { readiness: Arc::new(Readiness::default), metrics: Arc::default(), statusz: None };
    Some((runtime, router(pages)))
});

/// Serves a connection on which only these bytes arrive.
pub fn request(bytes: &[u8]) {
    let Some((runtime, router)) = SERVED.as_ref() else { return };
    runtime.block_on(async {
        let (mut client, server) = duplex(bytes.len().max(1));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let asking = async {
            let _closed = client.write_all(bytes).await;
            let _closed = client.shutdown().await;
            let _response = copy(&mut client, &mut sink()).await;
        };
        tokio::join!(serve_one(server, address, router.clone()), asking);
    });
}
