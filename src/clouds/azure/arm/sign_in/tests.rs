use std::sync::atomic::{AtomicUsize, Ordering};

use azure_core::credentials::{Secret, TokenRequestOptions};
use azure_core::error::ErrorKind;
use azure_core::time::OffsetDateTime;

use super::*;

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
            let (header, _) = sign_in.token(CONTEXT).await.expect("it is valid");
            assert_eq!(header.to_str().ok(), Some("Bearer token-1"));
        }
        assert_eq!(credential.asked.load(Ordering::Relaxed), 2, "not for each call, which would wait for it");
        tokio::time::advance(RENEW_PAUSE_MIN).await;
        sign_in.token(CONTEXT).await.expect("it is valid");
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
    sign_in.token(CONTEXT).await.expect("the first one");
    let error = sign_in.token(CONTEXT).await.expect_err("it expires");
    assert!(matches!(error, CloudError::Unreachable(_)), "{error}");
}
