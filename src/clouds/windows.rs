//! The Windows Server build of an image.

/// The label that the kubelet on Windows sets on its node.
pub(in crate::clouds) const WINDOWS_BUILD_LABEL: &str = "node.kubernetes.io/windows-build";

/// The value of [`WINDOWS_BUILD_LABEL`] for an image by its name or alias, `Windows_Server-2022-…-2025.08.13`: its date
/// can hold the year of another release.
#[cfg(feature = "aws")]
pub(in crate::clouds) fn build_of_image(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    windows_build(name.split_once("windows_server-")?.1.split('-').next()?)
}

/// The value of [`WINDOWS_BUILD_LABEL`], if a text such as an image's name contains the year of a Windows Server
/// release.
pub(in crate::clouds) fn windows_build(text: &str) -> Option<&'static str> {
    [("2019", "10.0.17763"), ("2022", "10.0.20348"), ("2025", "10.0.26100")]
        .into_iter()
        .find_map(|(year, build)| text.contains(year).then_some(build))
}

#[cfg(all(test, feature = "aws"))]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_image_shows_its_release_and_its_date_does_not() {
        for (name, build) in [
            ("Windows_Server-2022-English-Core-EKS_Optimized-1.33-2025.08.13", Some("10.0.20348")),
            (
                "resolve:ssm:/aws/service/ami-windows-latest/Windows_Server-2019-English-Full/image_id",
                Some("10.0.17763"),
            ),
            ("Windows_Server-2016-English-Full-EKS_Optimized-1.20-2022.05.10", None),
            ("amazon-eks-node-al2023-x86_64-standard-1.31-v20250103", None),
        ] {
            assert_eq!(build_of_image(name), build, "{name}");
        }
    }
}
