//! Our own secrets, kept out of every text. A proxy or a sign-in service can send back what it was sent, and texts from there go to
//! logs, statuses and tables.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{PoisonError, RwLock};

/// The text that replaces a secret.
const REDACTED: &str = "[redacted]";
/// Shorter secrets are ignored, because they would match ordinary words. No token or key is that short.
const LENGTH_MIN: usize = 8;
/// How many secrets are removed from texts: the latest ones, in two forms each. Tokens live for an hour, and each source has two or
/// three.
const SECRETS_MAX: usize = 256;

static KNOWN: RwLock<VecDeque<String>> = RwLock::new(VecDeque::new());

/// Keeps a secret out of every text from now on.
pub fn keep_secret(secret: &str) {
    let secret = secret.trim();
    if secret.len() < LENGTH_MIN {
        return;
    }
    // As a form carries it.
    let encoded: String = secret
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for form in [secret.to_owned(), encoded] {
        // A secret that is used again counts as the latest one.
        if let Some(at) = known.iter().position(|one| *one == form) {
            known.remove(at);
        }
        if known.len() >= SECRETS_MAX {
            known.pop_front();
        }
        known.push_back(form);
    }
}

/// Takes our own secrets out of a text.
pub(super) fn redacted(text: &str) -> Cow<'_, str> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = Cow::Borrowed(text);
    for secret in known.iter().filter(|secret| text.contains(secret.as_str())).collect::<Vec<_>>() {
        text = Cow::Owned(text.replace(secret.as_str(), REDACTED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::text::{printable, shorten};
    use super::*;

    #[test]
    fn no_text_shows_a_secret_in_either_form() {
        keep_secret(" s3cret/of+the test\n");
        keep_secret("short");
        let echoed = "401: Authorization: Bearer s3cret/of+the test; client_secret=s3cret%2Fof%2Bthe%20test short";
        assert_eq!(printable(echoed), "401: Authorization: Bearer [redacted]; client_secret=[redacted] short");
        assert_eq!(shorten("x s3cret/of+the test", 8), "x [reda…", "nor its beginning where the text is cut");
    }
}
