//! What SIGHUP reads again besides credentials, under a running server: tables of instance types, and from whom to
//! learn. A version that cannot be used leaves the earlier one in use, with a log line and a count.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use super::counted;
use crate::emulators::Emulator as _;
use crate::emulators::aws::Aws;
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::peers::headcount::{Client, ConfigFile, Server, eventually};

const SOURCES: &str = "refreshInterval: 1s\nsources: [{name: demo, simulated: {}}]\n";

/// Waits until the template of `web` has this memory.
async fn promises(client: &mut Client, memory: &str) {
    let has = |bytes: &[u8]| bytes.windows(memory.len()).any(|window| window == memory.as_bytes());
    client.until(memory, async |client| has(&client.template("web").await.expect("built").node_info)).await;
}

fn reloads(server: &Server, result: &str) -> String {
    counted(server, &format!("headcount_config_reloads_total{{result=\"{result}\"}}"))
}

#[tokio::test]
async fn a_table_that_changes_is_used_after_sighup_and_one_that_is_wrong_is_not() {
    let table = |memory: &str| format!("aws: {{m5.large: {{memory: {memory}}}}}\n");
    let config = ConfigFile::new(&format!("{SOURCES}instanceTypes: [types.yaml]\n"));
    let config = config.beside("types.yaml", &table("7111Mi"));
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    promises(&mut client, "7111Mi").await;

    for (wrong, number) in [(table("much"), "1"), ("aws: [".to_owned(), "2")] {
        std::fs::write(config.path_of("types.yaml"), wrong).expect("written");
        server.signal("HUP");
        eventually("the failure is counted", || reloads(&server, "failure") == number).await;
        let line = server.logged("configuration cannot be reloaded; continuing with the previous one");
        assert!(line.contains("types.yaml:1:"), "{line}");
        promises(&mut client, "7111Mi").await;
    }

    std::fs::write(config.path_of("types.yaml"), table("7222Mi")).expect("written");
    server.signal("HUP");
    let line = server.logged("\"configuration reloaded\"");
    assert!(line.contains("\"changed\":\"instanceTypes\""), "{line}");
    promises(&mut client, "7222Mi").await;
    // A page that is read often is up to a second old.
    eventually("the reload is counted", || reloads(&server, "success") == "1").await;
    assert_eq!(reloads(&server, "failure"), "2");
}

#[tokio::test]
async fn a_flag_that_makes_it_read_only_is_no_change_of_the_file() {
    let config = ConfigFile::new(SOURCES);
    let server = Server::start(&["--config", &config.path(), "--read-only"]);
    server.signal("HUP");
    server.logged("configuration reloaded; nothing has changed");
}

#[tokio::test]
async fn learning_begins_and_ends_at_sighup_and_a_kubeconfig_that_cannot_be_used_changes_nothing() {
    let api = ApiServer::plain();
    let aws = Aws::start(Arc::new(Simulated::with_groups(7, [GroupPlan::aws("web").sized(0, 10, 1)])));
    let settings: String = aws.settings().iter().map(|line| format!("      {line}\n")).collect();
    let text = |learn: &str| {
        format!(
            "refreshInterval: 1s\n{learn}\nsources:\n  - name: here\n    aws:\n{settings}      nodeGroups: \
                [\"0:10:web\"]\n"
        )
    };
    let from = |kubeconfig: &str| format!("learn: {{kubernetes: true, kubeconfig: {kubeconfig}}}");
    let config = ConfigFile::new(&text("")).beside("good", &api.kubeconfig_text());
    let config = config.beside("bad", "current-context: nowhere\n");
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    client.until("listed", async |client| client.nodes("web").await.len() == 1).await;
    let id = client.nodes("web").await[0].id.clone();
    api.set_nodes([mk_node("one", &id, 7_900_000)]);
    let reload = |learn: &str| {
        std::fs::write(config.path(), text(learn)).expect("written");
        server.signal("HUP");
    };

    reload(&from("good"));
    let line = server.logged("\"configuration reloaded\"");
    assert!(line.contains("\"changed\":\"learn"), "{line}");
    promises(&mut client, "7900000Ki").await;

    reload(&from("bad"));
    let line = server.logged("learn and kubernetes.taints cannot be applied; their previous values stay in use");
    assert!(line.contains("nowhere"), "{line}");
    assert_eq!((reloads(&server, "success"), reloads(&server, "failure")), ("1".to_owned(), "1".to_owned()));
    api.set_nodes([mk_node("one", &id, 7_800_000)]);
    eventually("the nodes are still watched", || api.is_delivered()).await;

    reload("");
    eventually("the end of learning is counted", || reloads(&server, "success") == "2").await;
    let asked = api.requests().len();
    api.end_watches();
    reload("groups: [{match: web, labels: {team: a}}]");
    eventually("one more", || reloads(&server, "success") == "3").await;
    assert_eq!(api.requests().len(), asked, "nobody watches the nodes any more");
}
