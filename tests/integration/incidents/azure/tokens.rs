//! Tokens that Azure refuses before they expire.

use serde_json::json;
use tonic::Code;

use crate::peers::headcount::refused;
use crate::sign_in::Office;

#[tokio::test]
async fn vmss_token_refused() {
    let office = Office::open();
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "secret"});
    let server = office.serve(principal, &[]);
    let mut client = server.client().await;
    assert_eq!(client.target("pool").await, 2);
    assert_eq!(office.arm.issued().len(), 1);
    office.arm.revoke_tokens();
    client.increase("pool", 1).await.expect("the token is renewed at once");
    assert_eq!((client.target("pool").await, office.arm.issued().len()), (3, 2));

    // New tokens do not help: they are requested with a pause in between, regardless of the number of calls.
    office.arm.behavior(|behavior| behavior.refuses_tokens = true);
    for _ in 0..5 {
        let (code, message) = refused(client.increase("pool", 1).await);
        assert_eq!(code, Code::Unavailable, "{message}");
    }
    assert!(office.arm.issued().len() <= 3, "{} tokens", office.arm.issued().len());
}
