use async_trait::async_trait;
use azure_core::http::{AsyncRawResponse, Request, Url};
use serde_json::json;

use super::*;
use crate::clouds::azure::http::Transport as Client;
use crate::clouds::azure::http::{Loopback, Reply};

/// Sends every request to one server, regardless of its URL.
#[derive(Debug)]
struct Rerouted {
    client: Client,
    to: String,
    meant_for: &'static str,
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

#[tokio::test]
async fn a_managed_identity_uses_the_metadata_service() {
    let token = |text: &str| json!({ "access_token": text, "expires_on": "4102444800", "resource": "r", "token_type": "Bearer" });
    for (user_assigned, expected) in [
        (None, ""),
        (Some("client-1"), "&client_id=client-1"),
        (Some("/subscriptions/s/identity"), "&msi_res_id=%2Fsubscriptions%2Fs%2Fidentity"),
    ] {
        let server = Loopback::start([Reply::json(token("machine-1"))]).await;
        let client = Client::plain().expect("a client");
        let client = Rerouted { client, to: server.base(), meant_for: "http://169.254.169.254" };
        let identity = Credential::ManagedIdentity { user_assigned: user_assigned.map(str::to_owned) };
        let credential = credential(&identity, AzureCloud::Public, Arc::new(client)).expect("a credential");
        for _ in 0..2 {
            let token = credential.get_token(&["https://management.azure.com/.default"], None).await.expect("a token");
            assert_eq!(token.token.secret(), "machine-1");
        }
        let received = server.received();
        assert_eq!(received.len(), 1, "a cached token is not requested again");
        let target =
            "/metadata/identity/oauth2/token?api-version=2019-08-01&resource=https%3A%2F%2Fmanagement.azure.com";
        assert_eq!(received[0].target, format!("{target}{expected}"));
        assert_eq!(received[0].headers["metadata"], "true");
    }
}
