//! Access: what is refused at the start, which certificates are accepted, and what a reload changes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rcgen::SanType;

use super::certificates::{Authority, Certificate, Validity, channel, groups, is_served};
use crate::peers::headcount::{ConfigFile, PATIENCE, Server, command, run};

fn mk_config(tls: &str, authority: &Authority, certificate: &Certificate) -> ConfigFile {
    let config = ConfigFile::new(&format!(
        "grpc: {{tls: {{cert: tls.crt, key: tls.key, {tls}}}}}\nsources: [{{name: demo, simulated: {{}}}}]\n"
    ));
    let config = config.beside("tls.crt", &certificate.chain).beside("tls.key", &certificate.key);
    config.beside("ca.crt", &authority.pem())
}

/// Replaces files of a configuration as the kubelet does: each is complete at any time.
fn replace(config: &ConfigFile, files: &[(&str, &str)]) {
    for (name, text) in files {
        let (new, path) = (config.path_of("new"), config.path_of(name));
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).expect("replaced");
    }
}

#[test]
fn tls_without_client_certificates_is_refused_on_an_open_address() {
    let authority = Authority::new("ca");
    let config = mk_config("", &authority, &authority.server(Validity::Now));
    let serve = ["serve", "--config", &config.path(), "--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"];
    let refused = run(&serve);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("--insecure-no-client-auth") && message.contains("clientCa"), "{message}");
    warns(&["--config", &config.path(), "--insecure-no-client-auth"], "to clients without a certificate");
    warns(&["--demo", "--insecure-plaintext"], "gRPC is served in plaintext");
}

/// A server on an open address that warns of this.
fn warns(arguments: &[&str], of: &str) {
    let mut serve = command(&["serve", "--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"]);
    let mut process = serve.args(arguments).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("WARN") && line.contains(of)), "{arguments:?}");
    assert!(process.kill().is_ok() && process.wait().is_ok());
}

#[tokio::test]
async fn a_name_is_matched_only_with_names_of_its_kind() {
    let authority = Authority::new("ca");
    let allowed = "clientCa: ca.crt, allowedClients: [cluster-autoscaler, \"spiffe://prod/ca\", 10.0.0.7]";
    let config = mk_config(allowed, &authority, &authority.server(Validity::Now));
    let server = Server::with_config(&config);
    let dns = |name: &str| SanType::DnsName(name.try_into().expect("a name"));
    let uri = |name: &str| SanType::URI(name.try_into().expect("a name"));
    for (served, names) in [
        (true, vec![dns("cluster-autoscaler")]),
        (true, vec![uri("spiffe://prod/ca")]),
        (false, vec![uri("cluster-autoscaler")]),
        (false, vec![SanType::Rfc822Name("cluster-autoscaler".try_into().expect("a name"))]),
        (false, vec![SanType::IpAddress([10, 0, 0, 7].into())]),
        (false, vec![dns("cluster-autoscaler.evil")]),
    ] {
        let client = authority.client("someone", names.clone());
        assert_eq!(is_served(server.grpc(), &authority, Some(&client)).await, served, "{names:?}");
    }
    assert!(!is_served(server.grpc(), &authority, Some(&authority.client("spiffe://prod/ca", Vec::new()))).await);
}

#[test]
fn a_client_ca_without_allowed_clients_is_warned_about() {
    let authority = Authority::new("ca");
    let server = Server::with_config(&mk_config("clientCa: ca.crt", &authority, &authority.server(Validity::Now)));
    server.logged("every client with a certificate of clientCa can delete nodes");
}

#[tokio::test]
async fn connections_of_a_client_ca_that_was_rotated_out_end() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let config = mk_config("clientCa: ca.crt", &old, &old.server(Validity::Now));
    let server = Server::with_config(&config);
    let connected = channel(server.grpc(), &old, Some(&old.client("ca", Vec::new()))).await.expect("connects");
    assert!(groups(&connected).await.expect("served") > 0);
    replace(&config, &[("ca.crt", &new.pem())]);
    server.signal("HUP");
    server.logged("TLS files reloaded");
    let ended = async {
        while groups(&connected).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("it ends");
    assert!(is_served(server.grpc(), &old, Some(&new.client("ca", Vec::new()))).await);
}

#[tokio::test]
async fn a_bad_certificate_never_replaces_a_good_one() {
    let authority = Authority::new("ca");
    let good = authority.server(Validity::Now);
    let config = mk_config("clientCa: ca.crt", &authority, &good);
    let server = Server::with_config(&config);
    let client = authority.client("cluster-autoscaler", Vec::new());
    for (bad, reason) in [(Validity::Past, "2020"), (Validity::Future, "2090")] {
        let certificate = authority.server(bad);
        replace(&config, &[("tls.crt", &certificate.chain), ("tls.key", &certificate.key)]);
        server.signal("HUP");
        assert!(server.logged(reason).contains("cannot be used"));
        assert!(is_served(server.grpc(), &authority, Some(&client)).await, "{reason}");
        let ready = server.probe("/readyz");
        assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("tls: "), "{ready}");
    }
    assert!(server.probe("/metrics").contains("\nheadcount_tls_reload_failures_total 2\n"));
    let renewed = authority.server(Validity::Now);
    replace(&config, &[("tls.crt", &renewed.chain), ("tls.key", &renewed.key)]);
    server.signal("HUP");
    server.logged("TLS files reloaded");
    assert!(!server.probe("/readyz").contains("tls: "));
}

#[tokio::test]
async fn a_fifo_in_place_of_a_key_blocks_nothing() {
    let authority = Authority::new("ca");
    let config = mk_config("clientCa: ca.crt", &authority, &authority.server(Validity::Now));
    let server = Server::with_config(&config);
    let key = config.path_of("tls.key");
    std::fs::remove_file(&key).expect("removed");
    assert!(Command::new("mkfifo").arg(&key).status().expect("mkfifo runs").success());
    server.signal("HUP");
    server.logged("is not a regular file");
    assert!(is_served(server.grpc(), &authority, Some(&authority.client("ca", Vec::new()))).await);
    assert_eq!(server.terminate().code(), Some(0));
}

#[tokio::test]
async fn other_signals_do_nothing_and_sighup_reloads() {
    let text = |label: &str, refresh: &str| {
        format!(
            "refreshInterval: {refresh}\nprices: {{live: {}}}\ngroups: [{{match: web, labels: {{team: {label}}}}}]\n\
             sources: [{{name: demo, simulated: {{}}}}]\n",
            label == "before"
        )
    };
    let config = ConfigFile::new(&text("before", "1s"));
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    for signal in ["USR1", "USR2", "ALRM"] {
        server.signal(signal);
    }
    assert!(!client.node_groups().await.is_empty());
    let has = |bytes: &[u8], label: &str| bytes.windows(label.len()).any(|window| window == label.as_bytes());
    client
        .until("the first label", async |client| has(&client.template("web").await.expect("built").node_info, "before"))
        .await;

    replace(&config, &[("headcount.yaml", "groups: [{match: web, labels: no}]\n")]);
    server.signal("HUP");
    server.logged("configuration cannot be reloaded");
    replace(&config, &[("headcount.yaml", &text("after", "2s"))]);
    server.signal("HUP");
    assert!(server.logged("changed keys need a restart").contains("refreshInterval"));
    assert!(server.logged("configuration reloaded").contains("groups, prices"));
    client
        .until("the new label", async |client| has(&client.template("web").await.expect("built").node_info, "after"))
        .await;
    assert_eq!(server.terminate().code(), Some(0));
    let output = command(&["serve", "--help"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains("--insecure-no-client-auth"));
}
