//! The one question for the instance metadata service: which subscription this machine is in.
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service>

use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;

use crate::clouds::azure::http::Transport;

/// The service's address, the same on every machine of Azure, and nowhere else.
const SERVICE: &str = "http://169.254.169.254";
const SUBSCRIPTION: &str = "/metadata/instance/compute/subscriptionId?api-version=2021-02-01&format=text";
/// The service is on the machine's own host; where there is none, nobody answers.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The subscription of the machine that Headcount runs on; `None` where that is no machine of Azure, or it does not say.
pub(in crate::clouds::azure) async fn subscription() -> Option<String> {
    ask(SERVICE).await
}

async fn ask(service: &str) -> Option<String> {
    let request = Request::get(format!("{service}{SUBSCRIPTION}")).header("metadata", "true");
    let request = request.body(Full::new(Bytes::new())).ok()?;
    let response = Transport::plain().ok()?.exchange(request, TIMEOUT).await;
    let response = response.inspect_err(|error| tracing::debug!(%error, "no instance metadata service")).ok()?;
    let text = String::from_utf8(response.body.to_vec()).ok()?;
    let text = text.trim();
    // Anything may response at a link-local address.
    let is_id = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    (response.status.is_success() && is_id).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::azure::http::{Loopback, Reply};

    #[tokio::test]
    async fn the_subscription_is_asked_for_as_the_service_wants_it() {
        let server = Loopback::start([
            Reply::new(200, "00000000-1111-2222-3333-444444444444\n"),
            Reply::new(200, "<html>"),
            Reply::new(404, "gone"),
        ])
        .await;
        let base = server.base();
        assert_eq!(ask(&base).await.as_deref(), Some("00000000-1111-2222-3333-444444444444"));
        assert_eq!(ask(&base).await, None);
        assert_eq!(ask(&base).await, None);
        let received = server.received();
        assert_eq!(
            (received[0].target.as_str(), &received[0].headers["metadata"]),
            (SUBSCRIPTION, &"true".parse().expect("a value"))
        );
    }
}
