use std::sync::atomic::{AtomicUsize, Ordering};

use azure_core::credentials::{Secret, TokenRequestOptions};
use azure_core::error::ErrorKind;
use azure_core::http::{AsyncRawResponse, HttpClient, Request};
use azure_core::time::OffsetDateTime;

use super::*;
use crate::cloud::secrets::Secret as OwnSecret;
use crate::clouds::azure::auth::credential;
use crate::clouds::azure::http::{Loopback, Reply, Rerouted};
use crate::config::settings::azure::{AzureCloud, Credential};

const CONTEXT: ErrorContext<'static> = ErrorContext { operation: "GetVirtualMachineScaleSet", name: "one" };

/// Returns one token that is valid for this long, and then fails, or does not respond.
#[derive(Debug)]
struct OneToken {
    valid_for: Duration,
    hangs: bool,
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl TokenCredential for OneToken {
    async fn get_token(
        &self,
        _scopes: &[&str],
        _options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        if self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
            let expires = OffsetDateTime::from(SystemTime::now() + self.valid_for);
            return Ok(AccessToken::new(Secret::new("token-1"), expires));
        }
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(azure_core::Error::with_message(ErrorKind::Io, "the sign-in service is down"))
    }
}

fn sign_in(valid_for: Duration, hangs: bool) -> (SignIn, Arc<OneToken>) {
    let credential = Arc::new(OneToken { valid_for, hangs, asked: AtomicUsize::new(0) });
    let renew: NewCredential = Arc::new(|| Err("no other credential".to_owned()));
    let scope = "https://arm.test/.default".to_owned();
    (SignIn::new(Bearer { credential: Arc::clone(&credential) as Arc<_>, scope, renew }), credential)
}

#[tokio::test(start_paused = true)]
async fn while_the_sign_in_service_is_down_the_last_token_is_used_as_long_as_it_is_valid() {
    for hangs in [false, true] {
        let (sign_in, credential) = sign_in(Duration::from_secs(240), hangs);
        for _ in 0..10 {
            let (header, _) = sign_in.token(CONTEXT, TOKEN_TIMEOUT).await.expect("it is valid");
            assert_eq!(header.to_str().ok(), Some("Bearer token-1"));
        }
        assert_eq!(credential.asked.load(Ordering::Relaxed), 2, "not for each call, which would wait for it");
        tokio::time::advance(RENEW_PAUSE_MIN).await;
        sign_in.token(CONTEXT, TOKEN_TIMEOUT).await.expect("it is valid");
        assert_eq!(credential.asked.load(Ordering::Relaxed), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_success_of_an_earlier_token_ends_no_pause() {
    let credential = || Arc::new(OneToken { valid_for: Duration::from_secs(240), hangs: false, asked: 0.into() });
    let renew: NewCredential = Arc::new(move || Ok(credential()));
    let scope = "https://arm.test/.default".to_owned();
    let sign_in = SignIn::new(Bearer { credential: renew().expect("a credential"), scope, renew });
    assert!(sign_in.renew(0).await, "the first token is refused");
    sign_in.token_was_accepted(0);
    assert!(!sign_in.renew(1).await, "the second one is refused within the pause");
    sign_in.token_was_accepted(1);
    assert!(sign_in.renew(1).await, "it was accepted meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_token_about_to_expire_is_not_used_again() {
    let (sign_in, _) = sign_in(Duration::from_secs(20), false);
    sign_in.token(CONTEXT, TOKEN_TIMEOUT).await.expect("the first one");
    let error = sign_in.token(CONTEXT, TOKEN_TIMEOUT).await.expect_err("it expires");
    assert!(matches!(error, CloudError::Unreachable(_)), "{error}");
}

fn client_secret() -> Credential {
    Credential::ClientSecret {
        tenant_id: "tenant".to_owned(),
        client_id: "client".to_owned(),
        secret: OwnSecret::new("secret-of-the-test"),
    }
}

/// What a call gets whose sign-in is answered like this, by azure_identity and our HTTP client.
async fn told(status: u16, body: &str) -> String {
    // Those that may pass are tried again.
    let reply = || Reply::new(status, body).header("retry-after-ms", "1");
    let server = Loopback::start([(); 8].map(|()| reply())).await;
    let client = Arc::new(Rerouted::new("https://login.microsoftonline.com", &server));
    let credential = credential(&client_secret(), AzureCloud::Public, client).expect("a credential");
    let renew: NewCredential = Arc::new(|| Err("no other credential".to_owned()));
    let sign_in = SignIn::new(Bearer { credential, scope: "https://arm.test/.default".to_owned(), renew });
    let error = sign_in.token(CONTEXT, TOKEN_TIMEOUT).await.expect_err("no token");
    error.to_string().replace("GetVirtualMachineScaleSet one: no token: ", "")
}

#[tokio::test]
async fn only_an_answer_of_entra_says_that_the_credentials_are_refused() {
    let wrong = "AADSTS7000215: Invalid client secret provided.";
    let escaped = r#"AADSTS7000215: Use the \"value\", not the ID.\r\nTrace ID: 1"#;
    let page = "<html><head><title>502 Bad Gateway</title></head></html>";
    let body = |error: &str, description: &str| {
        format!(r#"{{"error":"{error}","error_description":"{description}","error_codes":[7000215]}}"#)
    };
    for (status, body, expected) in [
        (401, body("invalid_client", wrong), "denied: refused with status 401 and code AADSTS7000215"),
        (401, body("invalid_client", escaped), "denied: refused with status 401 and code AADSTS7000215"),
        (400, body("unauthorized_client", ""), "denied: refused with status 400"),
        (400, body("new_word", wrong), "denied: refused with status 400 and code AADSTS7000215"),
        (400, body("temporarily_unavailable", "AADSTS9"), "unreachable: failed with status 400 and code AADSTS9"),
        (503, body("invalid_client", escaped), "unreachable: failed with status 503 and code AADSTS7000215"),
        (502, page.to_owned(), "unreachable: failed with status 502"),
        (403, page.to_owned(), "unreachable: failed with status 403"),
        (401, page.to_owned(), "unreachable: failed with status 401"),
        (401, r#"{"error":"no session"}"#.to_owned(), "unreachable: failed with status 401"),
        (302, String::new(), "unreachable: failed with status 302"),
    ] {
        let expected = expected.replace(": ", ": the sign-in service ");
        assert_eq!(told(status, &body).await, expected, "{status} {body}");
    }
    let unread = "unreachable: the response of the sign-in service cannot be read";
    assert_eq!(told(200, page).await, unread);
}

/// A network in which every connection hangs.
#[derive(Debug)]
struct Silence;

#[async_trait::async_trait]
impl HttpClient for Silence {
    async fn execute_request(&self, _request: &Request) -> azure_core::Result<AsyncRawResponse> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_sign_in_that_hangs_names_its_host() {
    let identity = Credential::ManagedIdentity { user_assigned: None };
    for (settings, cloud, host) in [
        (client_secret(), AzureCloud::Public, "login.microsoftonline.com"),
        (client_secret(), AzureCloud::China, "login.chinacloudapi.cn"),
        (identity, AzureCloud::Public, "169.254.169.254"),
    ] {
        let new: NewCredential =
            Arc::new(move || credential(&settings, cloud, Arc::new(Silence)).map_err(|error| error.to_string()));
        let scope = "https://management.azure.com/.default".to_owned();
        let sign_in = SignIn::new(Bearer { credential: new().expect("a credential"), scope, renew: Arc::clone(&new) });
        let error = sign_in.token(CONTEXT, TOKEN_TIMEOUT).await.expect_err("no response");
        let expected = format!("no token: {host} issued none within 9s");
        assert!(matches!(error, CloudError::Unreachable(_)) && error.to_string().ends_with(&expected), "{error}");
        assert!(sign_in.with(new, CONTEXT).await.expect_err("no response").ends_with(&expected));
    }
}
