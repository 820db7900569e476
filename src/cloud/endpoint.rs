//! The address of a cloud's API, where it is not the usual one.

use hyper::Uri;

/// Reads the URL of an HTTP service, without a slash at its end, and with `http` or `https` in lower case.
///
/// # Errors
///
/// If it is none; the text says what to write.
pub fn parse_endpoint(text: &str) -> Result<String, String> {
    let trimmed = text.trim().trim_end_matches('/');
    // A user and a password before the host are a secret, which no message repeats.
    if text.contains('@') {
        return Err("an endpoint has no '@': leave out the user and the password, as in https://host".to_owned());
    }
    if let Some((scheme, rest)) = trimmed.split_once("://").filter(|_| is_url(trimmed)) {
        return Ok(format!("{}://{rest}", scheme.to_ascii_lowercase()));
    }
    Err(format!("{text:?} is not an endpoint; write a URL such as https://host or http://127.0.0.1:5000"))
}

fn is_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let Some(authority) = uri.authority() else { return false };
    // The parser accepts ports that are not numbers up to 65535.
    let has_good_port = authority.as_str().len() == authority.host().len() || authority.port_u16().is_some();
    matches!(uri.scheme_str(), Some("http" | "https")) && !authority.host().is_empty() && has_good_port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_with_a_host_and_perhaps_a_port() {
        for good in ["http://127.0.0.1:5000", "https://host/", "http://[::1]:5000", "https://a.b/path", " http://h "] {
            assert_eq!(parse_endpoint(good).as_deref(), Ok(good.trim().trim_end_matches('/')), "{good}");
        }
        assert_eq!(parse_endpoint("HTTP://Host:1").as_deref(), Ok("http://Host:1"));
        let bad = [
            "",
            "host",
            "127.0.0.1:1",
            "http://",
            "http://[::1",
            "http://h:99999",
            "http://h:",
            "ftp://h",
            "http://a b",
        ];
        for bad in bad {
            assert!(parse_endpoint(bad).is_err_and(|message| message.contains("not an endpoint")), "{bad}");
        }
        assert!(parse_endpoint("https://u:secret@h").is_err_and(|message| !message.contains("secret")));
    }
}
