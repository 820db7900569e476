//! The paths that code names.

/// A path that leads out of the module that uses it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UsedPath {
    /// The line where it begins, from 1.
    pub(super) line: usize,
    /// Whether it starts at the root of this crate; otherwise its first segment may be another crate.
    pub(super) in_crate: bool,
    /// Its segments from there.
    pub(super) segments: Vec<String>,
}

/// A word or a punctuation mark, and its line.
struct Token<'a> {
    line: usize,
    text: &'a str,
}

/// Every path in the code of a module that leads out of the module and its parents. `use` trees are expanded.
pub(super) fn used_paths(code: &str, module: &[String]) -> Vec<UsedPath> {
    let tokens = tokens(code);
    let mut paths = Vec::new();
    // The open inline modules, each by the depth of braces at which it was opened.
    let mut depth = 0_usize;
    let mut inline: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text {
            text if begins_path(&tokens, at, text) => {
                let mut trees = Vec::new();
                at = read_tree(&tokens, at, &mut Vec::new(), &mut trees);
                let nesting = module.len() + inline.len();
                paths.extend(trees.into_iter().filter_map(|(line, path)| outward(line, path, nesting)));
            }
            "{" => {
                if at >= 2 && tokens[at - 2].text == "mod" {
                    inline.push(depth);
                }
                depth += 1;
                at += 1;
            }
            "}" => {
                depth = depth.saturating_sub(1);
                inline.pop_if(|opened_at| *opened_at == depth);
                at += 1;
            }
            _ => at += 1,
        }
    }
    paths
}

/// Whether a path begins here: a word followed by `::`, or anything that follows `use`.
fn begins_path(tokens: &[Token<'_>], at: usize, text: &str) -> bool {
    let text_at = |at: usize| tokens.get(at).map(|token| token.text);
    let after_use = at > 0 && text_at(at - 1) == Some("use");
    is_word(text) && (after_use || text_at(at + 1) == Some("::")) || (after_use && matches!(text, "::" | "{"))
}

/// Reads one path or `use` tree, adds each path in it to `paths`, and returns the position after it.
fn read_tree(
    tokens: &[Token<'_>],
    mut at: usize,
    prefix: &mut Vec<String>,
    paths: &mut Vec<(usize, Vec<String>)>,
) -> usize {
    let length = prefix.len();
    let line = tokens.get(at).map_or(0, |token| token.line);
    // A leading `::` only means that a crate follows.
    if tokens.get(at).is_some_and(|token| token.text == "::") {
        at += 1;
    }
    loop {
        match tokens.get(at).map(|token| token.text) {
            Some("{") => {
                at += 1;
                while let Some(token) = tokens.get(at).filter(|token| token.text != "}") {
                    // `use` trees hold paths, commas, and `as` with a new name, which is no path.
                    at = if is_word(token.text) || matches!(token.text, "{" | "::" | "*") {
                        read_tree(tokens, at, prefix, paths)
                    } else {
                        at + 1
                    };
                }
                prefix.truncate(length);
                return at + 1;
            }
            Some(text) if is_word(text) || text == "*" => {
                prefix.push(text.to_owned());
                at += 1;
            }
            _ => break,
        }
        if tokens.get(at).is_some_and(|token| token.text == "::") {
            at += 1;
        } else {
            break;
        }
    }
    paths.push((line, prefix.clone()));
    prefix.truncate(length);
    if tokens.get(at).is_some_and(|token| token.text == "as") {
        at += 2;
    }
    at
}

/// The path from the root of the crate, or into another crate; `None` if it stays within its module and the parents.
fn outward(line: usize, mut path: Vec<String>, nesting: usize) -> Option<UsedPath> {
    let in_crate = match path.first()?.as_str() {
        "crate" => {
            path.remove(0);
            true
        }
        "super" | "self" => {
            let ups = path.iter().take_while(|segment| matches!(segment.as_str(), "super" | "self")).count();
            let supers = path[..ups].iter().filter(|segment| *segment == "super").count();
            if supers < nesting {
                return None;
            }
            path.drain(..ups);
            true
        }
        _ => false,
    };
    Some(UsedPath { line, in_crate, segments: path })
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if first.is_alphanumeric() || first == '_' {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token { line: number + 1, text: &rest[..length] });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

#[test]
fn a_use_tree_is_expanded() {
    let found: Vec<_> = used_paths("use crate::{a::{self, B as C}, d::*};\nfn f(_: ::e::F) {}", &["a".to_owned()])
        .into_iter()
        .map(|used| (used.line, used.in_crate, used.segments.join("::")))
        .collect();
    let expected = [
        (1, true, "a::self".to_owned()),
        (1, true, "a::B".to_owned()),
        (1, true, "d::*".to_owned()),
        (2, false, "e::F".to_owned()),
    ];
    assert_eq!(found, expected);
}
