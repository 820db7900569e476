//! The part of TOML that Bottlerocket's settings need: tables, dotted and quoted keys, and values of strings and whole
//! numbers.

/// The most lines of one list. The bound limits the work that hostile text can cause.
const LIST_LINES_MAX: usize = 64;

/// The entries below a table, each with its values: one for a string or a number, several for a list.
pub(super) fn entries(text: &str, table: &[&str]) -> Vec<(String, Vec<String>)> {
    let (mut found, mut current) = (Vec::new(), Vec::new());
    let mut lines = text.lines().map(|line| without_comment(line).trim()).filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        if let Some(header) = line.strip_prefix('[') {
            current = header.split_once(']').and_then(|(header, _)| path(header)).unwrap_or_default();
            continue;
        }
        let Some((key, value)) = split_key(line) else { continue };
        let Some(key) = path(key) else { continue };
        let path: Vec<&str> = current.iter().chain(&key).map(String::as_str).collect();
        let mut value = value.trim().to_owned();
        for _ in 0..LIST_LINES_MAX {
            if !value.starts_with('[') || closes(&value) {
                break;
            }
            value.push_str(lines.next().unwrap_or_default());
        }
        match path.strip_prefix(table) {
            Some([name]) => found.push(((*name).to_owned(), strings(&value))),
            // node-labels = {a = "b", "c" = "d"}
            Some([]) => found.extend(inline_table(&value)),
            _ => {}
        }
    }
    found
}

fn inline_table(value: &str) -> Vec<(String, Vec<String>)> {
    let inner = value.strip_prefix('{').and_then(|value| value.rsplit_once('}')).map(|(inner, _)| inner);
    let pairs = outside_quotes(inner.unwrap_or_default(), ',').into_iter().filter_map(split_key);
    pairs.filter_map(|(key, value)| Some((path(key)?.join("."), strings(value)))).collect()
}

/// Splits `key = value`; an equals sign in a quoted key does not count.
fn split_key(line: &str) -> Option<(&str, &str)> {
    let key = outside_quotes(line, '=').into_iter().next()?;
    Some((key.trim(), line.get(key.len()..)?.strip_prefix('=')?.trim()))
}

/// The segments of a dotted key, without quotes.
fn path(key: &str) -> Option<Vec<String>> {
    let segments = outside_quotes(key, '.').into_iter().map(|segment| segment.trim().trim_matches(['"', '\'']));
    segments.map(|segment| (!segment.is_empty()).then(|| segment.to_owned())).collect()
}

/// Splits a text at each separator outside quotes and lists.
fn outside_quotes(text: &str, separator: char) -> Vec<&str> {
    let (mut quote, mut depth) = (None, 0_u32);
    let pieces = text.split(move |letter: char| {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == separator && quote.is_none() && depth == 0
    });
    pieces.collect()
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let comment = line.find(|letter: char| {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
        letter == '#' && quote.is_none()
    });
    comment.and_then(|comment| line.get(..comment)).unwrap_or(line)
}

fn closes(list: &str) -> bool {
    let inside = list.strip_prefix('[').unwrap_or(list);
    outside_quotes(inside, ']').len() > 1
}

/// The strings in a value: a string, a list of strings, or the digits of a number.
fn strings(value: &str) -> Vec<String> {
    if value.parse::<u64>().is_ok() {
        return vec![value.to_owned()];
    }
    let mut found = Vec::new();
    let mut rest = value;
    while let Some(open) = rest.find(['"', '\'']) {
        let quote = rest.get(open..=open).unwrap_or("\"");
        let Some((string, after)) = rest.get(open + 1..).and_then(|after| after.split_once(quote)) else { break };
        found.push(string.to_owned());
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [&str; 2] = ["a", "b"];

    fn shown(text: &str) -> Vec<String> {
        entries(text, &TABLE).into_iter().map(|(key, values)| format!("{key}: {}", values.join(" "))).collect()
    }

    #[test]
    fn the_same_table_in_every_spelling() {
        for text in [
            "[a.b]\nk = \"v\"\n",
            "[ a . \"b\" ]\n'k' = 'v' # \"x\"\n",
            "[a]\nb.k = \"v\"\n",
            "a.b.k = \"v\"\n",
            "[a]\nb = {k = \"v\"}\n",
        ] {
            assert_eq!(shown(text), ["k: v"], "{text}");
        }
    }

    #[test]
    fn quoted_keys_and_lists_over_several_lines() {
        let text = "[a.b]\n\"x.y/z=1\" = [\n  \"one\", # first\n  \"two]\",\n]\nnext = \"3\"\n[a.c]\nk = \"v\"\n";
        assert_eq!(shown(text), ["x.y/z=1: one two]", "next: 3"]);
        assert_eq!(shown("[a.b]\nk = 35 # pods\n"), ["k: 35"]);
    }

    #[test]
    fn what_is_not_toml_has_no_entries() {
        for text in ["", "[a.b\nk", "[a.b]\nk = [", "[a.b]\n= \"v\"", "[]\n", "[a.b]\nk = \"é"] {
            assert!(shown(text).iter().all(|entry| entry == "k: "), "{text}");
        }
    }
}
