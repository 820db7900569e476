//! Names in the paths of requests to the Kubernetes API.

/// The longest name of any object.
const NAME_BYTES_MAX: usize = 253;

/// Whether this may be the name of a namespace, a pod or a ConfigMap, as Kubernetes checks it. Anything else could name
/// another path.
pub(super) fn is_name(text: &str) -> bool {
    let is_alphanumeric = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.split('.').all(|label| {
            let (first, last) = (label.bytes().next(), label.bytes().last());
            first.is_some_and(is_alphanumeric)
                && last.is_some_and(is_alphanumeric)
                && label.bytes().all(|letter| is_alphanumeric(letter) || letter == b'-')
        })
}

/// Whether a path leads where its segments say: none of them is empty, or climbs.
pub(super) fn is_plain_path(path: &str) -> bool {
    let segments = path.split('?').next().unwrap_or_default().trim_start_matches('/').split('/');
    let mut segments = segments.map(|segment| segment.to_ascii_lowercase().replace("%2e", "."));
    segments.all(|segment| !segment.is_empty() && segment != "." && segment != ".." && !segment.contains("%2f"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_kubernetes_allows_are_names() {
        for name in ["a", "kube-system", "headcount-7f9c5-x2x", "ip-10-0-0-1.eu-west-1.compute.internal"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", "a..b", "../secrets", "a/b", "A", "-a", "a-", "a.", ".a", "a?b", "a%2fb", "ä", "a\n"] {
            assert!(!is_name(name), "{name}");
        }
        assert!(!is_name(&"a".repeat(254)));
    }

    #[test]
    fn a_path_that_climbs_is_not_plain() {
        for path in ["/api/v1/nodes?limit=500&x=../..", "/api/v1/namespaces/kube-system/configmaps/a.b"] {
            assert!(is_plain_path(path), "{path}");
        }
        for path in [
            "/api/v1/namespaces/../nodes",
            "/api/v1/namespaces/./events",
            "/api/v1//nodes",
            "/api/v1/namespaces/%2e%2E/nodes",
            "/api/v1/namespaces/a%2F../nodes",
            "/api/v1/namespaces/..",
        ] {
            assert!(!is_plain_path(path), "{path}");
        }
    }
}
