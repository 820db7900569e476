//! Attacks on the log, and through it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use std::sync::Arc;

use futures_util::future::join_all;
use headcount::clouds::simulated::{GroupPlan, Simulated};

use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::peers::free_address;
use crate::peers::headcount::{ConfigFile, Server, binary, command, run};

/// What a tag value may hold in both clouds: a forged line, a terminal's escape sequence, and text that reads
/// backwards.
const EVIL: &str = "x\n2026-01-01T00:00:00Z INFO forged\u{9b}31m\u{202e}";

/// A server that writes its stderr there. It logs everything of its own, and each frame.
fn serve_into(stderr: Stdio, config: &ConfigFile) -> Child {
    let mut serve = command(&["serve", "--config", &config.path(), "--log", "trace,h2=trace"]);
    serve.stderr(stderr).spawn().expect("the binary runs")
}

/// A configuration with ports that no other process uses.
fn mk_config() -> (ConfigFile, Vec<std::net::SocketAddr>) {
    let ports = vec![free_address(), free_address()];
    let text = format!(
        "grpc: {{listen: \"{}\"}}\nadmin: {{listen: \"{}\"}}\nrefreshInterval: 1s\nsources: [{{name: demo, simulated: \
            {{}}}}]\n",
        ports[0], ports[1]
    );
    (ConfigFile::new(&text), ports)
}

/// A server that cannot write its log there reads, writes and ends as ever.
async fn serves_without(stderr: &str) {
    let (config, ports) = mk_config();
    let mut kept = None;
    let mut process = match stderr {
        "full" => serve_into(File::create("/dev/full").expect("it exists").into(), &config),
        "closed" => {
            let mut process = serve_into(Stdio::piped(), &config);
            drop(process.stderr.take());
            process
        }
        "blocked" => {
            let mut process = serve_into(Stdio::piped(), &config);
            kept = process.stderr.take();
            process
        }
        // Without the three files that every process has.
        _ => {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", "exec \"$0\" serve --config \"$1\" <&- >&- 2>&-"]).arg(binary());
            shell.arg(config.path()).spawn().expect("a shell runs")
        }
    };
    let mut client = Server::client_at(ports[0]).await;
    assert!(!client.node_groups().await.is_empty(), "{stderr}");
    // A pipe holds 64 KiB; this logs more.
    for _ in 0..300 {
        client.refresh().await.unwrap_or_else(|status| panic!("{stderr}: {status}"));
    }
    client.increase("web", 1).await.unwrap_or_else(|status| panic!("{stderr}: {status}"));
    assert!(Server::probe_at(ports[1], "/readyz").starts_with("HTTP/1.1 200"), "{stderr}");
    // Of a process without the three files, everything goes to /dev/null.
    let counted = Server::probe_at(ports[1], "/metrics").contains("\nheadcount_log_dropped_lines_total 0\n");
    assert_eq!(counted, stderr == "absent", "{stderr}: lost lines are counted");
    assert!(Server::terminate_process(&mut process).success(), "{stderr}");
    drop(kept);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_does_not_stop_the_server() {
    join_all(["full", "closed", "blocked", "absent"].map(serves_without)).await;
}

#[tokio::test]
async fn a_tag_cannot_forge_a_line_or_control_a_terminal() {
    let mut plan = GroupPlan::aws("web").sized(0, 5, 1);
    for tag in ["autoscaling-options/scaledownunneededtime", "resources/memory"] {
        plan.tags.insert(format!("k8s.io/cluster-autoscaler/node-template/{tag}"), EVIL.to_owned());
    }
    let setup = Setup::open(Aws::start(Arc::new(Simulated::with_groups(1, [plan])))).await;
    let mut client = setup.client.clone();
    assert_eq!(client.node_groups().await.len(), 1);
    let config = setup.config();
    let mut serve =
        command(&["serve", "--config", &config, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let mut process = serve.stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut lines = BufReader::new(process.stderr.take().expect("piped")).split(b'\n');
    let mut log = String::new();
    while !log.contains("autoscaling option tag has an invalid value") {
        log.push_str(&String::from_utf8(lines.next().expect("more lines").expect("read")).expect("UTF-8"));
        log.push('\n');
    }
    assert!(process.kill().is_ok() && process.wait().is_ok());
    assert!(log.contains("forged"), "the tag is in the log: {log}");
    is_clean(&log);
    for command in [&["check", "--config", &config][..], &["template", "web", "--config", &config]] {
        let output = run(command);
        is_clean(&String::from_utf8(output.stdout).expect("UTF-8"));
        is_clean(&String::from_utf8(output.stderr).expect("UTF-8"));
    }
}

fn is_clean(text: &str) {
    assert!(!text.lines().any(|line| line.starts_with("2026-01-01")), "a forged line: {text}");
    let evil = |character: char| character != '\n' && (character.is_control() || character == '\u{202e}');
    assert!(!text.contains(evil), "{text:?}");
}

#[test]
fn an_error_about_a_value_with_control_characters_is_printable() {
    // The error quotes a value that is not a duration, but it shows the path of a file as it is.
    for key in ["refreshInterval: \"\\e[2J\\nforged\"", "instanceTypes: [\"\\e[2J\\nforged\"]"] {
        let config = ConfigFile::new(&format!("sources: [{{name: demo, simulated: {{}}}}]\n{key}\n"));
        for command in ["serve", "groups", "check"] {
            let output = run(&[command, "--config", &config.path()]);
            let text = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
            assert!(text.contains("forged"), "{text}");
            is_clean(&text);
        }
    }
}

#[tokio::test]
async fn a_long_tag_leaves_every_line_of_the_log_json() {
    let mut plan = GroupPlan::aws("web").sized(0, 5, 1);
    let tag = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownunneededtime";
    plan.tags.insert(tag.to_owned(), format!("{}\"\\\n{EVIL}", "\u{1f574}".repeat(20_000)));
    let setup = Setup::open(Aws::start(Arc::new(Simulated::with_groups(1, [plan])))).await;
    setup.server().logged("autoscaling option tag has an invalid value");
    for line in setup.server().lines_with("") {
        assert!(line.len() <= 8 * 1024, "{} bytes", line.len());
        let read: Result<serde_json::Value, _> = serde_json::from_str(&line);
        assert!(read.is_ok(), "{line}");
    }
}
