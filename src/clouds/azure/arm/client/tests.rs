use azure_core::credentials::{AccessToken, Secret, TokenCredential, TokenRequestOptions};
use azure_core::error::ErrorKind;
use azure_core::time::OffsetDateTime;

use super::super::operations;
use super::*;
use crate::clouds::azure::http::{Loopback, Reply};

/// A credential that returns a fixed token or error.
#[derive(Debug)]
struct Fixed(Result<&'static str, &'static str>);

#[async_trait::async_trait]
impl TokenCredential for Fixed {
    async fn get_token(
        &self,
        scopes: &[&str],
        _options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        assert_eq!(scopes, ["https://arm.test/.default"]);
        let token = self.0.map_err(|why| azure_core::Error::with_message(ErrorKind::Credential, why))?;
        Ok(AccessToken::new(Secret::new(token), OffsetDateTime::UNIX_EPOCH))
    }
}

fn bearer(token: Result<&'static str, &'static str>) -> Option<Bearer> {
    let renew: NewCredential = Arc::new(|| Ok(Arc::new(Fixed(Ok("token-2")))));
    Some(Bearer { credential: Arc::new(Fixed(token)), scope: "https://arm.test/.default".to_owned(), renew })
}

fn client(transport: Transport, base: &str, token: Result<&'static str, &'static str>) -> ArmClient {
    let endpoint = Url::parse(base).expect("an address");
    ArmClient::new(Arc::new(transport), endpoint, bearer(token), Arc::new(CallLimiter::default()))
}

async fn get(client: &ArmClient, address: &str) -> Result<HttpResponse, CloudError> {
    let url = client.endpoint().join(address).expect("an address");
    let call = ArmCall::new(operations::GET_SCALE_SET, "one", Bucket::SetGet);
    client.send(&call, Method::GET, &url, &[], Bytes::new()).await
}

#[tokio::test]
async fn over_tls_the_token_is_sent() {
    let (server, certificate) = Loopback::start_tls([Reply::new(200, "{}"), Reply::new(200, "{}")]).await;
    let base = format!("https://{}", server.address());
    let client = client(Transport::trusting(certificate), &base, Ok("token-1"));
    get(&client, "/one").await.expect("a response");
    assert_eq!(server.received()[0].headers["authorization"], "Bearer token-1");
    for foreign in ["https://localhost/one", &base.replace("https", "http")] {
        let refused = get(&client, foreign).await;
        assert!(matches!(refused, Err(CloudError::Refused(_))), "{foreign}: {refused:?}");
        let (message, origin) = (refused.expect_err("refused").to_string(), foreign.trim_end_matches("/one"));
        assert!(message.contains(&format!("{origin} is not the configured endpoint {base}")), "{message}");
    }
    assert!(!format!("{client:?}").contains("token-1"));
}

#[tokio::test]
async fn over_plain_http_no_token_is_sent_or_even_asked_for() {
    let server = Loopback::start([Reply::new(200, "{}")]).await;
    let client = client(Transport::plain().expect("a transport"), &server.base(), Err("never called"));
    get(&client, "/one").await.expect("a response");
    assert!(!server.received()[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn a_certificate_from_an_unknown_authority_is_rejected() {
    let (server, _) = Loopback::start_tls([Reply::new(200, "{}")]).await;
    let base = format!("https://{}", server.address());
    let client = client(Transport::plain().expect("a transport"), &base, Ok("token-1"));
    let refused = get(&client, "/one").await.expect_err("a stranger");
    assert!(matches!(refused, CloudError::Unreachable(_)), "{refused}");
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn a_write_that_finds_no_connection_was_not_sent() {
    let client = client(Transport::plain().expect("a transport"), "http://127.0.0.1:1", Err("never called"));
    let url = client.endpoint().join("/one").expect("an address");
    let send = async |bucket| {
        let call = ArmCall::new(operations::UPDATE_SCALE_SET, "one", bucket);
        client.send(&call, Method::PATCH, &url, &[], Bytes::new()).await.expect_err("nobody listens")
    };
    let write = send(Bucket::Update).await;
    assert!(matches!(write, CloudError::NotSent(_)) && !write.outcome_unknown() && write.may_be_repeated(), "{write}");
    assert!(write.to_string().contains("cannot connect"), "{write}");
    assert!(matches!(send(Bucket::SetGet).await, CloudError::Unreachable(_)), "a read says that the cloud is away");
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let (server, certificate) = Loopback::start_tls([Reply::new(200, "{}")]).await;
    let base = format!("https://{}", server.address());
    let client = client(Transport::trusting(certificate), &base, Err("AADSTS700016: no such application"));
    let denied = get(&client, "/one").await.expect_err("no token");
    assert!(matches!(denied, CloudError::Denied(_)), "{denied}");
    assert!(denied.to_string().contains("AADSTS700016"), "{denied}");
    assert!(server.received().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_missing_response_ends_at_the_time_limit() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base = format!("http://{}", silent.local_addr().expect("an address"));
    let client = client(Transport::plain().expect("a transport"), &base, Ok("unused"));
    let late = get(&client, "/one").await.expect_err("no response");
    assert!(matches!(late, CloudError::Unreachable(_)), "{late}");
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_the_call_sent_again() {
    let refused = || Reply::new(401, r#"{"error":{"code":"ExpiredAuthenticationToken","message":"no"}}"#);
    let replies = [refused(), Reply::new(200, "{}"), refused(), refused(), refused()];
    let (server, certificate) = Loopback::start_tls(replies).await;
    let base = format!("https://{}", server.address());
    let client = client(Transport::trusting(certificate), &base, Ok("token-1"));
    get(&client, "/one").await.expect("accepted with the second token");
    let tokens = |server: &Loopback| -> Vec<String> {
        let received = server.received().into_iter();
        received.map(|received| received.headers["authorization"].to_str().expect("text").to_owned()).collect()
    };
    assert_eq!(tokens(&server), ["Bearer token-1", "Bearer token-2"]);
    let denied = get(&client, "/one").await.expect_err("both are refused");
    assert!(matches!(denied, CloudError::Denied(_)), "{denied}");
    assert_eq!(tokens(&server).len(), 4);
    get(&client, "/one").await.expect_err("refused again");
    assert_eq!(tokens(&server).len(), 5, "not renewed again at once");
}

/// Renewing takes time: it may be more than the caller has.
#[tokio::test]
async fn a_write_whose_token_is_refused_is_not_sent_again_until_its_caller_asks_for_it() {
    let refused = || Reply::new(401, r#"{"error":{"code":"ExpiredAuthenticationToken","message":"no"}}"#);
    let (server, certificate) =
        Loopback::start_tls([refused(), Reply::new(202, ""), refused(), refused(), refused()]).await;
    let base = format!("https://{}", server.address());
    let client = client(Transport::trusting(certificate), &base, Ok("token-1"));
    let url = client.endpoint().join("/one").expect("an address");
    let write = async || {
        let call = ArmCall::new(operations::UPDATE_SCALE_SET, "one", Bucket::Update);
        client.send(&call, Method::PATCH, &url, &[], Bytes::new()).await
    };
    let error = write().await.expect_err("refused");
    assert!(matches!(error, CloudError::NotSent(_)) && error.may_be_repeated(), "{error}");
    assert!(error.to_string().contains("ExpiredAuthenticationToken"), "{error}");
    assert_eq!(server.received().len(), 1);
    write().await.expect("accepted with the second token");
    assert_eq!(server.received()[1].headers["authorization"], "Bearer token-2");
    write().await.expect_err("refused, and renewed");
    let error = write().await.expect_err("the third token is refused too");
    assert!(matches!(error, CloudError::Denied(_)), "{error}");
    assert_eq!(server.received().len(), 4, "each was sent once");
}

/// A credential that never responds.
#[derive(Debug)]
struct Hanging;

#[async_trait::async_trait]
impl TokenCredential for Hanging {
    async fn get_token(
        &self,
        _scopes: &[&str],
        _options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_a_token_for_a_second_only() {
    let renew: NewCredential = Arc::new(|| Ok(Arc::new(Hanging)));
    let bearer = Bearer { credential: Arc::new(Hanging), scope: "https://arm.test/.default".to_owned(), renew };
    let endpoint = Url::parse("https://127.0.0.1:1").expect("an address");
    let transport = Arc::new(Transport::plain().expect("a transport"));
    let client = ArmClient::new(transport, endpoint, Some(bearer), Arc::new(CallLimiter::default()));
    let url = client.endpoint().join("/one").expect("an address");
    for (bucket, seconds) in [(Bucket::Update, 1), (Bucket::Delete, 1), (Bucket::SetGet, 10)] {
        let began = Instant::now();
        let call = ArmCall::new(operations::UPDATE_SCALE_SET, "one", bucket);
        let error = client.send(&call, Method::PATCH, &url, &[], Bytes::new()).await.expect_err("no token");
        assert_eq!(matches!(error, CloudError::NotSent(_)), bucket.is_write(), "{error}");
        assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{bucket}");
    }
}

#[tokio::test]
async fn another_credential_is_used_at_once_and_one_without_a_token_never() {
    let (server, certificate) = Loopback::start_tls([(); 3].map(|()| Reply::new(200, "{}"))).await;
    let base = format!("https://{}", server.address());
    let client = client(Transport::trusting(certificate), &base, Ok("token-1"));
    get(&client, "/one").await.expect("a response");
    let refused = client.sign_in_with(Arc::new(|| Ok(Arc::new(Fixed(Err("expired")))))).await;
    assert!(refused.as_ref().is_err_and(|reason| reason.contains("expired")), "{refused:?}");
    get(&client, "/one").await.expect("a response");
    client.sign_in_with(Arc::new(|| Ok(Arc::new(Fixed(Ok("token-3")))))).await.expect("a token");
    get(&client, "/one").await.expect("a response");
    let received = server.received();
    let tokens: Vec<_> =
        received.iter().map(|received| received.headers["authorization"].to_str().expect("text")).collect();
    assert_eq!(tokens, ["Bearer token-1", "Bearer token-1", "Bearer token-3"]);
}
