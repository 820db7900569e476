//! Checks that no request builder of azure_mgmt_compute is awaited: awaiting one that writes sends the write repeatedly
//! until it is finished, or reports at once that it is. Clippy cannot forbid `.await`, so this reads the source.
//! [`super::sdk_call`] refuses a second request in any case.

use std::fs;
use std::path::{Path, PathBuf};

/// Calls whose result may be awaited in a file that names the crate.
const AWAITED: [&str; 10] = [
    "send",
    "next",
    "list",
    "get_token",
    "timeout",
    "forward",
    "poll_once",
    "poll_nothing",
    "all_agent_pools",
    "all_autoscale_settings",
];
/// Files that may name the crate.
const ALLOWED_FILES: [&str; 2] = ["clouds/azure/arm/scale_sets.rs", "clouds/azure/arm/sdk_call.rs"];
/// Other ways to await.
const OTHER_WAYS: [&str; 5] = ["into_future", "IntoFuture", "join!", "select!", "spawn("];

/// What is forbidden in a file of this name.
fn offences(file: &str, source: &str) -> Vec<String> {
    let lines = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.take_while(|line| !line.starts_with("#[cfg(test)]")).collect::<Vec<_>>().join("\n");
    if !code.contains("azure_mgmt_compute") {
        return Vec::new();
    }
    let mut offences = Vec::new();
    if !ALLOWED_FILES.contains(&file) {
        offences.push(format!("{file} names azure_mgmt_compute"));
    }
    offences.extend(OTHER_WAYS.iter().filter(|way| code.contains(*way)).map(|way| format!("{file} uses {way}")));
    for (at, _) in code.match_indices(".await") {
        let awaited = called_last(code[..at].trim_end());
        if !awaited.is_some_and(|name| AWAITED.contains(&name)) {
            offences.push(format!("{file} awaits {}", awaited.unwrap_or("something that is not a call")));
        }
    }
    // `timeout` awaits its argument.
    for (at, _) in code.match_indices("timeout(") {
        let limited = code[at..].split(')').next().unwrap_or_default();
        if !limited.ends_with(", walk") {
            offences.push(format!("{file} limits {limited}"));
        }
    }
    offences
}

/// The name of the call that this text ends with.
fn called_last(text: &str) -> Option<&str> {
    let inner = text.strip_suffix(')')?;
    let mut depth = 1;
    let opening = inner.char_indices().rev().find(|(_, letter)| {
        depth += match letter {
            ')' => 1,
            '(' => -1,
            _ => 0,
        };
        depth == 0
    });
    let before = &inner[..opening?.0];
    let start = before.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_').map_or(0, |at| at + 1);
    Some(&before[start..])
}

/// The source files below a directory, without tests.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the source").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_source = |path: &PathBuf| {
        let is_test = ["tests.rs", "no_awaited_builders.rs"].iter().any(|name| path.ends_with(name));
        path.extension().is_some_and(|extension| extension == "rs") && !is_test
    };
    let below = folders.iter().filter(|folder| !folder.ends_with("tests")).flat_map(|folder| sources(folder));
    files.into_iter().filter(is_source).chain(below).collect()
}

#[test]
fn no_request_builder_is_awaited() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut allowed_files = 0;
    for path in sources(&directory) {
        let file = path.strip_prefix(&directory).ok().and_then(Path::to_str).expect("a path below src");
        allowed_files += usize::from(ALLOWED_FILES.contains(&file));
        let source = fs::read_to_string(&path).expect("a readable file");
        assert_eq!(offences(file, &source), Vec::<String>::new());
    }
    assert_eq!(allowed_files, ALLOWED_FILES.len(), "the files have moved");
}

#[test]
fn an_awaited_builder_is_found() {
    for line in [
        "client.update(group, name, body, sub).await?;",
        "client.update(group, name, body, sub)\n    .if_match(\"1\")\n    .await?;",
        "let request = client.delete_instances(a, b, c, d); request.await?;",
        "client.create_or_update(a, b, (c), d).if_match(f(x)).await",
        "request.into_future().await?;",
        "tokio::time::timeout(LIMIT, client.update(a, b, c, d)).await?;",
        "tokio::join!(client.update(a, b, c, d), other);",
    ] {
        let source = format!("use azure_mgmt_compute::Client;\nasync fn f() {{ {line} }}\n");
        assert_ne!(offences(ALLOWED_FILES[0], &source), Vec::<String>::new(), "{line}");
    }
    assert_ne!(offences("clouds/azure/groups.rs", "use azure_mgmt_compute::Client;"), Vec::<String>::new());
}

#[test]
fn explicit_sends_are_allowed() {
    for line in [
        "client.update(group, name, body, sub).if_match(etag).send().await?;",
        "while let Some(page) = pages.next().await {}",
        "// never client.update(a, b, c, d).await",
    ] {
        let source = format!("use azure_mgmt_compute::Client;\nasync fn f() {{ {line} }}\n");
        assert_eq!(offences(ALLOWED_FILES[0], &source), Vec::<String>::new(), "{line}");
    }
    assert_eq!(offences("clouds/azure/groups.rs", "async fn f() { g.await }"), Vec::<String>::new());
}
