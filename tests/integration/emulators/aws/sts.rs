//! STS: who calls, and roles.

use super::super::http_messages::{HttpResponse, Request};
use super::errors::error;
use super::router::AwsApi;
use super::xml::{element, text};

/// The access key of a client that assumed a role. The user's own keys begin with other letters.
const ROLE_KEY: &str = "ASIAROLE";

impl AwsApi {
    pub(super) fn assume_role(&self, request: &Request) -> HttpResponse {
        let arn = request.field("RoleArn").unwrap_or_default();
        let wanted = self.behavior().external_id;
        if wanted.is_some() && wanted != request.field("ExternalId") {
            return error(
                403,
                "AccessDenied",
                &format!("not authorized to perform: sts:AssumeRole on resource: {arn}"),
            );
        }
        let session = request.field("RoleSessionName").unwrap_or_default();
        let assumed = arn.replacen(":iam:", ":sts:", 1).replacen(":role/", ":assumed-role/", 1);
        let user = text("AssumedRoleId", format!("AROA:{session}")) + &text("Arn", format!("{assumed}/{session}"));
        let credentials = text("AccessKeyId", ROLE_KEY)
            + &text("SecretAccessKey", "secret")
            + &text("SessionToken", reversed(&format!("{assumed}/{session}")))
            + &text("Expiration", "2099-01-01T00:00:00Z");
        response("AssumeRole", element("AssumedRoleUser", user) + &element("Credentials", credentials))
    }

    /// The session token says who has assumed which role, in a form that no response repeats.
    pub(super) fn caller_identity(&self, request: &Request) -> HttpResponse {
        let user = || "arn:aws:iam::000000000000:user/test".to_owned();
        let arn = request.header("x-amz-security-token").map_or_else(user, reversed);
        response("GetCallerIdentity", text("Arn", arn) + &text("UserId", "AIDA") + &text("Account", "000000000000"))
    }
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

pub(super) fn response(action: &str, result: String) -> HttpResponse {
    let result = element(&format!("{action}Result"), result);
    let metadata = element("ResponseMetadata", text("RequestId", "00000000-0000-4000-9000-000000000001"));
    let body = format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">{result}{metadata}</{action}Response>"
    );
    HttpResponse::xml(200, body)
}
