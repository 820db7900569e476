//! Parses YAML into the structure in [`super::file`], and rewrites the parser's errors in plain words.

use std::path::Path;

use serde_saphyr::{Error, Location, MessageFormatter, Spanned, UserMessageFormatter};

use super::error::{ConfigError, Place};
use super::file::File;

/// Parses the whole file.
pub(super) fn read(text: &str, path: &Path) -> Result<File, ConfigError> {
    if text.trim().is_empty() {
        return Err(ConfigError::at(&Place::File(path.to_owned()), "the file is empty; it needs at least sources:"));
    }
    // The parser limits aliases, depth and size; the caller limits the size of the file.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| fault(innermost(&error), path))
}

/// Returns where a value is used; for an alias, the place of the alias.
pub(super) fn place<T>(value: &Spanned<T>, path: &Path) -> Place {
    place_of(value.referenced, path)
}

fn place_of(location: Location, path: &Path) -> Place {
    Place::Text { file: path.to_owned(), line: location.line(), column: location.column() }
}

/// Parses a value. An error gets the place of the value.
pub(super) fn checked<'a, T, U>(
    value: &'a Spanned<T>,
    path: &Path,
    read: impl FnOnce(&'a T) -> Result<U, String>,
) -> Result<U, ConfigError> {
    read(&value.value).map_err(|message| ConfigError::at(&place(value, path), message))
}

/// [`checked`] for an optional value.
pub(super) fn optional<'a, T, U>(
    value: Option<&'a Spanned<T>>,
    path: &Path,
    read: impl FnOnce(&'a T) -> Result<U, String>,
) -> Result<Option<U>, ConfigError> {
    value.map(|value| checked(value, path, read)).transpose()
}

/// Returns the error inside an aliased value, not the one of the alias.
fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

fn fault(error: &Error, path: &Path) -> ConfigError {
    let message = match error {
        Error::SerdeUnknownField { field, expected, .. } => unknown_key(field, expected),
        Error::SerdeMissingField { field, .. } => format!("the key {field:?} is missing here"),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the key {key:?} is written twice; keep one of them")
        }
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            format!("expected {expected}, found {}", kind_of(unexpected))
        }
        Error::InvalidScalar { ty: name, .. } | Error::Unexpected { expected: name, .. } => {
            format!("expected {}", plain_name(name))
        }
        Error::NullIntoString { .. } => "a value is missing here; write \"\" for an empty one".to_owned(),
        other => UserMessageFormatter.format_message(other).into_owned(),
    };
    let place = match error.location().filter(|location| *location != Location::UNKNOWN) {
        Some(location) => place_of(location, path),
        None => Place::File(path.to_owned()),
    };
    ConfigError::at(&place, message)
}

/// What kind of value was found, without the value: it may be a secret under the wrong key.
pub(super) fn kind_of(unexpected: &str) -> &str {
    unexpected.split(['"', '`']).next().unwrap_or_default().trim_end()
}

/// Translates the parser's name for a type into plain words.
fn plain_name(name: &str) -> &str {
    match name {
        "boolean" => "true or false",
        "floating point" => "a number",
        "u32" | "u64" => "a whole number that is not negative",
        "mapping start" => "keys with values, such as {key: value}",
        "sequence start" => "a list, such as [a, b]",
        "string scalar" => "a single value",
        other => other,
    }
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    let closest = known.iter().map(|name| (distance(key, name), *name)).min();
    let hint = match closest {
        // At most two typos, and fewer than the word has letters.
        Some((typos, name)) if typos <= 2 && typos < name.len() => format!("; did you mean {name:?}?"),
        _ => ";".to_owned(),
    };
    format!("unknown key {key:?}{hint} the known keys are {}", known.join(", "))
}

/// Returns the Levenshtein distance, ignoring case.
fn distance(from: &str, to: &str) -> usize {
    let to = to.to_ascii_lowercase().chars().collect::<Vec<_>>();
    let mut row = (0..=to.len()).collect::<Vec<_>>();
    for (index, letter) in from.to_ascii_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = exchanged.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distance_counts_typos() {
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("lisen", "listen"), 1);
        assert_eq!(distance("refreshinterval", "refreshInterval"), 0);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
