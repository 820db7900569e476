//! Findings about the Cluster Autoscaler: its flags, its release, its use of prices.

use headcount::cloud::Permit;
use headcount::grpc::proto::{NodeGroupAutoscalingOptions, NodeGroupAutoscalingOptionsRequest};
use serde_json::Value;

use super::{aws, check, plan};
use crate::commands::{config, texts};
use crate::emulators::aws::error;
use crate::emulators::kubernetes::ApiServer;
use crate::emulators::{Emulator, HttpResponse};
use crate::peers::headcount::{Server, refused, run};

#[tokio::test]
async fn the_flags_of_the_autoscaler_are_read_from_its_deployment() {
    let emulator = aws([plan("web")]);
    let manifest = "
kind: Deployment
spec: {template: {spec: {containers: [{name: ca, image: 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.2',
  command: [./cluster-autoscaler, --cloud-provider=aws, --balance-similar-node-groups]}]}}}
";
    let config = config(&emulator, &["0:10:web"], "").beside("ca.yaml", manifest);
    let output =
        run(&["check", "-o", "json", "--config", &config.path(), "--ca-deployment", &config.path_of("ca.yaml")]);
    let found: Vec<Value> = serde_json::from_str(&texts(&output).0).expect("JSON");
    let codes: Vec<_> = found.iter().map(|finding| (finding["code"].as_str(), finding["severity"].as_str())).collect();
    assert!(
        codes.contains(&(Some("HC501"), Some("error"))) && codes.contains(&(Some("HC503"), Some("warning"))),
        "{codes:?}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn the_flags_of_the_autoscaler_are_read_from_the_kubernetes_api_where_it_can_be_read() {
    let (emulator, api) = (aws([plan("web")]), ApiServer::plain());
    let image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0";
    let flags = ["./cluster-autoscaler", "--cloud-provider=externalgrpc", "--nodes=1:2:web", "--expander=price"];
    api.deploy("kube-system", "proxy", "proxy:1", &["serve"]);
    api.deploy("kube-system", "ca", image, &flags);
    let learn = "learn: {kubernetes: true, kubeconfig: kubeconfig}\ngroups: [{match: web, options: \
        {scaleDownUnneededTime: 20m}}]";
    let config = config(&emulator, &["0:10:web"], learn).beside("kubeconfig", &api.kubeconfig_text());
    let found = check(&config);
    found.has("ok cluster-autoscaler release 1.35, with the flags of Deployment kube-system/ca", &[]);
    found.has("ok cluster-autoscaler uses --cloud-provider=externalgrpc", &[]);
    found.has("ok cluster-autoscaler uses --expander=price", &[]);
    found.has("warning cluster-autoscaler ignores these flags with external gRPC: --nodes", &[]);
    found.has("warning cluster-autoscaler does not get the options set for web", &["booting nodes as unready"]);
    assert_eq!(found.code, Some(0));
    let elsewhere = texts(&run(&["check", "--ca-namespace", "other", "--config", &config.path()])).0;
    assert!(elsewhere.contains("no Deployment in the namespace other runs cluster-autoscaler"), "{elsewhere}");
}

#[tokio::test]
async fn a_running_server_shows_the_last_call_and_the_release_of_the_autoscaler() {
    let emulator = aws([plan("web")]);
    let config = config(&emulator, &["0:10:web"], "groups: [{match: web, options: {scaleDownUnneededTime: 20m}}]");
    let server = Server::with_config(&config);
    let url = format!("http://{}", server.admin());
    let check = || texts(&run(&["check", "--server", &url, "--config", &config.path()])).0;
    let before = check();
    assert!(before.contains(&format!("has not called {url} yet")), "{before}");
    let mut client = server.client().await;
    client.until("served", async |client| !client.node_groups().await.is_empty()).await;
    // Neither Kubernetes durations for the provision time nor protobuf durations: 1.28 and before.
    let defaults = NodeGroupAutoscalingOptions { scale_down_utilization_threshold: 0.5, ..Default::default() };
    let request = NodeGroupAutoscalingOptionsRequest { id: "web".to_owned(), defaults: Some(defaults) };
    client.stub().node_group_get_options(request).await.expect("no error");
    let after = check();
    assert!(after.contains("its requests are those of release 1.25 to 1.28"), "{after}");
    assert!(after.contains("does not get the options set for web: releases before 1.29"), "{after}");
}

#[tokio::test]
async fn a_running_server_shows_the_groups_that_it_serves_as_ones_that_cannot_grow() {
    let mut suspended = plan("web");
    suspended.growth = Permit::Withheld("User suspended".to_owned());
    let emulator = aws([suspended]);
    let config = config(&emulator, &["0:10:web"], "refreshInterval: 5m");
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    client.until("served", async |client| !client.node_groups().await.is_empty()).await;
    emulator.simulated().replan("web", |plan| plan.growth = Permit::Granted).expect("it exists");
    let url = format!("http://{}", server.admin());
    let found = texts(&run(&["check", "--server", &url, "--config", &config.path()])).0;
    let line = found.lines().find(|line| line.contains("HC406")).expect(&found);
    assert!(line.contains("is served as one that cannot grow: the group's Launch process is suspended"), "{line}");
}

#[tokio::test]
async fn a_running_server_shows_the_groups_in_which_it_may_not_launch() {
    let mut several = plan("several");
    several.zones.push("us-east-1b".to_owned());
    let emulator = aws([plan("web"), plan("calm"), several]);
    emulator.script("POST", "Action=LaunchInstances", 9, error(403, "AccessDenied", "autoscaling:LaunchInstances"));
    emulator.group_details("several", |details| details.suspended = vec!["AZRebalance".to_owned()]);
    let policies = "groups: [{match: several, zones: separate}, {match: \"*\", launch: synchronous}]";
    let config = config(&emulator, &["0:10:web", "0:10:calm", "0:10:several"], policies);
    let server = Server::with_config(&config);
    let url = format!("http://{}", server.admin());
    let check = || texts(&run(&["check", "--server", &url, "--config", &config.path()])).0;
    let mut client = server.client().await;
    client.until("served", async |client| client.node_groups().await.len() == 4).await;
    assert!(!check().contains("HC418"), "nothing was launched yet");
    client.increase("web", 1).await.expect("its desired capacity is set");
    refused(client.increase("several/us-east-1b", 1).await);
    let found = check();
    let lines: Vec<&str> = found.lines().filter(|line| line.contains("HC418")).collect();
    assert_eq!(lines.len(), 3, "{found}");
    for (group, what) in [
        (" web ", "its desired capacity is set instead: denied: "),
        (" several/us-east-1a ", "this zone does not grow: denied: "),
        (" several/us-east-1b ", "this zone does not grow: denied: "),
    ] {
        let line = lines.iter().find(|line| line.contains(group)).expect(&found);
        assert!(line.starts_with("warning") && line.contains(what) && line.contains("HeadcountLaunches"), "{line}");
    }
}

#[tokio::test]
async fn new_instances_that_are_listed_at_once_are_a_warning_for_releases_that_may_lack_the_fix() {
    let emulator = aws([plan("web")]);
    let found = |settings: &str, more: &[&str]| {
        let config = config(&emulator, &["0:10:web"], settings);
        texts(&run(&[&["check", "--config", &config.path()], more].concat())).0
    };
    let unconfirmed = found("grpc: {newInstances: list}", &[]);
    let line = unconfirmed.lines().find(|line| line.contains("HC509")).expect(&unconfirmed);
    assert!(line.starts_with("warning") && line.contains("its release is not known"), "{line}");
    assert!(line.contains("cluster-autoscaler#157") && line.contains("remove grpc.newInstances"), "{line}");
    assert!(found("grpc: {newInstances: list}", &["--ca-version", "1.37"]).contains("its release is 1.37"));
    for unaffected in [found("grpc: {newInstances: list}", &["--ca-version", "1.34"]), found("", &[])] {
        assert!(!unaffected.contains("HC509"), "{unaffected}");
    }
}

#[tokio::test]
async fn estimated_prices_are_a_warning_where_the_autoscaler_uses_prices() {
    let emulator = aws([plan("web").instance_types(&["m5.large"]), plan("odd").instance_types(&["own.huge"])]);
    let manifest = |expander: &str| {
        format!(
            "kind: Deployment\nspec: {{template: {{spec: {{containers: [{{name: ca, image: 'cluster-autoscaler:v1.34.2',\n  \
             command: [./cluster-autoscaler, --cloud-provider=externalgrpc, '--expander={expander}']}}]}}}}}}\n"
        )
    };
    let config = config(&emulator, &["0:10:web", "0:10:odd"], "instanceTypes: [own.yaml]")
        .beside("own.yaml", "aws: {own.huge: {cpu: 4, nominalMemory: 8Gi}}")
        .beside("price.yaml", &manifest("least-waste,price"))
        .beside("other.yaml", &manifest("least-waste"));
    let findings = |manifest: Option<&str>| {
        let (path, manifest) = (config.path(), manifest.map(|name| config.path_of(name)));
        let mut arguments = vec!["check", "-o", "json", "--config", &path];
        arguments.extend(manifest.iter().flat_map(|path| ["--ca-deployment", path]));
        let found: Vec<Value> = serde_json::from_str(&texts(&run(&arguments)).0).expect("JSON");
        let of_prices = |finding: &&Value| finding["code"] == "HC502" || finding["code"] == "HC305";
        found.iter().filter(of_prices).map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = findings(Some("price.yaml"));
    assert!(found.len() == 1 && found[0].contains("\"warning\"") && found[0].contains("odd ("), "{found:?}");
    assert!(!found[0].contains("web ("), "its price is live: {found:?}");
    assert!(findings(Some("other.yaml")).is_empty() && findings(None).is_empty());

    let refusal = serde_json::json!({"__type": "AccessDeniedException", "Message": "not authorized"});
    emulator.script("POST", "\"AmazonEC2\"", 99, HttpResponse::json(400, &refusal));
    let found = findings(Some("price.yaml"));
    let lists = found.iter().find(|finding| finding.contains("HC305")).expect("a finding");
    assert!(
        lists.contains("\"warning\"") && lists.contains("optional") && lists.contains("HeadcountPrices"),
        "{lists}"
    );
    let found = findings(None);
    assert!(found.len() == 1 && found[0].contains("HC305") && found[0].contains("\"ok\""), "{found:?}");
}
