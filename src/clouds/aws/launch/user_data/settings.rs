//! Single settings, found by name in any format.

/// The most places where one setting is looked for, and the longest value. Real user data has a few short values; the
/// bounds limit the work that hostile text can cause.
const PLACES_MAX: usize = 64;
const VALUE_MAX: usize = 8 * 1024;

/// The values of a setting, wherever it stands by itself: `name: value`, `name = value`, `name=value`, `name value`,
/// each quoted or not.
pub(super) fn settings<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(name).take(PLACES_MAX).filter_map(move |(at, _)| {
        let before = text.get(..at)?.chars().next_back();
        let after = text.get(at + name.len()..)?;
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        if before.is_some_and(is_of_name) || after.starts_with(is_of_name) {
            return None;
        }
        // After `--flag=`, a space ends an empty value: what follows is the next flag.
        let value = match after.strip_prefix('=').filter(|_| name.starts_with("--")) {
            Some(value) => value.strip_prefix(['"', '\'']).unwrap_or(value),
            None => after.trim_start_matches([' ', '\t', ':', '=', '"', '\'']),
        };
        let mut open = 0_u32;
        let end = value.find(|letter: char| {
            // The braces of a shell's `${NAME}` are part of the value.
            let closes = letter == '}' && open > 0;
            open = open + u32::from(letter == '{') - u32::from(closes);
            !closes && (letter.is_whitespace() || "\"'`\\;}]".contains(letter))
        });
        value.get(..end.unwrap_or(value.len())).filter(|value| !value.is_empty() && value.len() <= VALUE_MAX)
    })
}

/// The values of a variable, each in a line of its own: `NAME=value`, quoted or not. eksctl writes such a file for the
/// images whose kubelet it starts itself (`/etc/eksctl/kubelet.env`).
pub(super) fn variables<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let assigned = text.lines().filter_map(move |line| line.trim().strip_prefix(name)?.strip_prefix('='));
    let values = assigned.map(|value| value.trim().trim_matches(['"', '\'']));
    values.filter(|value| !value.is_empty() && value.len() <= VALUE_MAX).take(PLACES_MAX)
}
