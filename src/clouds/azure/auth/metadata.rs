//! Asks the instance metadata service for the subscription of the VM that Headcount runs on.
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service>

use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;

use crate::clouds::azure::http::Transport;
use crate::limits::AZURE_SIGN_IN;

/// The address of the service, the same on every Azure VM.
const SERVICE: &str = "http://169.254.169.254";
const SUBSCRIPTION: &str = "/metadata/instance/compute/subscriptionId?api-version=2021-02-01&format=text";
/// The service runs on the host of the VM. Outside Azure nothing responds.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The subscription of the VM that Headcount runs on; `None` if this is not an Azure VM or the service does not say.
pub(in crate::clouds::azure) async fn subscription() -> Option<String> {
    ask(SERVICE).await
}

async fn ask(service: &str) -> Option<String> {
    let request = Request::get(format!("{service}{SUBSCRIPTION}")).header("metadata", "true");
    let request = request.body(Full::new(Bytes::new())).ok()?;
    let response = Transport::plain().ok()?.exchange_up_to(request, TIMEOUT, AZURE_SIGN_IN).await;
    let response = response.inspect_err(|error| tracing::debug!(%error, "no instance metadata service")).ok()?;
    let text = String::from_utf8(response.body.to_vec()).ok()?;
    let text = text.trim();
    // Another service may listen on this link-local address.
    let is_id = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    (response.status.is_success() && is_id).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::azure::http::{Loopback, Reply};

    #[tokio::test]
    async fn the_subscription_is_read_from_the_metadata_service() {
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
