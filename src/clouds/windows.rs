//! The Windows Server build of an image.

/// The label that the kubelet on Windows sets on its node.
pub(in crate::clouds) const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";

/// The value of [`WINDOWS_BUILD_LABEL`], if a text such as an image's name contains the year of a Windows Server
/// release.
pub(in crate::clouds) fn windows_build(text: &str) -> Option<&'static str> {
    [("2019", "10.0.17763"), ("2022", "10.0.20348"), ("2025", "10.0.26100")]
        .into_iter()
        .find_map(|(year, build)| text.contains(year).then_some(build))
}
