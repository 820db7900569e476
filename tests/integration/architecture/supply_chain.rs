//! Limits on the dependencies that are accepted with reservations, and what the documents say about them.

use std::fs;
use std::path::Path;

use super::rust_files;

/// The allowed parts of azure_mgmt_compute: there will be no further release, and its own client and polling are
/// unusable.
const ALLOWED: [&str; 2] =
    ["azure_mgmt_compute::package_2024_07_01::models", "azure_mgmt_compute::package_2024_07_01::Client"];

/// The paths into azure_mgmt_compute that are not allowed.
fn offences(source: &str) -> Vec<String> {
    let uses = source.match_indices("azure_mgmt_compute::").map(|(at, _)| &source[at..]);
    let path = |text: &str| {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).next().unwrap_or_default().to_owned()
    };
    uses.map(path).filter(|path| !ALLOWED.iter().any(|allowed| path.starts_with(allowed))).collect()
}

#[test]
fn only_models_and_requests_of_azure_mgmt_compute_are_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut used = 0;
    for file in rust_files(&root.join("src")) {
        let source = fs::read_to_string(&file).expect("a source file");
        if file.ends_with("no_awaited_builders.rs") || !source.contains("azure_mgmt_compute::") {
            continue;
        }
        used += 1;
        assert_eq!(offences(&source), Vec::<String>::new(), "{}", file.display());
    }
    assert!(used > 0, "nothing was checked");
    assert_eq!(offences("use azure_mgmt_compute::package_2024_07_01::models::Vm;"), Vec::<String>::new());
    assert_eq!(offences("azure_mgmt_compute::package_2024_07_01::operations()").len(), 1);
}

#[test]
fn accepted_advisories_and_copyleft_crates_are_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).expect(name);
    let (deny, notice, security) = (read("deny.toml"), read("NOTICE"), read("docs/security.md"));
    let quoted = |line: &str, key: &str| {
        line.split_once(&format!("{key} = \""))
            .and_then(|(_, rest)| rest.split_once('"'))
            .map(|(value, _)| value.to_owned())
    };
    let copyleft: Vec<_> =
        deny.lines().filter(|line| line.contains("MPL-2.0\"")).filter_map(|line| quoted(line, "crate")).collect();
    assert_eq!(copyleft.len(), 2);
    assert!(copyleft.iter().all(|name| notice.contains(name.as_str())), "{copyleft:?}");
    let advisories: Vec<_> = deny.lines().filter_map(|line| quoted(line, "id").zip(quoted(line, "reason"))).collect();
    assert_eq!(advisories.len(), 4);
    for (id, reason) in advisories {
        let name = reason.split(' ').next().unwrap_or_default();
        assert!(id.starts_with("RUSTSEC-") && security.contains(name), "docs/security.md does not name {name}");
    }
}
