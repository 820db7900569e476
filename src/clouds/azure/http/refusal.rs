//! The refusal of a sign-in, as Entra ID and the metadata services write it, and as azure_identity can read it.

use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::lifetime::plausible;

/// Why a sign-in was refused: <https://www.rfc-editor.org/rfc/rfc6749#section-5.2>.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct Refusal {
    /// A word such as `invalid_client`; empty if the body has none.
    pub(in crate::clouds::azure) error: String,
    /// It begins with the code of Entra ID, such as `AADSTS7000215`.
    pub(in crate::clouds::azure) description: String,
}

impl Refusal {
    /// Reads the body of a response. It is empty if the body is not JSON, as the page of a proxy is not.
    pub(in crate::clouds::azure) fn read(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { error: text("error"), description: text("error_description") }
    }

    // azure_identity borrows the description from the body, so it reads none with an escape in it, and drops the status
    // with any body that it cannot read.
    fn written(&self) -> Bytes {
        let plain = |text: &str| text.replace(|letter: char| letter.is_control() || matches!(letter, '"' | '\\'), " ");
        json!({ "error": plain(&self.error), "error_description": plain(&self.description) }).to_string().into()
    }
}

/// The body of a sign-in's response, in a form that azure_identity can read.
pub(in crate::clouds::azure) fn readable(status: StatusCode, body: Bytes) -> Bytes {
    if status.is_success() { plausible(body) } else { Refusal::read(&body).written() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_word_and_its_description_without_escapes() {
        let sent = r#"{"error":"invalid_client","error_description":"AADSTS7000215: \"wrong\".\r\nTrace"}"#;
        let read = readable(StatusCode::UNAUTHORIZED, Bytes::from(sent));
        assert!(!read.contains(&b'\\'), "{read:?}");
        let expected =
            Refusal { error: "invalid_client".to_owned(), description: "AADSTS7000215:  wrong .  Trace".to_owned() };
        assert_eq!(Refusal::read(&read), expected);
    }

    #[test]
    fn a_body_in_another_form_is_an_empty_refusal() {
        for sent in ["<html>Bad Gateway</html>", "", "[]", r#"{"error":{"code":"Unauthorized"}}"#] {
            let read = readable(StatusCode::BAD_GATEWAY, Bytes::from(sent));
            assert_eq!(read, r#"{"error":"","error_description":""}"#, "{sent}");
            assert_eq!(Refusal::read(&read), Refusal::default());
        }
    }

    #[test]
    fn a_token_stays_as_it_is() {
        assert_eq!(readable(StatusCode::OK, Bytes::from("{}")), "{}");
    }
}
