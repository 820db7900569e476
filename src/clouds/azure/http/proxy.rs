//! Connections, through the proxy that the environment names, if any, as in the in-tree provider.
//!
//! Only HTTPS goes through the proxy, in a tunnel. Plain HTTP is used for the metadata service, which no proxy can
//! reach, and for endpoints on the same machine.

use std::error::Error;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

/// Long enough for a connection across a continent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A proxy that is not reached by plain HTTP.
#[derive(Debug, thiserror::Error)]
#[error("HTTPS_PROXY and ALL_PROXY must name a proxy by http://; {0}:// is not supported")]
struct UnsupportedProxy(String);

/// Connects to a host, directly or through the proxy.
#[derive(Clone)]
pub(super) struct Connector {
    http: HttpConnector,
    proxies: Arc<Matcher>,
}

impl Connector {
    /// Reads `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    pub(super) fn from_environment() -> Self {
        Self::through(Matcher::from_env())
    }

    fn through(proxies: Matcher) -> Self {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.set_nodelay(true);
        http.enforce_http(false);
        Self { http, proxies: Arc::new(proxies) }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.http.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        // The metadata service and the agents of clouds are on the same link: no proxy can reach them, and none may see
        // their tokens.
        let is_link_local =
            to.host().and_then(|host| host.parse::<Ipv4Addr>().ok()).is_some_and(|host| host.is_link_local());
        let is_proxied = to.scheme_str() == Some("https") && !is_link_local;
        let Some(proxy) = is_proxied.then(|| self.proxies.intercept(&to)).flatten() else {
            let connecting = self.http.call(to);
            return Box::pin(async { Ok(connecting.await?) });
        };
        // The tunnel is opened over plain TCP: a proxy that expects TLS would be sent its password in the clear.
        if let Some(scheme) = proxy.uri().scheme_str().filter(|scheme| *scheme != "http") {
            let error = UnsupportedProxy(scheme.to_owned());
            return Box::pin(async { Err(error.into()) });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.http.clone());
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        let connecting = tunnel.call(to);
        Box::pin(async { Ok(connecting.await?) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        (listener, address)
    }

    fn uri(text: &str) -> Uri {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn https_goes_through_the_proxy() {
        let (listener, address) = listen().await;
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).await.expect("a request");
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("written");
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        let matcher = Matcher::builder().all(format!("http://me:pw@{address}")).no("quiet.test").build();
        let mut connector = Connector::through(matcher);
        connector.call(uri("https://arm.test")).await.expect("a tunnel");
        let asked = proxy.await.expect("a request");
        assert!(asked.starts_with("CONNECT arm.test:443 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.to_ascii_lowercase().contains("proxy-authorization: basic"), "{asked}");
    }

    #[tokio::test]
    async fn plain_http_and_no_proxy_hosts_connect_directly() {
        let (listener, address) = listen().await;
        let matcher = || Matcher::builder().all("http://127.0.0.1:1").no("127.0.0.1").build();
        for to in [format!("http://{address}"), format!("https://{address}")] {
            Connector::through(matcher()).call(uri(&to)).await.expect("a connection");
            listener.accept().await.expect("it is here");
        }
        let everything = Matcher::builder().all("http://127.0.0.1:1").build();
        Connector::through(everything).call(uri(&format!("http://{address}"))).await.expect("a direct connection");
    }

    #[tokio::test]
    async fn a_proxy_of_another_kind_is_refused_before_anything_is_sent_to_it() {
        let (listener, address) = listen().await;
        for scheme in ["https", "socks5"] {
            let matcher = Matcher::builder().all(format!("{scheme}://me:pw@{address}")).build();
            let error = Connector::through(matcher).call(uri("https://arm.test")).await.expect_err(scheme);
            assert!(error.to_string().contains(&format!("{scheme}:// is not supported")), "{error}");
            assert!(!error.to_string().contains("pw"), "{error}");
        }
        let idle = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
        assert!(idle.is_err(), "nothing has connected");
    }
}
