//! Collections under a key of YAML or JSON, wherever the key stands in a text.

/// Most collections that are read: one for each part of the user data.
const PLACES_MAX: usize = 16;

/// The text of what is under each key of this name: a sequence, if the key has one.
pub(super) fn sequences<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = String> {
    // YAML allows the items of a sequence at the indentation of its key.
    collections(text, name, ['[', ']'], |line| line == "-" || line.starts_with("- "))
}

/// The text of the flat mapping under each key of this name.
pub(super) fn mappings<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = String> {
    collections(text, name, ['{', '}'], |_| false)
}

fn collections<'a>(
    text: &'a str,
    name: &'a str,
    brackets: [char; 2],
    is_item: fn(&str) -> bool,
) -> impl Iterator<Item = String> {
    text.match_indices(name).take(PLACES_MAX).filter_map(move |(at, _)| {
        let line = text.get(..at)?.rsplit('\n').next()?;
        let after = text.get(at + name.len()..)?;
        let value = after.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':')?;
        let indent = line.len() - line.trim_start().len();
        let [open, close] = brackets;
        if value.trim_start().starts_with(open) {
            let value = value.trim_start();
            return Some(value.get(..=value.find(close)?)?.to_owned());
        }
        Some(block(value, indent, is_item))
    })
}

/// The rest of the line of a key that is indented by `indent`, and the lines below the key.
fn block(value: &str, indent: usize, is_item: fn(&str) -> bool) -> String {
    let mut lines = value.lines();
    let first = lines.next().unwrap_or_default();
    let below = lines.take_while(|line| {
        let trimmed = line.trim_start();
        let own = line.len() - trimmed.len();
        trimmed.is_empty() || own > indent || (own == indent && is_item(trimmed))
    });
    below.fold(format!("{first}\n"), |block, line| block + line + "\n")
}
