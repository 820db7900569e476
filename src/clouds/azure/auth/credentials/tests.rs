use serde_json::json;

use super::*;
use crate::clouds::azure::http::{Loopback, Reply, Rerouted};

#[tokio::test]
async fn a_managed_identity_uses_the_metadata_service() {
    let token = |text: &str| json!({ "access_token": text, "expires_on": "4102444800", "resource": "r", "token_type": "Bearer" });
    for (user_assigned, expected) in [
        (None, ""),
        (Some("client-1"), "&client_id=client-1"),
        (Some("/subscriptions/s/identity"), "&msi_res_id=%2Fsubscriptions%2Fs%2Fidentity"),
    ] {
        let server = Loopback::start([Reply::json(token("machine-1"))]).await;
        let client = Rerouted::new("http://169.254.169.254", &server);
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
