use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::cluster_config::{ConnectionSettings, Credentials};
use super::endpoint::Endpoint;
use super::*;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    kind: String,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

#[test]
fn the_manifest_allows_exactly_the_calls_made() {
    let text = include_str!("../../deploy/kubernetes-rbac.yaml");
    let manifests: Vec<Manifest> = serde_saphyr::from_multiple(text).unwrap();
    let allowed = manifests.iter().flat_map(|manifest| {
        manifest.rules.iter().map(|rule| {
            let group = match rule.resources.first().map(String::as_str) {
                Some("deployments") => "apps",
                Some("resourceslices") => "resource.k8s.io",
                _ => "",
            };
            assert_eq!(rule.api_groups, [group]);
            (manifest.kind.as_str(), rule.resources.join(","), rule.resource_names.join(","), rule.verbs.clone())
        })
    });
    let rule = |kind, resource: &str, name: &str, verbs: &[&str]| {
        (kind, resource.to_owned(), name.to_owned(), verbs.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(
        allowed.collect::<Vec<_>>(),
        [
            rule("ClusterRole", "nodes", "", &NODE_VERBS),
            rule("ClusterRole", "resourceslices", "", &RESOURCE_SLICE_VERBS),
            rule("Role", "configmaps", CONFIG_MAP_DEFAULT, &CONFIG_MAP_VERBS),
            rule("Role", "configmaps", "", &CONFIG_MAP_CREATION_VERBS),
            rule("Role", "events", "", &EVENT_VERBS),
            rule("Role", "deployments", "", &DEPLOYMENT_VERBS),
            rule("Role", "configmaps", AUTOSCALER_STATUS_DEFAULT, &AUTOSCALER_STATUS_VERBS),
        ]
    );
}

#[test]
fn the_demo_may_write_the_nodes_that_it_registers_and_nothing_else() {
    let text = include_str!("../../deploy/demo/rbac.yaml");
    let manifests: Vec<Manifest> = serde_saphyr::from_multiple(text).unwrap();
    let rules = manifests.into_iter().flat_map(|manifest| manifest.rules);
    let allowed: Vec<_> = rules.map(|rule| (rule.resources.join(","), rule.verbs)).collect();
    let verbs = |verbs: &[&str]| verbs.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>();
    let expected =
        [("nodes".to_owned(), verbs(&DEMO_NODE_VERBS)), ("nodes/status".to_owned(), verbs(&DEMO_NODE_STATUS_VERBS))];
    assert_eq!(allowed, expected);
}

/// A CA's certificate, and a client's with its key, PEM.
fn certificates() -> (String, String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    (made.cert.pem(), made.cert.pem(), made.signing_key.serialize_pem())
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// What a request needs, where no plugin has to run for it.
fn endpoint(config: &ClusterConfig) -> Result<Endpoint, ClusterConfigError> {
    let settings = config.read()?;
    match &settings.credentials {
        Credentials::Static(identity) => Endpoint::new(&settings, identity.clone()),
        Credentials::Exec(plugin) => panic!("{} would run", plugin.name()),
    }
}

fn token(config: &ClusterConfig) -> String {
    endpoint(config).unwrap().authorization.unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_service_accounts_token_is_read_again_for_every_request_and_its_namespace_is_the_config_maps() {
    let (ca, _, _) = certificates();
    let folder = folder(&[("ca.crt", &ca), ("token", "first\n"), ("namespace", "autoscaling\n")]);
    let server = "https://10.0.0.1:443".to_owned();
    let config = ClusterConfig::ServiceAccount { server, folder: folder.path().to_owned() };
    assert_eq!(token(&config), "Bearer first");
    std::fs::write(folder.path().join("token"), "second").unwrap();
    assert_eq!(token(&config), "Bearer second");
    assert_eq!(config.namespace().as_deref(), Some("autoscaling"));
    std::fs::remove_file(folder.path().join("ca.crt")).unwrap();
    assert!(endpoint(&config).unwrap_err().to_string().contains("ca.crt: cannot be read"));
}

#[test]
fn outside_of_a_pod_a_kubeconfig_is_needed() {
    let nothing = |_: &str| None;
    assert!(matches!(ClusterConfig::find(None, false, &nothing), Err(ClusterConfigError::Nowhere)));
    let path = PathBuf::from("kubeconfig");
    let found = ClusterConfig::find(Some(path.clone()), true, &nothing).unwrap();
    assert_eq!(found, ClusterConfig::Kubeconfig { path, allow_exec: true });
}

/// A kubeconfig whose cluster and user say this.
fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\npreferences: {{}}\ncurrent-context: here\n\
         contexts: [{{name: there, context: {{cluster: x, user: x}}}}, {{name: here, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    )
}

#[test]
fn a_kubeconfig_says_where_the_server_is_and_how_to_sign_in() {
    use base64::Engine as _;
    let (ca, cert, key) = certificates();
    let data = base64::engine::general_purpose::STANDARD.encode(&ca);
    let files = [("ca.crt", ca.as_str()), ("tls.crt", &cert), ("tls.key", &key), ("token", "from a file\n")];
    let folder = folder(&files);
    let open = |cluster: &str, user: &str| {
        let path = folder.path().join("config");
        std::fs::write(&path, kubeconfig(cluster, user)).unwrap();
        endpoint(&ClusterConfig::Kubeconfig { path, allow_exec: false })
    };
    let found = open(&format!("server: 'https://[::1]:6443/k8s/', certificate-authority-data: {data}"), "token: abc");
    let found = found.unwrap();
    assert_eq!((found.host.as_str(), found.port, found.prefix.as_str()), ("::1", 6443, "/k8s"));
    assert_eq!(found.authorization.unwrap(), "Bearer abc");
    let https = "server: https://localhost, certificate-authority: ca.crt";
    let found = open(https, "token: no, tokenFile: token").unwrap();
    assert_eq!((found.port, found.authorization.unwrap().to_str().unwrap()), (443, "Bearer from a file"));
    let found = open(https, "client-certificate: tls.crt, client-key: tls.key, exec: {command: aws}").unwrap();
    assert!(found.authorization.is_none() && found.tls.is_some());
    assert!(open("server: http://127.0.0.1:8001", "").unwrap().tls.is_none());

    for (cluster, user, expected) in [
        ("server: https://a, insecure-skip-tls-verify: true", "token: t", "insecure-skip-tls-verify is not supported"),
        ("server: https://a, proxy-url: http://b", "token: t", "proxy-url is not supported"),
        ("server: https://a", "token: t", "certificate-authority cannot be used: it is missing"),
        ("server: https://a, certificate-authority: token", "", "there is no certificate in it"),
        ("server: https://a, certificate-authority-data: '%'", "", "certificate-authority-data: "),
        ("server: https://a, certificate-authority: gone", "", "gone: cannot be read"),
        ("server: ftp://a", "", "write https://host:port"),
        ("server: http://a", "token: t", "the token is not sent without TLS"),
        (https, "username: me, password: secret", "signs in by auth-provider or password, which is not supported"),
        (https, "auth-provider: {name: gcp}", "signs in by auth-provider or password, which is not supported"),
        (https, "client-certificate: tls.crt", "must be set together"),
        (https, "client-certificate: tls.crt, client-key: token", "client certificate cannot be used"),
    ] {
        let error = open(cluster, user).err().unwrap_or_else(|| panic!("{expected}")).to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::write(folder.path().join("config"), "current-context: nowhere").unwrap();
    let config = ClusterConfig::Kubeconfig { path: folder.path().join("config"), allow_exec: false };
    let error = endpoint(&config).unwrap_err().to_string();
    assert!(error.contains("there is no context \"nowhere\""), "{error}");
}

#[test]
fn a_node_is_read_as_the_api_server_writes_it() {
    let text = r#"{"kind":"NodeList","metadata":{"resourceVersion":"7","continue":"","remainingItemCount":null},"items":[
        {"metadata":{"name":"ip-1","creationTimestamp":"2026-11-01T00:00:00Z","managedFields":[{"manager":"kubelet"}],
         "labels":{"node.kubernetes.io/instance-type":"m5.large","beta.kubernetes.io/instance-type":"other"}},
         "spec":{"providerID":"aws:///us-east-1a/i-1","taints":[{"key":"a","effect":"NoSchedule"},
         {"key":"ToBeDeletedByClusterAutoscaler","value":"1763780400","effect":"NoSchedule"}]},
         "status":{"capacity":{"cpu":"2","memory":"7900000Ki"},"allocatable":{"cpu":"1930m"},"images":[{"names":["a"]}],
         "conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True"}],
         "nodeInfo":{"osImage":"Amazon Linux 2023","kernelVersion":"6.1"}}},
        {"metadata":{"name":"new","creationTimestamp":null},"spec":{},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}]}"#;
    let list: kube::core::ObjectList<k8s_openapi::api::core::v1::Node> = serde_json::from_str(text).unwrap();
    let nodes: Vec<Node> = list.items.into_iter().map(Node::from).collect();
    let [node, new] = nodes.try_into().unwrap();
    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    };
    let expected = Node {
        is_to_be_deleted: true,
        name: "ip-1".to_owned(),
        provider_id: "aws:///us-east-1a/i-1".to_owned(),
        instance_type: "m5.large".to_owned(),
        image: "Amazon Linux 2023, kernel 6.1".to_owned(),
        created: "2026-11-01T00:00:00Z".to_owned(),
        ready: true,
        capacity: map(&[("cpu", "2"), ("memory", "7900000Ki")]),
        allocatable: map(&[("cpu", "1930m")]),
    };
    assert_eq!(node, expected);
    assert!(!new.ready && !new.is_to_be_deleted && new.provider_id.is_empty());
}

/// A kubeconfig whose user has this `exec`, and whether Headcount may run it.
fn exec(exec: &str, allow_exec: bool) -> Result<ConnectionSettings, ClusterConfigError> {
    let folder = folder(&[("config", &kubeconfig("server: https://a, certificate-authority-data: ''", exec))]);
    ClusterConfig::Kubeconfig { path: folder.path().join("config"), allow_exec }.read()
}

#[test]
fn an_exec_plugin_is_refused_unless_it_is_allowed_and_can_run_without_a_terminal() {
    let good = "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws, args: [eks, get-token]}";
    assert!(matches!(exec(good, true).unwrap().credentials, Credentials::Exec(_)));
    for (user, allow_exec, expected) in [
        (
            good,
            false,
            "signs in with the exec plugin \"aws\", which Headcount may not run; set kubernetes.allowExec: true",
        ),
        ("exec: {apiVersion: client.authentication.k8s.io/v1}", true, "exec has no command"),
        ("exec: {apiVersion: v1alpha1, command: aws}", true, "write client.authentication.k8s.io/v1 or"),
        ("exec: {command: aws}", true, "exec has apiVersion \"\""),
        (&good.replace("command", "interactiveMode: Always, command"), true, "exec needs a terminal"),
    ] {
        let error = exec(user, allow_exec).err().unwrap_or_else(|| panic!("{expected}")).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
