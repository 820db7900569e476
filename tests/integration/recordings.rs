//! The flight recorder: `/debug/recordings`, `headcount record` and `headcount replay`.
//!
//! The files of `tests/recordings/` are replayed, too: a recording of a bug report becomes a test by moving it there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use headcount::fleet::recording::{Outcome, Recording, Step};
use serde_json::Value;

use crate::peers::headcount::run;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn is_writing() -> bool {
    std::env::var_os("HEADCOUNT_WRITE_RECORDINGS").is_some()
}

/// The same recording with what this version decides.
fn with_decisions(text: &str, steps: &[Step]) -> String {
    let (mut steps, mut last) = (steps.iter(), None::<&Step>);
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut value: Value = serde_json::from_str(line).expect("JSON");
        if value.get("event").is_some() {
            last = steps.next();
        }
        match (value.get_mut("decided"), last) {
            (Some(decided), Some(step)) => {
                decided["effects"] = step.effects.clone().into();
                lines.push(value.to_string());
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn every_file_of_the_folder_replays_to_the_decisions_that_it_holds() {
    let files = fs::read_dir(folder()).expect("the folder").map(|file| file.expect("an entry").path());
    let files: Vec<_> = files.filter(|file| file.extension().is_some_and(|kind| kind == "jsonl")).collect();
    assert!(is_writing() || !files.is_empty(), "no recording is there to replay");
    for file in files {
        let name = file.display();
        let text = fs::read_to_string(&file).expect("a file");
        let recording = match Recording::parse(text.as_bytes()) {
            Ok(recording) => recording,
            // Another test records it anew.
            Err(_) if is_writing() => continue,
            Err(error) => {
                panic!(
                    "{name}: {error}. tests/recordings/README.md says what to do after a change of the state of groups"
                )
            }
        };
        let steps: Vec<_> = recording.replay().flat_map(|stretch| stretch.steps).collect();
        if is_writing() {
            fs::write(&file, with_decisions(&text, &steps)).expect("written");
            continue;
        }
        let other: Vec<_> = steps.iter().filter(|step| step.outcome != Outcome::Same).collect();
        assert!(other.is_empty(), "{name}: {other:#?}");
    }
}

#[test]
fn what_cannot_be_recorded_or_replayed_is_said_in_one_line() {
    for (arguments, why) in [
        (&["replay", "Cargo.toml"][..], "it is not a recording of Headcount"),
        (&["replay", "tests"], "it is not a regular file"),
        (&["replay", "nowhere.jsonl"], "No such file"),
        (&["record", "--server", "http://127.0.0.1:1"], "is the server running"),
        (&["record", "--server", "https://127.0.0.1:1"], "not an address of the form http://HOST:PORT"),
    ] {
        let (stdout, stderr) = texts(&run(arguments));
        assert!(stdout.is_empty() && stderr.contains(why), "{arguments:?}: {stdout}{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    }
}

#[cfg(all(feature = "aws", feature = "azure"))]
mod served {
    use std::sync::Arc;
    use std::time::Duration;

    use headcount::clouds::simulated::{GroupPlan, Simulated};

    use super::*;
    use crate::emulators::arm::Arm;
    use crate::emulators::aws::Aws;
    use crate::emulators::setup::Setup;
    use crate::emulators::{Emulator, setup};
    use crate::peers::headcount::refused;

    fn plans(plan: impl Fn(&str) -> GroupPlan) -> Arc<Simulated> {
        let quick = Duration::from_millis(100)..=Duration::from_millis(200);
        let plan = |name| plan(name).sized(1, 6, 2).launch_time(quick.clone()).delete_time(quick.clone());
        Arc::new(Simulated::with_groups(1, [plan("web"), plan("idle")]))
    }

    /// A scale-up, a deletion and a refusal.
    async fn use_it<F: Emulator>(setup: &mut setup::Setup<F>) {
        let client = &mut setup.client;
        client.increase("web", 2).await.expect("accepted");
        client.until("four run", async |client| client.nodes_in("web", 1).await.len() == 4).await;
        let node = client.nodes_in("web", 1).await[0].clone();
        client.delete("web", &[&node]).await.expect("accepted");
        client.until("three run", async |client| client.nodes("web").await.len() == 3).await;
        let (_, message) = refused(client.increase("web", 10).await);
        assert!(message.contains("maximum"), "{message}");
    }

    async fn is_recorded_and_replayed<F: Emulator>(emulator: F, file: &str) {
        let mut setup = Setup::open(emulator).await;
        use_it(&mut setup).await;
        let url = format!("http://{}", setup.server().admin());
        let path = folder().join(file);
        let path = if is_writing() { path.to_string_lossy().into_owned() } else { format!("{}.jsonl", setup.config()) };
        let (stdout, stderr) = texts(&run(&["record", "web", "--server", &url, "-o", &path]));
        assert!(stdout.contains(" events; explain them with headcount replay"), "{stdout}{stderr}");
        let replayed = run(&["replay", &path]);
        let (stdout, stderr) = texts(&replayed);
        assert_eq!(replayed.status.code(), Some(0), "{stdout}{stderr}");
        for expected in [
            "node group here/web",
            "grow by 2",
            "known: capacity 2, live 2, target 2, in flight 0",
            "set the capacity from 2 to 4 [laws 1 and 2: what was read just now, and what CA asked for]",
            "[laws 1 and 6: only what CA named, and not below the minimum]",
            "scale-up refused group=web delta=10",
            "[never above the maximum]",
        ] {
            assert!(stdout.contains(expected), "{expected:?} is not in:\n{stdout}");
        }
        let last = stdout.lines().last().expect("a line");
        let words: Vec<&str> = last.split([' ', ',']).collect();
        assert!(last.ends_with("of them the same as recorded") && words[0] == words[3], "{stdout}");

        let recording = fs::read_to_string(&path).expect("a recording");
        let tampered = recording.replacen("{\"Increase\":2}", "{\"Increase\":1}", 1);
        assert_ne!(tampered, recording);
        fs::write(format!("{}.other", setup.config()), tampered).expect("written");
        let replayed = run(&["replay", &format!("{}.other", setup.config())]);
        let (stdout, stderr) = texts(&replayed);
        assert_eq!(replayed.status.code(), Some(1), "{stderr}");
        assert!(stdout.contains("DIFFERS") && stderr.contains("these decisions differ"), "{stderr}");
    }

    #[tokio::test]
    async fn a_scale_up_a_deletion_and_a_refusal_on_aws_replay_to_the_same_decisions() {
        is_recorded_and_replayed(Aws::start(plans(GroupPlan::aws)), "aws.jsonl").await;
    }

    #[tokio::test]
    async fn a_scale_up_a_deletion_and_a_refusal_on_azure_replay_to_the_same_decisions() {
        is_recorded_and_replayed(Arm::start(plans(GroupPlan::azure)), "azure.jsonl").await;
    }

    #[tokio::test]
    async fn recordings_are_served_by_group_and_only_to_this_host() {
        let mut setup = Setup::open(Aws::start(plans(GroupPlan::aws))).await;
        use_it(&mut setup).await;
        let server = setup.server();
        let all = server.probe("/debug/recordings");
        assert!(all.starts_with("HTTP/1.1 200") && all.contains("{\"group\":{\"source\":\"here\",\"name\":\"web\"}}"));
        assert!(!all.contains("\"name\":\"idle\"}}"), "nothing happened to it: {all}");
        for (path, status, part) in [
            ("/debug/recordings/web", "200", "{\"checkpoint\":"),
            ("/debug/recordings/here/web", "200", "{\"checkpoint\":"),
            ("/debug/recordings/%77eb", "200", "{\"checkpoint\":"),
            ("/debug/recordings/idle", "200", "\"name\":\"idle\"}}"),
            ("/debug/recordings/other", "404", "no node group of this ID"),
        ] {
            let response = server.probe(path);
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status}")) && response.contains(part),
                "{path}: {response}"
            );
        }
        let stranger = server.probe_as("/debug/recordings", "evil.example");
        assert!(stranger.starts_with("HTTP/1.1 403") && !stranger.contains("web"), "{stranger}");
    }
}
