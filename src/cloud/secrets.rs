//! Our own secrets, kept out of every text. A proxy or a sign-in service can send back what it was sent, and texts
//! from there go to logs, statuses and tables.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{PoisonError, RwLock};

use secrecy::{ExposeSecret as _, SecretSlice, SecretString};

/// A client secret, a password or a token: it cannot be printed, and its memory is overwritten when it is dropped.
#[derive(Clone, Debug, Default)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into())
    }

    /// The text, for what sends it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

// Two configurations are compared by it.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

/// A private key, or a file with one: like [`Secret`], but bytes.
#[derive(Clone, Debug, Default)]
pub struct SecretKey(SecretSlice<u8>);

impl SecretKey {
    /// Takes the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for what signs with them.
    pub fn expose(&self) -> &[u8] {
        self.0.expose_secret()
    }
}

impl PartialEq for SecretKey {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for SecretKey {}

/// The text that replaces a secret.
const REDACTED: &str = "[redacted]";
/// Shorter secrets are ignored, because they would match ordinary words. No token or key is that short.
const LENGTH_MIN: usize = 8;
/// How many secrets that were wrapped over lines are removed from one text.
const WRAPPED_MAX: usize = 16;
/// How many tokens are removed from texts: the latest ones, in three forms each. Tokens live for an hour, and each
/// source has two or three.
const TOKENS_MAX: usize = 384;
/// How many secrets that live longer: client secrets and secret keys. They change only when a person or a Secret does.
const LONG_LIVED_MAX: usize = 384;

static KNOWN: Known = Known::new();

/// Keeps a token, which expires, out of every text from now on.
pub fn keep_secret(secret: &str) {
    KNOWN.keep_token(secret);
}

/// Keeps a secret that does not expire out of every text from now on. No number of tokens makes this process forget it.
pub fn keep_long_lived_secret(secret: &str) {
    KNOWN.keep_long_lived(secret);
}

/// Takes our own secrets out of a text.
pub(super) fn redacted(text: &str) -> Cow<'_, str> {
    KNOWN.redacted(text)
}

/// The secrets that no text shows.
struct Known {
    tokens: RwLock<VecDeque<String>>,
    long_lived: RwLock<VecDeque<String>>,
}

impl Known {
    const fn new() -> Self {
        Self { tokens: RwLock::new(VecDeque::new()), long_lived: RwLock::new(VecDeque::new()) }
    }

    fn keep_token(&self, secret: &str) {
        keep(secret, &self.tokens, TOKENS_MAX);
    }

    fn keep_long_lived(&self, secret: &str) {
        keep(secret, &self.long_lived, LONG_LIVED_MAX);
    }

    fn redacted<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for known in [&self.long_lived, &self.tokens] {
            let known = known.read().unwrap_or_else(PoisonError::into_inner);
            for secret in known.iter() {
                if text.contains(secret.as_str()) {
                    text = Cow::Owned(text.replace(secret.as_str(), REDACTED));
                }
            }
            // A service may have wrapped what it was sent.
            for _ in 0..WRAPPED_MAX {
                let squeezed = Squeezed::of(&text);
                let Some(place) = known.iter().filter_map(|secret| squeezed.find(secret)).min() else { break };
                text = Cow::Owned(format!("{}{REDACTED}{}", &text[..place.start], &text[place.end..]));
            }
        }
        text
    }
}

fn keep(secret: &str, among: &RwLock<VecDeque<String>>, max: usize) {
    let secret = secret.trim();
    if secret.len() < LENGTH_MIN {
        return;
    }
    let mut known = among.write().unwrap_or_else(PoisonError::into_inner);
    for form in [
        secret.to_owned(),
        encoded(secret, |byte| format!("%{byte:02X}")),
        encoded(secret, |byte| format!("%{byte:02x}")),
    ] {
        // A secret that is used again counts as the latest one.
        if let Some(at) = known.iter().position(|one| *one == form) {
            known.remove(at);
        }
        if known.len() >= max {
            known.pop_front();
        }
        known.push_back(form);
    }
}

/// A secret as a form carries it.
fn encoded(secret: &str, escaped: impl Fn(u8) -> String) -> String {
    let bytes = secret.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => escaped(byte),
    });
    bytes.collect()
}

/// A text without the line breaks and the spaces around them, and where each of its bytes was.
struct Squeezed {
    text: String,
    places: Vec<usize>,
}

impl Squeezed {
    /// Line breaks may have been escaped already.
    fn of(text: &str) -> Self {
        let (mut squeezed, mut places) = (String::new(), Vec::new());
        if !text.contains(['\n', '\r']) && !text.contains("\\n") && !text.contains("\\r") {
            return Self { text: squeezed, places };
        }
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let at = text.len() - rest.len();
            if let Some(after) = ["\\n", "\\r", "\\t"].iter().find_map(|escaped| rest.strip_prefix(escaped)) {
                rest = after;
                continue;
            }
            rest = &rest[character.len_utf8()..];
            if !character.is_whitespace() {
                squeezed.push(character);
                places.extend(std::iter::repeat_n(at, character.len_utf8()));
            }
        }
        Self { text: squeezed, places }
    }

    /// Where a secret was.
    fn find(&self, secret: &str) -> Option<Place> {
        let at = self.text.find(secret)?;
        let (start, last) = (self.places.get(at)?, self.places.get(at + secret.len() - 1)?);
        // Secrets are ASCII.
        Some(Place { start: *start, end: last + 1 }).filter(|_| secret.is_ascii())
    }
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    start: usize,
    end: usize,
}

#[cfg(test)]
mod tests {
    use super::super::text::{printable, shorten};
    use super::*;

    #[test]
    fn a_secret_cannot_be_printed() {
        let (secret, key) = (Secret::new("hunter2-hunter2"), SecretKey::new(b"hunter2-hunter2".to_vec()));
        let shown = format!("{secret:?} {key:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("104, 117"), "{shown}");
        assert!(secret == Secret::new(secret.expose()) && key != SecretKey::default());
    }

    #[test]
    fn no_text_shows_a_secret_in_either_form() {
        keep_secret(" s3cret/of+the test\n");
        keep_secret("short");
        let echoed = "401: Authorization: Bearer s3cret/of+the test; client_secret=s3cret%2Fof%2Bthe%20test short";
        assert_eq!(printable(echoed), "401: Authorization: Bearer [redacted]; client_secret=[redacted] short");
        assert_eq!(shorten("x s3cret/of+the test", 8), "x [reda…", "nor its beginning where the text is cut");
        assert_eq!(printable("client_secret=s3cret%2fof%2bthe%20test"), "client_secret=[redacted]");
    }

    #[test]
    fn a_secret_that_is_wrapped_over_lines_is_not_shown() {
        keep_secret("wrapped-Secret+0123456789abcdef");
        for text in [
            "you sent wrapped-Secret+\n0123456789\n  abcdef, twice: wrapped-Secret+0123\r\n456789abcdef.",
            "you sent wrapped-Secret+\r0123456789abcdef, twice: wrapped-Secret+0123\r456789abcdef.",
            "you sent wrapped-Secret+\\n0123456789\\r\\n  abcdef, twice: wrapped-Secret+0123\\n456789abcdef.",
        ] {
            assert_eq!(redacted(text), "you sent [redacted], twice: [redacted].");
        }
    }

    #[test]
    fn no_number_of_tokens_makes_it_forget_a_client_secret() {
        // Its own store: the other tests' secrets would be forgotten too.
        let known = Known::new();
        known.keep_long_lived("a-client-secret-for-two-years");
        (0..2 * TOKENS_MAX).for_each(|number| known.keep_token(&format!("an-hourly-token-{number}")));
        assert_eq!(known.redacted("a-client-secret-for-two-years"), REDACTED);
        assert_eq!(known.tokens.read().expect("no panic").len(), TOKENS_MAX);
    }
}
