//! Which labels and taints Kubernetes accepts. A tag may hold any text; a node cannot carry it.

/// The longest value of a label or a taint, and the longest name in a key.
const NAME_MAX: usize = 63;
/// The longest key: a DNS name, a slash and a name.
const KEY_MAX: usize = PREFIX_MAX + 1 + NAME_MAX;
/// The longest DNS name in a key.
const PREFIX_MAX: usize = 253;

/// Whether a node can have this text as the value of a label or a taint: empty, or at most 63 letters, digits, `-`, `_`
/// and `.` that begin and end with a letter or a digit.
pub fn is_label_value(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.is_empty()
        || bytes.len() <= NAME_MAX
            && bytes.iter().copied().all(is_inner)
            && is_outer(bytes.first())
            && is_outer(bytes.last())
}

/// Whether the key of a label or a taint has only characters that Kubernetes accepts in one.
///
/// Several slashes pass, although Kubernetes accepts only one: the in-tree Azure provider makes them of tag names, and
/// keeps them.
pub fn is_label_key(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= KEY_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'))
}

/// Whether Kubernetes accepts this as the key of a label or a taint: a name, and before it perhaps a DNS name and a slash.
pub fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    !name.is_empty() && is_label_value(name) && prefix.is_none_or(is_dns_subdomain)
}

/// Whether this is a DNS name as Kubernetes writes one: parts of lower-case letters, digits and hyphens, with dots between.
fn is_dns_subdomain(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(is_inner) && !part.starts_with('-') && !part.ends_with('-');
    text.len() <= PREFIX_MAX && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_kubernetes_rejects_is_recognised() {
        for key in ["a", "Gpu_1.x", "example.com/role", "a-1.b/c", &format!("{}/b", "x".repeat(253))] {
            assert!(is_qualified_name(key), "{key:?}");
        }
        for key in ["", "/a", "a/", "a/b/c", "Example.com/a", "a..b/c", "-a/b", "a_b/c", "-a", "a b", &"x".repeat(64)] {
            assert!(!is_qualified_name(key), "{key:?}");
        }
        assert!(!is_qualified_name(&format!("{}/b", "x".repeat(254))));
    }

    #[test]
    fn a_label_that_kubernetes_rejects_is_recognised() {
        for value in ["", "a", "ml", "1.2-3_4", &"x".repeat(63)] {
            assert!(is_label_value(value), "{value:?}");
        }
        for value in ["a b", "a\nb", "a\r", "\u{9b}31m", "-a", "a.", "ä", "a/b", &"x".repeat(64)] {
            assert!(!is_label_value(value), "{value:?}");
        }
        assert!(["a", "example.com/role", "k8s.io/a/b"].into_iter().all(is_label_key));
        assert!(!["", "a\nb", "a b", "a=b", "\u{85}", &"x".repeat(318)].into_iter().any(is_label_key));
    }
}
