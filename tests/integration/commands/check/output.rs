//! The forms of the output, the exit codes and the waiting.

use serde_json::Value;

use super::{aws, check, plan};
use crate::commands::{config, texts};
use crate::emulators::Emulator;
use crate::emulators::aws::error;
use crate::peers::headcount::run;

#[tokio::test]
async fn if_nothing_is_wrong_every_line_is_ok_and_the_exit_code_is_0() {
    let emulator = aws([plan("web")]);
    let found = check(&config(&emulator, &["0:10:web"], ""));
    found.has("ok here can be read; 1 group", &[]);
    found.has(
        "ok web size 2 in 0:10; a new node has 2 cpu and ",
        &["(live discovery, an estimate) — to make it exact, set learn"],
    );
    found.has("ok web its new instances are not protected from scale-in", &["--new-instances-protected-from-scale-in"]);
    assert_eq!((found.lines.len(), found.summary.as_str(), found.code), (3, "3 checks: nothing is wrong", Some(0)));
}

#[tokio::test]
async fn findings_are_printed_as_json_and_yaml_too() {
    let emulator = aws([plan("web")]);
    let config = config(&emulator, &["0:10:web", "0:1:gone"], "");
    let print = |form: &str| texts(&run(&["check", "-o", form, "--config", &config.path()])).0;
    let found: Vec<Value> = serde_json::from_str(&print("json")).expect("JSON");
    assert_eq!(found[0]["severity"], "warning");
    assert_eq!(found[0]["subject"], "gone");
    assert_eq!((&found[0]["code"], &found[0]["link"]), (&"HC402".into(), &"docs/check.md#hc402".into()));
    assert_eq!(found[0]["what"], "is in the configuration but does not exist");
    assert_eq!(found[0]["advice"], "create it, or correct the name; it is served as soon as it exists");
    let yaml: Vec<Value> = serde_saphyr::from_str(&print("yaml")).expect("YAML");
    assert_eq!(yaml, found);
}

#[test]
fn nothing_is_written_and_an_invalid_configuration_is_exit_code_2() {
    let output = run(&["check", "--config", "nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let emulator = aws([plan("web")]);
    let _answer = check(&config(&emulator, &["0:10:web"], ""));
    let actions: Vec<_> = emulator.requests().iter().filter_map(|request| request.field("Action")).collect();
    let reads = |action: &&String| action.starts_with("Describe") || action.starts_with("Get");
    assert_eq!(actions.iter().filter(reads).count(), actions.len(), "{actions:?}");
    assert!(actions.iter().any(|action| action == "DescribePolicies"));
}

#[tokio::test]
async fn warnings_fail_the_command_only_on_request_and_the_short_form_has_only_problems() {
    let emulator = aws([plan("web")]);
    let config = config(&emulator, &["0:10:web", "0:1:gone"], "");
    let run = |more: &[&str]| run(&[&["check", "--config", &config.path()], more].concat());
    assert_eq!(run(&[]).status.code(), Some(0));
    let strict = run(&["--fail-on", "warning", "-o", "short"]);
    let (table, stderr) = texts(&strict);
    assert_eq!(strict.status.code(), Some(1), "{stderr}");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines.len(), lines[1]), (2, "4 checks: 1 warning"), "{table}");
    assert!(lines[0].starts_with("warning   HC402   gone") && lines[0].ends_with("(docs/check.md#hc402)"), "{table}");
}

#[tokio::test]
async fn waiting_ends_as_soon_as_the_check_passes() {
    let emulator = aws([plan("web")]);
    let denied = error(403, "AccessDenied", "User: me is not authorized to perform this");
    emulator.script("POST", "Action=DescribeAutoScalingGroups", 1, denied);
    let config = config(&emulator, &["0:10:web"], "");
    let output = run(&["check", "--wait", "60s", "--config", &config.path()]);
    let (table, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{table}{stderr}");
    assert!(stderr.contains("the check failed; checking again until it passes"), "{stderr}");
}

#[test]
fn all_codes_are_listed_without_a_configuration() {
    let (list, _) = texts(&run(&["check", "--list"]));
    assert!(list.lines().count() > 15 && list.contains("HC409   The template of a new node can be built"), "{list}");
}
