//! The binary as a process: the demo, the probes, the shutdown, and errors in the configuration.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::time::Duration;

use tonic::Code;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

#[cfg(feature = "aws")]
use crate::peers::headcount::command;
use crate::peers::headcount::{ConfigFile, PATIENCE, Server, run};

#[tokio::test]
async fn the_demo_grows_a_group_and_shows_the_target_at_once() {
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    let groups: Vec<String> = client.node_groups().await.into_iter().map(|group| group.id).collect();
    assert!(["web", "gpu", "aks-pool"].iter().all(|id| groups.contains(&(*id).to_owned())), "{groups:?}");
    let before = client.target("web").await;
    client.increase("web", 3).await.expect("there is room");
    assert_eq!(client.target("web").await, before + 3);
    client.until("they are listed", async |client| client.nodes_in("web", 2).await.len() == 3).await;
    server.logged("demo | ");
    client.until("all run", async |client| client.nodes_in("web", 2).await.is_empty()).await;
    let template = client.template("gpu").await.expect("built");
    assert!(!template.node_info.is_empty() && template.node_info == template.node_bytes);
    assert_eq!(client.template("unknown").await.expect_err("unknown").code(), Code::NotFound);
}

#[tokio::test]
async fn health_and_probes_report_readiness_and_sigterm_shuts_it_down() {
    let server = Server::start(&["--demo"]);
    let _ready = server.client().await.node_groups().await;
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    assert!(server.probe("/readyz").starts_with("HTTP/1.1 200"));
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", server.grpc())).expect("an address");
    let mut health = HealthClient::new(channel.connect().await.expect("connects"));
    let serving = async {
        loop {
            let status = health.check(HealthCheckRequest::default()).await.expect("a response").into_inner().status;
            if status == ServingStatus::Serving as i32 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, serving).await.expect("serving");
    drop(health);
    assert_eq!(server.terminate().code(), Some(0));
}

#[cfg(feature = "aws")]
#[test]
fn a_server_with_an_unreadable_source_is_alive_and_not_ready() {
    let nobody = "http://127.0.0.1:1";
    let config = ConfigFile::new(&format!(
        "sources: [{{name: us, aws: {{region: us-east-1, endpoint: \"{nobody}\", nodeGroups: [\"1:2:g\"]}}}}]"
    ));
    let server = Server::with_config(&config);
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    server.logged("cannot be listed");
    let ready = server.probe("/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("us: "), "{ready}");
}

/// The metadata service accepts connections and says nothing, and each source without a region waits for it.
#[cfg(feature = "aws")]
#[test]
fn sigterm_ends_a_server_that_is_still_connecting_to_its_clouds() {
    let metadata = TcpListener::bind("127.0.0.1:0").expect("a port");
    let sources = (0..20).map(|number| format!("{{name: s{number}, aws: {{nodeGroups: [\"0:1:g\"]}}}}"));
    let config = ConfigFile::new(&format!("sources: [{}]\n", sources.collect::<Vec<_>>().join(", ")));
    let mut server =
        command(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", &config.path()])
            .env("AWS_EC2_METADATA_DISABLED", "false")
            .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://{}", metadata.local_addr().expect("bound")))
            .spawn()
            .expect("it starts");
    let _silent = metadata.accept().expect("it asks for the region");
    assert_eq!(Server::terminate_process(&mut server).code(), Some(0));
}

/// Runs `groups` with this configuration and returns the exit code and the message.
fn refusal(config: &ConfigFile) -> (Option<i32>, String) {
    let output = run(&["groups", "--config", &config.path()]);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(feature = "aws")]
#[test]
fn a_bad_configuration_is_one_message_with_file_line_and_column_and_exit_code_2() {
    let source = |aws: &str| format!("sources:\n  - name: us\n    aws:\n      region: us-east-1\n      {aws}\n");
    for (text, place, parts) in [
        (source("nodegroups: []"), ":5:7:", ["unknown", "nodeGroups"]),
        (source("nodeGroups: [\"5:1:g\"]"), ":5:20:", ["min 5 is greater than max 1", "min:max:name"]),
        (source("autoDiscovery: [\"mig:tag=t\"]"), ":5:23:", ["mig:tag=t", "asg"]),
        ("instanceTypes: [nowhere.yaml]\n".to_owned() + &source(""), ":1:17:", ["nowhere.yaml", "No such file"]),
    ] {
        let config = ConfigFile::new(&text);
        let (code, message) = refusal(&config);
        assert_eq!(code, Some(2), "{message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
        assert!(message.contains(&format!("{}{place}", config.path())), "{place}: {message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
    }
}

#[test]
fn a_missing_configuration_and_an_open_port_in_plaintext_are_refused() {
    let missing = run(&["serve", "--config", "nowhere.yaml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("nowhere.yaml"));
    let nothing = run(&["serve"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("--config"));
    let open = run(&["serve", "--demo", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&open.stderr).contains("--insecure-plaintext"));
}

#[test]
fn an_admin_port_on_all_addresses_is_reached_over_ipv4_and_ipv6() {
    let server = Server::with_admin("[::]:0");
    for host in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        // A machine without IPv6 has no such address.
        if TcpListener::bind((host, 0)).is_ok() {
            let mut stream = TcpStream::connect((host, server.admin().port())).expect("connects");
            stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
            let mut response = String::new();
            stream.read_to_string(&mut response).expect("a response");
            assert!(response.starts_with("HTTP/1.1 200"), "{host}: {response}");
        }
    }
}

#[test]
fn arguments_that_would_have_no_effect_are_refused() {
    for (arguments, part) in [
        (&["serve", "--demo", "--log", "warning"][..], "\"warning\" is not a level; use error, warn"),
        (&["serve", "--demo", "--nodes=1:2:a"], "cannot be used with"),
        (&["serve", "--demo", "--cloud-config=x"], "cannot be used with"),
    ] {
        let output = run(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains(part), "{arguments:?}: {message}");
    }
}

#[test]
fn check_refuses_certificates_that_serve_would_refuse() {
    let config = "grpc: {tls: {cert: no.crt, key: no.key}}\nsources: [{name: demo, simulated: {}}]\n";
    let config = ConfigFile::new(config).beside("no.crt", "{}").beside("no.key", "{}");
    for command in ["check", "serve"] {
        let output = run(&[command, "--config", &config.path()]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && message.contains("no.crt"), "{command}: {message}");
    }
}

#[test]
fn the_codes_of_findings_are_listed_in_any_format() {
    let output = run(&["check", "--list", "-o", "json"]);
    let codes: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let first = &codes.as_array().expect("a list")[0];
    assert!(first["code"].as_str().is_some_and(|code| code.starts_with("HC")) && first["link"].is_string(), "{first}");
}

#[tokio::test]
async fn a_process_that_stood_still_serves_as_before() {
    let server = Server::with_config(&ConfigFile::new("refreshInterval: 1s\nsources: [{name: demo, simulated: {}}]\n"));
    let mut client = server.client().await;
    let before = client.target("web").await;
    server.stand_still().await;
    // The deadline of this call passes meanwhile.
    let mut caller = client.clone().with_timeout(Duration::from_secs(5));
    assert_eq!(caller.refresh().await.expect_err("nobody responds").code(), Code::Cancelled);
    server.signal("CONT");
    client.increase("web", 1).await.expect("there is room");
    assert_eq!(client.target("web").await, before + 1);
    client.until("listed again", async |client| client.nodes_in("web", 2).await.is_empty()).await;
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200") && server.probe("/readyz").starts_with("HTTP/1.1 200"));
    assert!(server.lines_with("panic").is_empty());
}
