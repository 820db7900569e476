//! Credentials of service accounts: from STS with a web identity (IRSA), and from the agent of EKS Pod Identity.

use std::time::SystemTime;

use serde_json::json;

use super::super::core::lock;
use super::super::http_messages::{HttpResponse, Request};
use super::errors::error;
use super::router::AwsApi;
use super::sts::response;
use super::xml::{element, text};

/// A key that a service account got.
#[derive(Clone, Debug)]
pub(crate) struct IssuedKey {
    pub(crate) key: String,
    /// The token that the key was issued for.
    pub(crate) token: String,
    expires: SystemTime,
}

impl IssuedKey {
    /// Whether a request with this header is signed with the key.
    pub(crate) fn signed(&self, authorization: &str) -> bool {
        authorization.contains(&format!("Credential={}/", self.key))
    }

    fn expiration(&self) -> String {
        humantime::format_rfc3339_seconds(self.expires).to_string()
    }
}

impl AwsApi {
    /// `AssumeRoleWithWebIdentity`; a client needs no credentials for it.
    pub(super) fn assume_role_with_web_identity(&self, request: &Request) -> HttpResponse {
        let token = request.field("WebIdentityToken").unwrap_or_default();
        let Some(issued) = self.issue(&token) else {
            return error(400, "ExpiredTokenException", &format!("Token expired: {token}"));
        };
        let credentials = text("AccessKeyId", &issued.key)
            + &text("SecretAccessKey", "secret")
            + &text("SessionToken", format!("session-of-{}", issued.key))
            + &text("Expiration", issued.expiration());
        response("AssumeRoleWithWebIdentity", element("Credentials", credentials))
    }

    /// `GET /v1/credentials`, as the agent on each node serves it.
    pub(super) fn pod_identity(&self, request: &Request) -> HttpResponse {
        let token = request.header("authorization").unwrap_or_default();
        let Some(issued) = self.issue(token) else {
            return HttpResponse::new(400).body(format!("(ExpiredTokenException): Token expired: {token}"));
        };
        HttpResponse::json(
            200,
            &json!({
                "AccessKeyId": issued.key,
                "SecretAccessKey": "secret",
                "Token": format!("session-of-{}", issued.key),
                "AccountId": "000000000000",
                "Expiration": issued.expiration(),
            }),
        )
    }

    /// Whether a request is signed with a key of a service account that is no longer valid.
    pub(super) fn has_expired(&self, authorization: &str) -> bool {
        let now = SystemTime::now();
        lock(&self.issued).iter().any(|issued| issued.expires <= now && issued.signed(authorization))
    }

    fn issue(&self, token: &str) -> Option<IssuedKey> {
        let behavior = self.behavior();
        if behavior.service_account_token.is_some_and(|accepted| accepted != token) {
            return None;
        }
        let mut issued = lock(&self.issued);
        let key = format!("ASIAPOD{:03}", issued.len());
        let expires = SystemTime::now() + behavior.credential_life;
        issued.push(IssuedKey { key, token: token.to_owned(), expires });
        issued.last().cloned()
    }
}
