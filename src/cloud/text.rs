//! Texts from a cloud, made fit for a log line, an event or a gRPC status.

use std::error::Error as StdError;

/// Longest message kept of an error or of a failed launch. The Cluster Autoscaler repeats it in events and in its status.
pub const MESSAGE_CHARS_MAX: usize = 200;

/// Puts a text on one line and cuts it to `chars_max` characters. A text that was cut ends in `…`.
pub fn shorten(text: &str, chars_max: usize) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.char_indices().nth(chars_max).is_some() {
        let kept = line.char_indices().nth(chars_max.saturating_sub(1)).map_or(0, |(start, _)| start);
        line.truncate(kept);
        line.push('…');
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

/// An error and its causes, from the outside in, separated by colons. A cause that the text before it already ends with is
/// left out.
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
    fn a_shortened_text_is_one_line_of_at_most_so_many_characters() {
        assert_eq!(shorten(" a\n  b ", 200), "a b");
        assert_eq!(shorten(&"ä".repeat(200), 200), "ä".repeat(200));
        let long = shorten(&"ä".repeat(201), 200);
        assert_eq!((long.chars().count(), long.chars().next_back()), (200, Some('…')));
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
