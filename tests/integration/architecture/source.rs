//! Rust source with comments and literals blanked out.

/// The source with comments, string literals and character literals blanked out. Line numbers stay the same.
pub(super) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped_length(rest, code.chars().next_back());
        let taken = if skipped == 0 { first.len_utf8() } else { skipped };
        let (token, after) = rest.split_at(taken);
        if skipped == 0 {
            code.push(first);
        } else {
            code.extend(token.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = after;
    }
    code
}

/// The length of the comment or literal at the start of the text; 0 if it starts with code.
fn skipped_length(text: &str, before: Option<char>) -> usize {
    let in_identifier = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match text.as_bytes() {
        [b'/', b'/', ..] => text.find('\n').unwrap_or(text.len()),
        [b'/', b'*', ..] => block_comment_length(text),
        [b'"', ..] => quoted_length(text, '"'),
        [b'r', b'"' | b'#', ..] if !in_identifier => raw_string_length(text),
        [b'\'', b'\\', ..] => quoted_length(text, '\''),
        // A quote after the next character closes a character literal; otherwise this is a lifetime.
        [b'\'', ..] => {
            let mut following = text.char_indices().skip(2);
            following.next().filter(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1)
        }
        _ => 0,
    }
}

/// Block comments nest.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#` and so on; 0 for a raw identifier.
fn raw_string_length(text: &str) -> usize {
    let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
    let opening = 1 + hashes + 1;
    if text.as_bytes().get(opening - 1) != Some(&b'"') {
        return 0;
    }
    let closing = format!("\"{}", "#".repeat(hashes));
    text[opening..].find(&closing).map_or(text.len(), |at| opening + at + closing.len())
}

#[test]
fn comments_and_literals_are_blanked_out() {
    for (text, code) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c\n */ d */ e", "a          \n         e"),
        (r#"f("a\"b", c)"#, "f(      , c)"),
        ("f(r#\"a\"b\"#, c)", "f(        , c)"),
        ("r#type + var\"a\"", "r#type + var   "),
        (r"f('a', '\'', '\u{e9}', 'é')", "f(   ,     ,         ,    )"),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ("\"unclosed", "         "),
    ] {
        // One blank per character.
        assert_eq!(code_only(text).trim_end(), code.trim_end(), "{text}");
    }
}
