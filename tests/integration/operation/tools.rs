//! External programs that check what Headcount writes. If one is missing, its tests are skipped with a message; CI has
//! all of them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs a program with this input; `None` if it is not installed.
pub(super) fn run(program: &str, arguments: &[&str], input: &str) -> Option<Output> {
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut process) = spawned else {
        assert!(std::env::var_os("CI").is_none(), "{program} is not installed, and CI needs it");
        eprintln!("skipped: {program} is not installed");
        return None;
    };
    process.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads its input");
    Some(process.wait_with_output().expect("it ends"))
}

/// Runs promtool, which is in Debian's package `prometheus`. Fails if it complains.
pub(super) fn promtool(arguments: &[&str], input: &str) {
    let Some(output) = run("promtool", arguments, input) else { return };
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
}

/// Runs a Python program that needs this package. Fails if it complains.
pub(super) fn python(package: &str, program: &str, input: &str) {
    let has_it = run("python3", &["-c", &format!("import {package}")], "");
    if !has_it.is_some_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "Python's {package} is not installed, and CI needs it");
        eprintln!("skipped: Python's {package} is not installed");
        return;
    }
    let output = run("python3", &["-c", program], input).expect("Python is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
