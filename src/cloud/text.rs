//! Makes texts from a cloud safe for a log line, an event or a gRPC status.

use std::borrow::Cow;
use std::error::Error as StdError;

use super::secrets::redacted;

/// Longest message kept of an error or of a failed launch. AWS and Azure say at the end which policy denies a call, or
/// how much of a quota is left.
pub const MESSAGE_CHARS_MAX: usize = 600;

/// Replaces what a terminal or a log viewer might act on: control characters, line breaks, escapes, and characters that
/// change the direction of text or are invisible. Each becomes `\n`, `\r`, `\t` or `\uXXXX`, which JSON reads as the
/// same character.
///
/// Our own secrets are taken out, too.
pub fn printable(text: &str) -> Cow<'_, str> {
    let text = redacted(text);
    if !text.contains(is_unprintable) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            _ if is_unprintable(character) => {
                let units =
                    character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
                safe.push_str(&units);
            }
            _ => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// A text of JSON in which [`printable`]'s characters are escaped, except for line breaks: outside strings, there are
/// no others.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    let text = redacted(text);
    if !has_unprintable(&text) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' => safe.push('\n'),
            _ if is_unprintable(character) => {
                character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| safe.push_str(&format!("\\u{unit:04x}")));
            }
            _ => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// Whether a text with line breaks has anything else that is not printable.
pub fn has_unprintable(text: &str) -> bool {
    text.contains(|character| character != '\n' && is_unprintable(character))
}

/// A string that YAML reads as this text, and that shows nothing else. JSON's form is valid YAML, except that YAML
/// knows no pairs of surrogates.
pub fn yaml_string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let mut safe = String::with_capacity(quoted.len());
    for character in quoted.chars() {
        match u32::from(character) {
            code if !is_unprintable(character) || character == '\n' => safe.extend(char::from_u32(code)),
            code if code > 0xffff => safe.push_str(&format!("\\U{code:08x}")),
            code => safe.push_str(&format!("\\u{code:04x}")),
        }
    }
    safe
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // Soft hyphen, Arabic letter mark, zero-width characters and directional marks.
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            // Line and paragraph separators, directional embeddings and overrides.
            | '\u{2028}'..='\u{202e}'
            // Invisible operators and directional isolates.
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // Invisible tags.
            | '\u{e0000}'..='\u{e007f}')
}

/// Puts a text on one line, replaces what is not printable, and cuts it to `chars_max` characters. A text that was cut
/// ends in `…`.
pub fn shorten(text: &str, chars_max: usize) -> String {
    let mut line = printable(&beginning(text, chars_max.saturating_add(SECRET_CHARS_MAX))).into_owned();
    if line.char_indices().nth(chars_max).is_some() {
        let kept = line.char_indices().nth(chars_max.saturating_sub(1)).map_or(0, |(start, _)| start);
        line.truncate(kept);
        line.push('…');
    }
    // Many of these are kept.
    line.shrink_to_fit();
    line
}

/// No secret is longer. One that a cut would divide could no longer be recognised.
const SECRET_CHARS_MAX: usize = 16 * 1024;

/// The first characters of a text, on one line.
fn beginning(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut left = chars_max;
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(left));
        left = left.saturating_sub(word.chars().take(left).count() + 1);
        if left == 0 {
            break;
        }
    }
    line
}

/// A text as one word of a shell command. Names of clouds may contain spaces, quotes and worse.
pub fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@%+=,".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let visible = text.replace(char::is_control, "\u{fffd}");
    format!("'{}'", visible.replace('\'', "'\\''"))
}

/// An error and its causes, from the outside in, separated by colons. A cause that the text before it already ends with
/// is left out.
pub fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[test]
    fn json_and_yaml_are_printable_and_are_read_as_the_same_text() {
        let text = "a\u{9b}31m\u{2028}b\u{202e}c\u{e0041}\u{85}\u{7f}\"'\\: #\n\t-";
        let json = serde_json::to_string(text).expect("JSON");
        let safe = printable_json(&json);
        assert!(!has_unprintable(&safe), "{safe:?}");
        assert_eq!(serde_json::from_str::<String>(&safe).expect("JSON"), text);
        let yaml = yaml_string(text);
        assert!(!has_unprintable(&yaml), "{yaml:?}");
        assert_eq!(serde_saphyr::from_str::<String>(&yaml).expect("YAML"), text);
    }

    #[test]
    fn a_shortened_text_is_one_line_within_the_limit() {
        assert_eq!(shorten(" a\n  b ", 200), "a b");
        assert_eq!(shorten(&"ä".repeat(200), 200), "ä".repeat(200));
        let long = shorten(&"ä".repeat(201), 200);
        assert_eq!((long.chars().count(), long.chars().next_back()), (200, Some('…')));
    }

    #[test]
    fn no_text_can_command_a_terminal_or_forge_a_line() {
        assert_eq!(printable("plain ä 🕴 text"), "plain ä 🕴 text");
        let evil = "a\n\r\t\u{1b}[2J\u{7}\u{7f}\u{85}\u{9b}31m\u{202e}\u{2066}\u{2028}\u{feff}\u{e0041}z";
        let expected = "a\\n\\r\\t\\u001b[2J\\u0007\\u007f\\u0085\\u009b31m\\u202e\\u2066\\u2028\\ufeff\\udb40\\udc41z";
        assert_eq!(printable(evil), expected);
        let json: String = serde_json::from_str(&format!("\"{expected}\"")).expect("JSON");
        assert_eq!(json, evil);
        assert!(!shorten(evil, 200).contains(is_unprintable));
    }

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        #[source]
        cause: Option<Box<Link>>,
    }

    #[test]
    fn an_error_chain_names_each_cause_once() {
        let link = |text, cause: Option<Link>| Link { text, cause: cause.map(Box::new) };
        let root = link("connection refused", None);
        let repeated = link("cannot connect: connection refused", Some(root));
        let error = link("DescribeAutoScalingGroups failed", Some(repeated));
        assert_eq!(error_chain(&error), "DescribeAutoScalingGroups failed: cannot connect: connection refused");
    }

    #[test]
    fn a_name_cannot_leave_its_word_in_a_shell() {
        assert_eq!(shell_word("web-1.blue"), "web-1.blue");
        assert_eq!(shell_word("my group"), "'my group'");
        assert_eq!(shell_word("a'; rm -rf $HOME #"), "'a'\\''; rm -rf $HOME #'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("a\u{1b}[2J"), "'a\u{fffd}[2J'");
    }
}
