//! The token endpoints: the directory, the instance metadata service, and App Service.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use azure_core::base64::encode_url_safe;
use headcount::clouds::simulated::{RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::json;

use super::super::core::lock;
use super::super::http_messages::{HttpResponse, Request};
use super::errors::error;
use super::router::ArmApi;

/// An issued token.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) token: String,
    /// The request for it.
    pub(crate) asked: Request,
    expires: SystemTime,
    /// Whether it is refused from now on, although it has not expired.
    pub(super) is_revoked: bool,
}

impl ArmApi {
    /// `POST /{tenant}/oauth2/v2.0/token`: any client gets a new token each time.
    pub(super) fn issue_token(&self, request: &Request, tenant: &str) -> HttpResponse {
        if request.field("client_id").is_none() || request.field("grant_type").is_none() {
            let body = json!({"error": "invalid_request", "error_description": "AADSTS900144: a parameter is missing"});
            return HttpResponse::json(400, &body);
        }
        let life = self.behavior().token_life;
        HttpResponse::json(
            200,
            &json!({
                "token_type": "Bearer",
                "expires_in": life.as_secs(),
                "ext_expires_in": life.as_secs(),
                "access_token": self.issued(request, &format!("directory-{tenant}"), life),
            }),
        )
    }

    /// `GET /metadata/…`
    pub(super) fn metadata(&self, request: &Request, path: &[&str]) -> HttpResponse {
        if request.header("metadata") != Some("true") {
            return HttpResponse::json(400, &json!({"error": "Bad request. Required metadata header not specified"}));
        }
        match path {
            ["identity", "oauth2", "token"] => HttpResponse::json(200, &self.machine_token(request, "machine")),
            ["instance", "compute", "subscriptionId"] => HttpResponse::new(200).body(SUBSCRIPTION),
            ["instance", ..] => HttpResponse::json(
                200,
                &json!({"compute": {
                    "subscriptionId": SUBSCRIPTION, "resourceGroupName": RESOURCE_GROUP, "location": "eastus",
                }}),
            ),
            _ => HttpResponse::json(404, &json!({"error": "Not found"})),
        }
    }

    /// `GET /msi/token`, as App Service has it.
    pub(super) fn app_service_token(&self, request: &Request) -> HttpResponse {
        if request.header("x-identity-header").is_none() {
            return HttpResponse::json(
                401,
                &json!({"error": {"code": "Unauthorized", "message": "no X-IDENTITY-HEADER"}}),
            );
        }
        HttpResponse::json(200, &self.machine_token(request, "service"))
    }

    /// Why a request is rejected. Only requests over TLS need a token; over plain HTTP a client must not send one.
    pub(super) fn reject_unauthorized(&self, request: &Request) -> Option<HttpResponse> {
        let held = request.header("authorization");
        if request.scheme == "http" {
            let message = "A token came over plain HTTP.";
            return held.map(|_| error(400, "TokenInTheOpen", message));
        }
        let Some(held) = held.and_then(|held| held.strip_prefix("Bearer ")) else {
            let message = "Authentication failed. The 'Authorization' header is missing.";
            return Some(error(401, "AuthenticationFailed", message));
        };
        match lock(&self.issued).iter().find(|issued| issued.token == held) {
            None => Some(error(401, "InvalidAuthenticationToken", "The access token is invalid.")),
            Some(issued) if issued.expires < SystemTime::now() => {
                Some(error(401, "ExpiredAuthenticationToken", "The access token expiry is in the past."))
            }
            Some(issued) if issued.is_revoked || self.behavior().refuses_tokens => {
                Some(error(401, "InvalidAuthenticationToken", "The access token has been revoked."))
            }
            Some(_) => None,
        }
    }

    fn issued(&self, request: &Request, prefix: &str, life: Duration) -> String {
        // In the form of Azure's: a header, claims and a signature.
        let client = request.field("client_id").or_else(|| request.parameter("client_id"));
        let claims = json!({"appid": client.unwrap_or_else(|| "client-of-the-machine".to_owned())}).to_string();
        let token = format!("e30.{}.{prefix}-{}", encode_url_safe(claims).trim_end_matches('='), self.number());
        let issued = Issued {
            token: token.clone(),
            asked: request.clone(),
            expires: SystemTime::now() + life,
            is_revoked: false,
        };
        lock(&self.issued).push(issued);
        token
    }

    fn machine_token(&self, request: &Request, prefix: &str) -> serde_json::Value {
        let life = self.behavior().token_life;
        let expires = (SystemTime::now() + life).duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "access_token": self.issued(request, prefix, life),
            "client_id": request.parameter("client_id").unwrap_or_default(),
            "expires_in": life.as_secs().to_string(),
            "expires_on": expires.as_secs().to_string(),
            "resource": request.parameter("resource").unwrap_or_default(),
            "token_type": "Bearer",
        })
    }
}
