//! Files that are not what a configuration should be. Each is refused at once, with exit code 2 and one line.

use std::time::{Duration, Instant};

use crate::peers::headcount::{ConfigFile, run};

/// A file without an end takes forever, and a file that is too deep or too long takes minutes.
const SOON: Duration = Duration::from_secs(60);

/// One error, soon.
fn is_refused(path: &str, what: &str) {
    let begun = Instant::now();
    let output = run(&["groups", "--config", path]);
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{what}: {message}");
    assert!(message.len() < 2000, "{what}: {} bytes", message.len());
    assert!(begun.elapsed() < SOON, "{what}: {:?}", begun.elapsed());
}

#[test]
fn devices_and_files_without_an_end_are_refused() {
    for path in ["/dev/zero", "/dev/null", "/proc/self/mem", "/proc/self", "/dev/stdin"] {
        is_refused(path, path);
        let config =
            ConfigFile::new(&format!("instanceTypes: [\"{path}\"]\nsources: [{{name: demo, simulated: {{}}}}]\n"));
        is_refused(&config.path(), &format!("a table in {path}"));
        let learn = format!("learn: {{kubernetes: true, kubeconfig: \"{path}\"}}");
        let config = ConfigFile::new(&format!("{learn}\nsources: [{{name: demo, simulated: {{}}}}]\n"));
        is_refused(&config.path(), &format!("a kubeconfig in {path}"));
    }
}

#[test]
fn bombs_are_refused() {
    let aliases: String = (1..12)
        .map(|level| format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", ")))
        .collect();
    let source = |groups: &str| format!("sources: [{{name: demo, simulated: {{groups: {groups}}}}}]\n");
    for (what, text) in [
        ("aliases", format!("a0: &a0 [x]\n{aliases}")),
        ("brackets", "[".repeat(200_000)),
        ("closed brackets", format!("sources: {}{}\n", "[".repeat(50_000), "]".repeat(50_000))),
        ("braces", format!("sources: {}\n", "{a: ".repeat(50_000))),
        ("depth by indentation", (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth % 500))).collect()),
        ("four billion groups", source("4000000000")),
        ("negative groups", source("-1")),
        ("more than a number", source(&"9".repeat(400))),
        ("2 MiB", format!("# {}\n{}", "x".repeat(2 << 20), source("1"))),
    ] {
        is_refused(&ConfigFile::new(&text).path(), what);
    }
}
