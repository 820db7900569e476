//! `headcount check`

use std::sync::Arc;

use headcount::cloud::{Family, Permit};
use headcount::clouds::simulated::{GroupPlan, Simulated};
use headcount::grpc::proto::{NodeGroupAutoscalingOptions, NodeGroupAutoscalingOptionsRequest};
use serde_json::Value;

use super::{config, texts};
use crate::emulators::arm::Arm;
use crate::emulators::aws::{Aws, Launch, Override, error};
use crate::emulators::kubernetes::ApiServer;
use crate::emulators::{Emulator, HttpResponse};
use crate::peers::headcount::{ConfigFile, Server, command, run};
use crate::peers::moto::Moto;

/// What is found, a line each without its columns' spaces, and the exit code.
struct Found {
    lines: Vec<String>,
    summary: String,
    code: Option<i32>,
}

fn check(config: &ConfigFile) -> Found {
    let output = run(&["check", "--config", &config.path()]);
    let (table, complaint) = texts(&output);
    let mut lines: Vec<String> = table.lines().map(without_code).collect();
    let summary = lines.pop().unwrap_or_else(|| panic!("{complaint}"));
    assert!(summary.contains(" check"), "{summary}");
    Found { lines, summary, code: output.status.code() }
}

/// A line with single spaces, without the code and the link to it.
fn without_code(line: &str) -> String {
    let words =
        line.split_whitespace().filter(|word| !word.starts_with("HC") && !word.starts_with("(docs/check.md#hc"));
    words.collect::<Vec<_>>().join(" ")
}

impl Found {
    #[track_caller]
    fn has(&self, start: &str, parts: &[&str]) {
        let fits = |line: &String| line.starts_with(start) && parts.iter().all(|part| line.contains(part));
        assert!(self.lines.iter().any(fits), "{start} {parts:?} in\n{}", self.lines.join("\n"));
    }

    #[track_caller]
    fn has_no(&self, start: &str) {
        assert!(!self.lines.iter().any(|line| line.starts_with(start)), "{start} in\n{}", self.lines.join("\n"));
    }
}

/// A group in one zone, of two nodes, 0 to 10.
fn plan(name: &str) -> GroupPlan {
    let mut plan = GroupPlan::aws(name).sized(0, 10, 2);
    plan.zones.truncate(1);
    plan
}

fn aws(plans: impl IntoIterator<Item = GroupPlan>) -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(7, plans)))
}

#[tokio::test]
async fn where_all_is_well_every_line_says_so_and_the_exit_code_is_0() {
    let emulator = aws([plan("web")]);
    let found = check(&config(&emulator, &["0:10:web"], ""));
    found.has("ok here can be read; 1 group", &[]);
    found.has(
        "ok web size 2 in 0:10; a new node has 2 cpu and ",
        &["(live discovery, an estimate) — to make it exact, set learn"],
    );
    assert_eq!((found.lines.len(), found.summary.as_str(), found.code), (2, "2 checks: nothing is wrong", Some(0)));
}

#[tokio::test]
async fn what_works_against_the_autoscaler_is_warned_of_with_what_to_do() {
    let mut spread = GroupPlan::aws("spread").sized(0, 10, 2);
    spread.removal = Permit::Withheld("suspended".to_owned());
    let mut stuck = plan("stuck");
    stuck.growth = Permit::Withheld("suspended".to_owned());
    let emulator = aws([spread, stuck, plan("weighted"), plan("scaled"), plan("bounds")]);
    let weight = |name: &str, weight: &str| Override {
        instance_type: Some(name.to_owned()),
        weight: Some(weight.to_owned()),
        requirements: None,
    };
    emulator.group_details("weighted", |details| {
        details.overrides = vec![weight("m5.large", "1"), weight("m5.xlarge", "2")]
    });
    emulator.group_details("scaled", |details| {
        details.policies = vec!["cpu-50".to_owned()];
        details.refresh = Some("InProgress".to_owned());
    });
    let groups = ["0:10:spread", "0:10:stuck", "0:10:weighted", "0:10:scaled", "1:5:bounds", "0:1:gone"];
    let found = check(&config(&emulator, &groups, "learn: {configMap: mine}"));
    found.has("warning spread it spans 2 zones", &["(AZRebalance) — aws autoscaling suspend-processes"]);
    found.has("warning spread cannot shrink: the group's Terminate process is suspended", &["resume-processes"]);
    found.has("warning stuck cannot grow: the group's Launch process is suspended", &["resume-processes"]);
    found.has("warning weighted cannot grow: ", &["different weights", "give its instance types the same weight"]);
    found.has(
        "warning scaled its size is also set by scaling policies: cpu-50 — delete them",
        &["--policy-name cpu-50"],
    );
    found.has(
        "warning scaled an instance refresh is under way (InProgress, 40 % done)",
        &["cancel-instance-refresh --auto-scaling-group-name scaled"],
    );
    found.has("warning bounds configured as 1:5, but the Auto Scaling group has 0:10; 1:5 is used", &[]);
    found.has("warning gone is in the configuration but does not exist — create it, or correct the name", &[]);
    found.has("warning config", &["nothing is learned without learn.kubernetes: true"]);
    found.has("ok scaled size 2 in 0:10", &[]);
    found.has_no("error");
    assert_eq!(found.code, Some(0), "nothing of it keeps Headcount from working");
}

#[tokio::test]
async fn a_group_whose_machines_cannot_be_described_is_an_error_and_comes_first() {
    let emulator = aws([plan("good"), plan("template")]);
    emulator.group_details("template", |details| details.launch = Launch::MissingTemplate);
    let found = check(&config(&emulator, &["0:10:good", "0:10:template"], ""));
    found.has("error template no template can be built, so it cannot grow from zero: ", &["launch template"]);
    found.has("ok good", &[]);
    let severities: Vec<_> = found.lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(severities, ["error", "ok", "ok"]);
    assert_eq!(found.code, Some(1));
}

#[tokio::test]
async fn a_source_that_cannot_be_read_is_an_error_and_the_others_are_checked_all_the_same() {
    let emulator = aws([plan("web")]);
    let source = |name: &str, endpoint: &str| {
        format!("{{name: {name}, aws: {{region: us-east-1, endpoint: \"{endpoint}\", nodeGroups: [\"0:10:web\"]}}}}")
    };
    let sources = [source("gone", "http://127.0.0.1:1"), source("there", &emulator.url())].join(", ");
    let found = check(&ConfigFile::new(&format!("sources: [{sources}]\n")));
    found.has(
        "error gone cannot be read: unreachable: DescribeAutoScalingGroups",
        &["— check the network, the proxy, and the region or endpoint"],
    );
    found.has("ok there can be read; 1 group", &[]);
    found.has("ok web", &[]);
    assert_eq!(found.code, Some(1));
}

#[tokio::test]
async fn missing_permissions_are_named_with_the_policy_that_grants_them() {
    let denied = || error(403, "AccessDenied", "User: me is not authorized to perform this");
    let emulator = aws([plan("web")]);
    emulator.script("POST", "Action=DescribePolicies", 99, denied());
    let found = check(&config(&emulator, &["0:10:web"], ""));
    found.has("warning here cannot be checked for settings that conflict with the Cluster Autoscaler: denied: DescribePolicies", &[]);
    assert_eq!(found.code, Some(0), "serving does not need it");
    emulator.script("POST", "Action=DescribeAutoScalingGroups", 99, denied());
    let found = check(&config(&emulator, &["0:10:web"], ""));
    found.has("error here cannot be read: denied: ", &["check the credentials", "deploy/aws-iam-policy.json"]);
    assert_eq!(found.code, Some(1));
}

#[tokio::test]
async fn names_that_two_sources_share_and_gpus_in_both_clouds_are_warned_of() {
    let one = aws([plan("web").instance_types(&["g4dn.xlarge"])]);
    let two = Arm::start(Arc::new(
        Simulated::with_groups(7, [GroupPlan::azure("web").instance_types(&["Standard_NC24ads_A100_v4"])])
            .of_family(Family::Azure),
    ));
    let settings = |name: &str, emulator: &dyn Fn() -> (String, Vec<String>)| {
        let (cloud, lines) = emulator();
        let lines: String = lines.iter().map(|line| format!("      {line}\n")).collect();
        format!("  - name: {name}\n    {cloud}:\n{lines}      nodeGroups: [\"0:100:web\"]\n")
    };
    let sources = settings("us", &|| (one.cloud().to_owned(), one.settings()))
        + &settings("eu", &|| (two.cloud().to_owned(), two.settings()));
    let both = check(&ConfigFile::new(&format!("sources:\n{sources}")));
    both.has("warning us/web another source also has a group named web, so each is served as source/name — use", &[]);
    both.has("warning eu/web another source also has", &[]);
    both.has("warning config both clouds have GPU groups", &["set it as gpuLabel"]);
    both.has("ok eu/web", &[]);
    let labelled = check(&ConfigFile::new(&format!("gpuLabel: team/gpu\nsources:\n{sources}")));
    labelled.has_no("warning config");
}

#[tokio::test]
async fn a_scale_set_that_azure_monitor_scales_too_is_warned_of() {
    let cloud = Simulated::with_groups(7, [GroupPlan::azure("pool"), GroupPlan::azure("calm")]);
    let emulator = Arm::start(Arc::new(cloud.of_family(Family::Azure)));
    emulator.group_details("pool", |details| details.autoscale = Some("by-cpu".to_owned()));
    let found = check(&config(&emulator, &["0:10:pool", "0:10:calm"], ""));
    found.has("warning pool its size is also set by the autoscale setting by-cpu — switch it off: az monitor", &[]);
    found.has_no("warning calm");
    found.has("ok calm", &[]);
    assert_eq!(found.code, Some(0));
}

#[tokio::test]
async fn what_learning_needs_is_tried() {
    let (emulator, api) = (aws([plan("web")]), ApiServer::plain());
    let learn = "learn: {kubernetes: true, kubeconfig: kubeconfig}";
    let config = config(&emulator, &["0:10:web"], learn).beside("kubeconfig", &api.kubeconfig_text());
    check(&config).has("ok kubernetes nodes and the ConfigMap can be read", &[]);
    api.set_down(true);
    let found = check(&config);
    found.has(
        "warning kubernetes nothing can be learned from nodes: list nodes: 503 Service Unavailable",
        &["deploy/kubernetes-rbac.yaml"],
    );
    assert_eq!(found.code, Some(0));
    let nowhere = check(&super::config(&emulator, &["0:10:web"], "learn: {kubernetes: true}"));
    nowhere.has("warning kubernetes nothing can be learned from nodes: not in a pod", &["set kubernetes.kubeconfig"]);
}

#[tokio::test]
async fn a_pod_without_an_identity_is_warned_of_with_what_to_do() {
    let emulator = aws([plan("web")]);
    let config = config(&emulator, &["0:10:web"], "");
    let check = |variables: &[(&str, &str)]| {
        let mut check = command(&["check", "--config", &config.path()]);
        check.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY").envs(variables.iter().copied());
        texts(&check.output().expect("the binary runs")).0
    };
    let in_pod = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let found = check(&[in_pod]);
    assert!(found.contains("HC103") && found.contains("the pod has no identity for source here"), "{found}");
    assert!(!check(&[]).contains("HC103"), "not in a pod");
    let found = check(&[in_pod, ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/headcount")]);
    assert!(found.contains("AWS_ROLE_ARN is set, but AWS_WEB_IDENTITY_TOKEN_FILE is not"), "{found}");
}

#[tokio::test]
async fn a_source_without_groups_is_warned_of() {
    let emulator = aws([]);
    let lines: String = emulator.settings().iter().map(|line| format!("      {line}\n")).collect();
    let discovery = "      autoDiscovery: [\"asg:tag=nobody\"]\n";
    let found = check(&ConfigFile::new(&format!("sources:\n  - name: here\n    aws:\n{lines}{discovery}")));
    found.has("warning here has no node group — name groups under nodeGroups", &[]);
    assert_eq!(found.code, Some(0));
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

#[tokio::test]
async fn groups_in_moto_are_checked() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-name", "m5.large", (0, 20, 1), &[]).await;
    let source = format!("{{region: us-east-1, endpoint: \"{}\", nodeGroups: [\"0:20:by-name\"]}}", moto.url());
    let found = check(&ConfigFile::new(&format!("sources: [{{name: us, aws: {source}}}]\n")));
    found.has("ok us can be read; 1 group", &[]);
    found.has("ok by-name size 1 in 0:20; a new node has 2 cpu and ", &[]);
    assert_eq!(found.code, Some(0));
}

#[test]
fn nothing_is_written_and_a_configuration_that_cannot_be_used_is_exit_code_2() {
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
async fn warnings_fail_the_command_only_if_asked_and_the_short_form_leaves_out_what_is_fine() {
    let emulator = aws([plan("web")]);
    let config = config(&emulator, &["0:10:web", "0:1:gone"], "");
    let run = |more: &[&str]| run(&[&["check", "--config", &config.path()], more].concat());
    assert_eq!(run(&[]).status.code(), Some(0));
    let strict = run(&["--fail-on", "warning", "-o", "short"]);
    let (table, complaint) = texts(&strict);
    assert_eq!(strict.status.code(), Some(1), "{complaint}");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines.len(), lines[1]), (2, "3 checks: 1 warning"), "{table}");
    assert!(lines[0].starts_with("warning   HC402   gone") && lines[0].ends_with("(docs/check.md#hc402)"), "{table}");
}

#[tokio::test]
async fn waiting_ends_as_soon_as_the_check_passes() {
    let emulator = aws([plan("web")]);
    let denied = error(403, "AccessDenied", "User: me is not authorized to perform this");
    emulator.script("POST", "Action=DescribeAutoScalingGroups", 1, denied);
    let config = config(&emulator, &["0:10:web"], "");
    let output = run(&["check", "--wait", "60s", "--config", &config.path()]);
    let (table, complaint) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{table}{complaint}");
    assert!(complaint.contains("checking again until it passes"), "{complaint}");
}

#[test]
fn all_codes_are_listed_without_a_configuration() {
    let (list, _) = texts(&run(&["check", "--list"]));
    assert!(list.lines().count() > 15 && list.contains("HC409   The template of a new node can be built"), "{list}");
}

#[tokio::test]
async fn commands_in_the_output_quote_names_with_spaces() {
    let name = "my $(reboot) group";
    let mut spaced = GroupPlan::aws(name).sized(0, 10, 2);
    spaced.removal = Permit::Withheld("suspended".to_owned());
    let emulator = aws([spaced]);
    let (table, _) = texts(&run(&["check", "--config", &config(&emulator, &[&format!("0:10:{name}")], "").path()]));
    let commands: Vec<&str> = table.lines().filter(|line| line.contains("aws autoscaling")).collect();
    assert!(commands.len() >= 2, "{table}");
    assert!(commands.iter().all(|line| line.contains("--auto-scaling-group-name 'my $(reboot) group'")), "{table}");
}

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
    let learn = "learn: {kubernetes: true, kubeconfig: kubeconfig}\ngroups: [{match: web, options: {scaleDownUnneededTime: 20m}}]";
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
async fn a_running_server_says_when_the_autoscaler_last_called_and_which_release_it_looks_like() {
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
