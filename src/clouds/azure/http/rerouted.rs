//! An HTTP client for the tests of sign-in: azure_identity calls addresses that it does not let a test choose.

use async_trait::async_trait;
use azure_core::http::{AsyncRawResponse, HttpClient, Request, Url};

use super::loopback::Loopback;
use super::transport::Transport;

/// Sends the requests that are meant for one host to a server of the test.
#[derive(Debug)]
pub(in crate::clouds::azure) struct Rerouted {
    client: Transport,
    to: String,
    meant_for: &'static str,
}

impl Rerouted {
    pub(in crate::clouds::azure) fn new(meant_for: &'static str, server: &Loopback) -> Self {
        Self { client: Transport::plain().expect("a client"), to: server.base(), meant_for }
    }
}

#[async_trait]
impl HttpClient for Rerouted {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let meant = request.url().as_str().strip_prefix(self.meant_for).expect("meant for another");
        let url = Url::parse(&format!("{}{meant}", self.to)).expect("an address");
        let mut rerouted = request.clone();
        *rerouted.url_mut() = url;
        self.client.execute_request(&rerouted).await
    }
}
