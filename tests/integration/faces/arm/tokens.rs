//! Where tokens come from: the directory, and the metadata service of a machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headcount::cloud::simulated::{RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::json;

use super::super::exchange::{Answer, Request};
use super::front::Window;

/// How long a token is good for.
const LIFE: Duration = Duration::from_secs(3600);

impl Window {
    /// `POST /{tenant}/oauth2/v2.0/token`: any client gets one, each time another.
    pub(super) fn issue_token(&self, request: &Request, tenant: &str) -> Answer {
        if request.field("client_id").is_none() || request.field("grant_type").is_none() {
            let body = json!({"error": "invalid_request", "error_description": "AADSTS900144: a parameter is missing"});
            return Answer::json(400, &body);
        }
        Answer::json(
            200,
            &json!({
                "token_type": "Bearer",
                "expires_in": LIFE.as_secs(),
                "ext_expires_in": LIFE.as_secs(),
                "access_token": format!("directory-{tenant}-{}", self.number()),
            }),
        )
    }

    /// `GET /metadata/…`
    pub(super) fn metadata(&self, request: &Request, path: &[&str]) -> Answer {
        if request.header("metadata") != Some("true") {
            return Answer::json(400, &json!({"error": "Bad request. Required metadata header not specified"}));
        }
        match path {
            ["identity", "oauth2", "token"] => Answer::json(200, &self.machine_token(request)),
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

    fn machine_token(&self, request: &Request) -> serde_json::Value {
        let expires = (SystemTime::now() + LIFE).duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "access_token": format!("machine-{}", self.number()),
            "client_id": request.parameter("client_id").unwrap_or_default(),
            "expires_in": LIFE.as_secs().to_string(),
            "expires_on": expires.as_secs().to_string(),
            "resource": request.parameter("resource").unwrap_or_default(),
            "token_type": "Bearer",
        })
    }
}
