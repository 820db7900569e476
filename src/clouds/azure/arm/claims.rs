//! The identity that a token was issued to, as the token states it. Its signature is not checked: the identity is only
//! shown to people.

use azure_core::base64::decode_url_safe;
use serde::Deserialize;

/// A GUID has 36.
const ID_CHARS_MAX: usize = 64;

#[derive(Deserialize)]
struct Claims {
    /// Of tokens of version 1, which Resource Manager gets.
    appid: Option<String>,
    /// Of tokens of version 2.
    azp: Option<String>,
}

/// The application, or the client ID of the managed identity, that a token was issued to; `None` where it does not say.
pub(in crate::clouds::azure) fn application(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1)?;
    let padding = "=".repeat((4 - payload.len() % 4) % 4);
    let claims = decode_url_safe(format!("{payload}{padding}")).ok()?;
    let Claims { appid, azp } = serde_json::from_slice(&claims).ok()?;
    let is_id = |id: &String| {
        let is_plain = id.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
        is_plain && (1..=ID_CHARS_MAX).contains(&id.len())
    };
    appid.or(azp).filter(is_id)
}

#[cfg(test)]
mod tests {
    use azure_core::base64::encode_url_safe;

    use super::*;

    fn token(claims: &str) -> String {
        format!("{}.{}.signature", encode_url_safe("{}"), encode_url_safe(claims).trim_end_matches('='))
    }

    #[test]
    fn a_token_names_its_application() {
        let guid = "11111111-2222-3333-4444-555555555555";
        for (claims, expected) in [
            (format!(r#"{{"aud": "https://management.azure.com", "appid": "{guid}", "oid": "o"}}"#), Some(guid)),
            (format!(r#"{{"azp": "{guid}"}}"#), Some(guid)),
            (r#"{"oid": "o"}"#.to_owned(), None),
            (r#"{"appid": 7}"#.to_owned(), None),
            (r#"{"appid": "a\nforged"}"#.to_owned(), None),
            (format!(r#"{{"appid": "{}"}}"#, "a".repeat(65)), None),
            ("not JSON".to_owned(), None),
        ] {
            assert_eq!(application(&token(&claims)).as_deref(), expected, "{claims}");
        }
        for opaque in ["", "opaque", "a.b", "a.%.c", "..", "a.ä.c"] {
            assert_eq!(application(opaque), None, "{opaque}");
        }
    }
}
