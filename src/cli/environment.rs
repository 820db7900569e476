//! Variables without a value.

/// What the variables of the clouds' SDKs begin with, and those of Headcount itself.
const PREFIXES: [&str; 3] = ["AWS_", "AZURE_", "HEADCOUNT_"];

/// Removes variables that have no value. To the in-tree providers, such a variable is not set, and a manifest easily has
/// one. The SDKs take the empty text for a value: the one of AWS panics, or calls a region without a name. As a filter of
/// the log, it would match nothing.
///
/// Only `run` calls this, before any other thread exists.
#[expect(unsafe_code, reason = "nothing that is safe removes a variable")]
pub(super) fn remove_empty_variables() {
    let is_read = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let is_empty = |value: &std::ffi::OsStr| value.to_str().is_some_and(|value| value.trim().is_empty());
    for (name, value) in std::env::vars_os() {
        if name.to_str().is_some_and(is_read) && is_empty(&value) {
            // SAFETY: no other thread runs yet that could read the environment.
            unsafe { std::env::remove_var(name) };
        }
    }
}
