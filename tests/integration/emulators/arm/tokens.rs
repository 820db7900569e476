//! Where tokens come from: the directory, the metadata service of a machine, and App Service.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headcount::clouds::simulated::{RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::json;

use super::super::backstage::lock;
use super::super::exchange::{Answer, Request};
use super::errors::error;
use super::front::Window;

/// A token that was given out.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) token: String,
    /// What it was asked for with.
    pub(crate) asked: Request,
    expires: SystemTime,
}

impl Window {
    /// `POST /{tenant}/oauth2/v2.0/token`: any client gets one, each time another.
    pub(super) fn issue_token(&self, request: &Request, tenant: &str) -> Answer {
        if request.field("client_id").is_none() || request.field("grant_type").is_none() {
            let body = json!({"error": "invalid_request", "error_description": "AADSTS900144: a parameter is missing"});
            return Answer::json(400, &body);
        }
        let life = self.habits().token_life;
        Answer::json(
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
    pub(super) fn metadata(&self, request: &Request, path: &[&str]) -> Answer {
        if request.header("metadata") != Some("true") {
            return Answer::json(400, &json!({"error": "Bad request. Required metadata header not specified"}));
        }
        match path {
            ["identity", "oauth2", "token"] => Answer::json(200, &self.machine_token(request, "machine")),
            ["instance", "compute", "subscriptionId"] => Answer::new(200).body(SUBSCRIPTION),
            ["instance", ..] => Answer::json(
                200,
                &json!({"compute": {
                    "subscriptionId": SUBSCRIPTION, "resourceGroupName": RESOURCE_GROUP, "location": "eastus",
                }}),
            ),
            _ => Answer::json(404, &json!({"error": "Not found"})),
        }
    }

    /// `GET /msi/token`, as App Service has it.
    pub(super) fn app_service_token(&self, request: &Request) -> Answer {
        if request.header("x-identity-header").is_none() {
            return Answer::json(401, &json!({"error": {"code": "Unauthorized", "message": "no X-IDENTITY-HEADER"}}));
        }
        Answer::json(200, &self.machine_token(request, "service"))
    }

    /// Why a request is not let in; only one under TLS is asked for a token, for over plain HTTP none must come.
    pub(super) fn turned_away(&self, request: &Request) -> Option<Answer> {
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
            Some(_) => None,
        }
    }

    fn issued(&self, request: &Request, prefix: &str, life: Duration) -> String {
        let token = format!("{prefix}-{}", self.number());
        let issued = Issued { token: token.clone(), asked: request.clone(), expires: SystemTime::now() + life };
        lock(&self.issued).push(issued);
        token
    }

    fn machine_token(&self, request: &Request, prefix: &str) -> serde_json::Value {
        let life = self.habits().token_life;
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
