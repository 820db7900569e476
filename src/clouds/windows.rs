//! Windows nodes: which build of Windows Server an image holds.

/// The label that a kubelet on Windows gives its node.
pub(in crate::clouds) const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";

/// The value of [`WINDOWS_BUILD_LABEL`] where a text, such as an image's name, has the year of a release of Windows Server
/// in it.
pub(in crate::clouds) fn windows_build(text: &str) -> Option<&'static str> {
    [("2019", "10.0.17763"), ("2022", "10.0.20348"), ("2025", "10.0.26100")]
        .into_iter()
        .find_map(|(year, build)| text.contains(year).then_some(build))
}
