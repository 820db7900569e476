//! The calls of the README to the demo, and the configurations that the README and docs/configuration.md show.

use headcount::config::Config;

use crate::emulators::certificate_authority::CertificateAuthority;
use crate::peers::headcount::{Client, ConfigFile, Server};

const README: &str = include_str!("../../../README.md");
const CONFIGURATION: &str = include_str!("../../../docs/configuration.md");

const KUBECONFIG: &str = "\
current-context: here
contexts: [{name: here, context: {cluster: here, user: here}}]
clusters: [{name: here, cluster: {server: https://127.0.0.1:1}}]
users: [{name: here, user: {token: none}}]
";

/// The calls of the README's grpcurl commands, with their requests.
fn calls() -> Vec<(&'static str, &'static str)> {
    let lines = README.lines().filter(|line| line.starts_with("    grpcurl "));
    let call = |line: &'static str| {
        let (_, method) = line.rsplit_once("$C/")?;
        Some((method, line.split('\'').nth(1).unwrap_or("{}")))
    };
    lines.filter_map(call).collect()
}

/// Makes a call, and returns how many things the response has.
async fn count(client: &mut Client, method: &str, request: &str) -> i32 {
    let request: serde_json::Value = serde_json::from_str(request).expect("JSON");
    let id = request["id"].as_str().unwrap_or_default();
    match method {
        "NodeGroups" => client.node_groups().await.len().try_into().expect("few"),
        "NodeGroupIncreaseSize" => {
            let delta = request["delta"].as_i64().expect("a delta").try_into().expect("small");
            client.increase(id, delta).await.expect("there is room");
            delta
        }
        "NodeGroupTargetSize" => client.target(id).await,
        "NodeGroupNodes" => client.nodes(id).await.len().try_into().expect("few"),
        "NodeGroupTemplateNodeInfo" => {
            client.template(id).await.expect("built").node_bytes.len().try_into().expect("small")
        }
        _ => panic!("the README calls {method}, which is not tried here"),
    }
}

#[tokio::test]
async fn the_readmes_calls_work_on_the_demo() {
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    let calls = calls();
    assert_eq!(calls.len(), 5, "{calls:?}");
    for (method, request) in calls {
        assert!(count(&mut client, method, request).await > 0, "{method} {request}");
    }
}

/// The configuration of a page that begins with this line: up to the next line that is not indented as it is.
fn shown(page: &str, first: &str, indent: &str) -> String {
    let lines = page.lines().skip_while(|line| line.strip_prefix(indent) != Some(first));
    let lines = lines.take_while(|line| line.starts_with(indent) && *line != "```");
    lines.map(|line| format!("{}\n", line.strip_prefix(indent).unwrap_or_default())).collect()
}

#[test]
fn the_configurations_that_pages_show_are_valid() {
    let authority = CertificateAuthority::new();
    let (certificate, key) = authority.server_pems();
    for (text, sources) in [(shown(README, "sources:", "    "), 2), (shown(CONFIGURATION, "grpc:", ""), 3)] {
        let text = text.replace("/etc/kubernetes/azure.json", "azure.json");
        let file = ConfigFile::new(&text)
            .beside(
                "azure.json",
                r#"{"subscriptionId": "0000", "resourceGroup": "rg", "useManagedIdentityExtension": true}"#,
            )
            .beside("my-table.yaml", "aws: {}\n")
            .beside("kubeconfig.yaml", KUBECONFIG)
            .beside("tls.crt", &certificate)
            .beside("tls.key", &key)
            .beside("ca.crt", &authority.pem());
        let config = Config::parse(&text, file.path().as_ref(), &|_| None);
        let config = config.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(config.sources.len(), sources, "{text}");
    }
}
