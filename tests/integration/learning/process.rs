//! The real binary: what it learns, what it saves, and what it logs when it cannot.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use tokio::net::TcpSocket;

use super::fixture::{CONFIG_MAP, NAMESPACE};
use super::{HIGH, LOW, seen};
use crate::emulators::aws::Aws;
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::emulators::setup::Setup;
use crate::peers::headcount::run;

const LEARN: &str = "learn: {kubernetes: true, kubeconfig: kubeconfig}";

fn emulator() -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(7, [GroupPlan::aws("web").sized(0, 10, 1)])))
}

/// Headcount before both emulators.
async fn setup(kubeconfig: String) -> Setup<Aws> {
    Setup::with(emulator(), |options| {
        options.more = LEARN.to_owned();
        options.files.push(("kubeconfig".to_owned(), kubeconfig));
    })
    .await
}

/// A row of `headcount template web`.
fn row(setup: &Setup<Aws>, path: &str) -> String {
    let output = run(&["template", "web", "--config", &setup.config()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = text.lines().find(|line| line.starts_with(path)).map(str::to_owned);
    row.unwrap_or_else(|| panic!("{path} in {text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[tokio::test]
async fn a_server_that_starts_without_nodes_uses_the_saved_figures() {
    let api = ApiServer::plain();
    let mut setup = setup(api.kubeconfig_text()).await;
    setup.client.until("listed", async |client| client.nodes("web").await.len() == 1).await;
    let before = setup.client.template("web").await.expect("built").node_bytes;
    let id = setup.client.nodes("web").await[0].id.clone();
    api.set_nodes([mk_node("one", &id, HIGH)]);
    setup.restart().await;
    setup
        .client
        .until("learned", async |client| client.template("web").await.expect("built").node_bytes != before)
        .await;
    let learned = setup.client.template("web").await.expect("built").node_bytes;
    setup.client.until("kept", async |_| api.config_map(NAMESPACE, CONFIG_MAP).is_some()).await;

    setup.client.delete("web", &[&id]).await.expect("deleted");
    setup.client.until("gone", async |client| client.nodes("web").await.is_empty()).await;
    api.set_nodes([]);
    setup.restart().await;
    setup
        .client
        .until("remembered", async |client| client.template("web").await.expect("built").node_bytes == learned)
        .await;
    let memory = row(&setup, "capacity.memory");
    assert!(memory.contains(&format!("{HIGH}Ki")) && memory.contains(&seen("one")), "{memory}");
    assert!(row(&setup, "allocatable.memory").contains(&seen("one")));

    // A command only reads. It does not even save what it learned.
    let kept = api.config_map(NAMESPACE, CONFIG_MAP);
    api.set_nodes([mk_node("two", &id, LOW)]);
    row(&setup, "capacity.memory");
    assert_eq!(api.config_map(NAMESPACE, CONFIG_MAP), kept);
}

#[tokio::test]
async fn without_an_api_server_everything_is_served_with_a_warning() {
    let api = ApiServer::plain();
    // Nothing listens on this port, and nothing else gets it while it is bound.
    let bound = TcpSocket::new_v4().expect("a socket");
    bound.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let nobody = bound.local_addr().expect("an address").to_string();
    let kubeconfig = api.kubeconfig_text().replace(&api.address().to_string(), &nobody);
    let mut setup = setup(kubeconfig).await;
    setup.client.until("served", async |client| client.nodes("web").await.len() == 1).await;
    setup.client.increase("web", 1).await.expect("there is room");
    setup.client.template("web").await.expect("built");
    let line = setup.server().logged("nodes cannot be watched");
    assert!(line.contains("WARN") && line.contains("cannot connect to the API server at 127.0.0.1"), "{line}");
    assert!(row(&setup, "capacity.memory").contains("live discovery"));
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_a_bad_configuration() {
    let config =
        crate::peers::headcount::ConfigFile::new(&format!("{LEARN}\nsources: [{{name: a, simulated: {{}}}}]\n"));
    let config = config.beside("kubeconfig", "current-context: nowhere\n");
    let output = run(&["groups", "--config", &config.path()]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("the kubeconfig cannot be used: ") && message.contains("no context \"nowhere\""),
        "{message}"
    );
}
