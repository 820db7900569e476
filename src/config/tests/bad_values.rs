//! One bad value for each test: the reported place, and the important words of the message.

use super::parse;

/// A source, for tests of other parts of the file.
const SOURCES: &str = "sources: [{name: demo, simulated: {}}]\n";

#[track_caller]
fn assert_fault(text: &str, place: &str, words: &[&str]) {
    let error = parse(text).expect_err(text).to_string();
    assert!(error.starts_with(&format!("headcount.yaml:{place}: ")), "{error}\nin\n{text}");
    assert!(!error.contains('\n'), "{error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is missing from\n{error}");
    }
}

/// A fault in the part of the file before the sources.
#[track_caller]
fn assert_general_fault(text: &str, place: &str, words: &[&str]) {
    assert_fault(&format!("{text}\n{SOURCES}"), place, words);
}

/// A fault in `groups:`, whose first entry starts in line 3 and column 5.
#[track_caller]
fn assert_group_fault(text: &str, place: &str, words: &[&str]) {
    assert_fault(&format!("{SOURCES}groups:\n  - match: \"*\"\n    {text}\n"), place, words);
}

#[test]
fn min_above_max() {
    let text = "\
grpc:
  listen: 127.0.0.1:8086
sources:
  - name: us
    aws:
      region: us-east-1
      nodeGroups: [\"5:1:my-asg\"]
";
    assert_eq!(
        parse(text).expect_err("min above max").to_string(),
        "headcount.yaml:7:20: node group \"5:1:my-asg\": min 5 is greater than max 1; write min:max:name with a min that \
         is not above max"
    );
}

#[test]
fn unknown_keys() {
    assert_general_fault(
        "grpc: {lisen: 127.0.0.1:1}",
        "1:8",
        &["unknown key \"lisen\"", "did you mean \"listen\"?", "listen, socketMode, tls"],
    );
    assert_general_fault(
        "costs: {}",
        "1:1",
        &["unknown key \"costs\"; the known keys are grpc, admin, refreshInterval"],
    );
    assert_general_fault("learn: {kubernets: true}", "1:9", &["did you mean \"kubernetes\"?", "configMap"]);
    assert_fault("sources:\n  - name: a\n    aws:\n      zone: x\n", "4:7", &["unknown key \"zone\"", "nodeGroups"]);
    assert_fault("sources:\n  - name: a\n    gcp: {}\n", "3:5", &["unknown key \"gcp\"", "aws, azure, simulated"]);
    let simulated = |keys: &str| format!("sources:\n  - name: a\n    simulated: {{{keys}}}\n");
    assert_fault(&simulated("group: 5"), "3:17", &["unknown key \"group\"", "did you mean \"groups\"?"]);
    assert_fault(&simulated("groups: 10001"), "3:25", &["10001 is too many", "0 to 10000"]);
    assert_fault(&simulated("errorRate: 10"), "3:28", &["10 is not a fraction", "0 to 1"]);
    assert_group_fault("capasity: {}", "4:5", &["unknown key \"capasity\"", "did you mean \"capacity\"?"]);
    assert_group_fault("reserved: {maxpods: 3}", "4:16", &["did you mean \"maxPods\"?"]);
    assert_group_fault("options: {scaleDown: 1}", "4:15", &["unknown key", "scaleDownUnneededTime"]);
}

#[test]
fn duplicate_keys() {
    assert_fault("admin: {}\nadmin: {}\n", "2:1", &["\"admin\"", "written twice"]);
    assert_group_fault("labels: {a: b, a: c}", "4:20", &["\"a\"", "written twice"]);
    assert_group_fault("capacity: {cpu: 1, cpu: 2}", "4:24", &["\"cpu\"", "written twice"]);
}

#[test]
fn missing_keys() {
    assert_fault("sources:\n  - aws: {}\n", "2:5", &["\"name\" is missing"]);
    assert_fault(&format!("{SOURCES}groups:\n  - labels: {{}}\n"), "3:5", &["\"match\" is missing"]);
}

#[test]
fn wrong_types() {
    assert_general_fault("grpc: 5", "1:7", &["expected keys with values"]);
    assert_general_fault("refreshInterval: [1]", "1:18", &["expected a single value"]);
    assert_general_fault("instanceTypes: table.yaml", "1:16", &["expected a list"]);
    assert_group_fault("labels: {a: }", "4:15", &["a value is missing"]);
    assert_group_fault("options: {zeroOrMaxNodeScaling: maybe}", "4:37", &["expected true or false"]);
    assert_group_fault("options: {scaleDownUtilizationThreshold: high}", "4:46", &["expected a number"]);
    assert_group_fault("reserved: {maxPods: many}", "4:25", &["expected a whole number"]);
    assert_group_fault("reserved: {maxPods: -1}", "4:25", &["expected a whole number"]);
}

#[test]
fn broken_yaml() {
    assert_fault("instanceTypes: [\n", "1:16", &["unclosed bracket"]);
    assert_fault("sources:\n  - name: a\n bad\n", "3:2", &["did not find expected key"]);
    assert_fault(&format!("{SOURCES}---\n{SOURCES}"), "3:1", &["single YAML document"]);
}

#[test]
fn roles() {
    let source = |role: &str| format!("sources: [{{name: a, aws: {{assumeRole: {{{role}}}}}}}]");
    let arn = "arn: \"arn:aws:iam::123456789012:role/headcount\"";
    assert_fault(&source("arn: headcount"), "1:45", &["not the ARN of a role", "arn:aws:iam::"]);
    assert_fault(&source(&format!("{arn}, externalId: a")), "1:101", &["\"a\" is not an external ID"]);
    assert_fault(&source(&format!("{arn}, sessionName: \"a b\"")), "1:102", &["\"a b\" is not a session name"]);
}

#[test]
fn durations() {
    assert_general_fault("refreshInterval: soon", "1:18", &["\"soon\" is not a duration", "20m"]);
    assert_general_fault("refreshInterval: 15", "1:18", &["\"15\" is not a duration", "90s"]);
    assert_general_fault("refreshInterval: 500ms", "1:18", &["\"500ms\" is out of range", "from 1s to 10m"]);
    assert_general_fault("refreshInterval: 11m", "1:18", &["\"11m\" is out of range"]);
    assert_general_fault("idleRefreshInterval: 10s", "1:22", &["\"10s\" is out of range", "from 15s to 10m"]);
    assert_group_fault("options: {scaleDownUnneededTime: often}", "4:38", &["\"often\" is not a duration"]);
    assert_group_fault("options: {scaleDownUnreadyTime: 5}", "4:37", &["not a duration"]);
    assert_group_fault("options: {maxNodeProvisionTime: 0s}", "4:37", &["every new node", "15m"]);
    assert_group_fault("options: {maxNodeProvisionTime: 1.5x}", "4:37", &["not a duration"]);
}

#[test]
fn addresses() {
    assert_general_fault("grpc: {listen: localhost:8086}", "1:16", &["\"localhost:8086\"", "127.0.0.1:8086"]);
    assert_general_fault(
        "grpc: {listen: \"unix://run/a.sock\"}",
        "1:16",
        &["absolute path", "unix:///run/headcount/grpc.sock"],
    );
    assert_general_fault("grpc: {socketMode: \"0800\"}", "1:20", &["\"0800\" is not a file mode", "\"0600\""]);
    assert_general_fault("grpc: {socketMode: rw}", "1:20", &["not a file mode"]);
    assert_general_fault("grpc: {listen: 8086}", "1:16", &["not an IP address and a port"]);
    assert_general_fault("admin: {listen: 0.0.0.0}", "1:17", &["not an IP address and a port"]);
    assert_general_fault("admin: {listen: 127.0.0.1:8086}", "1:17", &["both 127.0.0.1:8086", "another port"]);
    assert_general_fault("grpc: {listen: 127.0.0.1:8087}", "1:16", &["both 127.0.0.1:8087", "another port"]);
}

#[test]
fn grpc_options() {
    assert_general_fault("grpc: {optionsSince135: yes}", "1:25", &["\"yes\" is not a policy", "send or suppress"]);
}

#[test]
fn missing_files() {
    let words = ["cannot read ", "No such file"];
    assert_general_fault("grpc: {tls: {cert: absent.crt, key: absent.key}}", "1:20", &words);
    assert_general_fault("instanceTypes: [absent.yaml]", "1:17", &words);
    assert_general_fault("instanceTypes: [/]", "1:17", &["cannot read /: it is not a file"]);
    assert_fault("sources:\n  - name: eu\n    azure: {cloudConfig: absent.json}\n", "3:26", &words);
}

#[test]
fn tls() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("any.pem");
    std::fs::write(&file, "").expect("written");
    let pem = file.display();
    let tls = |rest: &str| format!("grpc:\n  tls:\n    cert: {pem}\n    key: {pem}\n    {rest}");
    assert_general_fault(&tls("allowedClients: [ca]"), "5:21", &["allowedClients needs clientCa"]);
    assert_general_fault(&tls("clientCa: absent.crt"), "5:15", &["cannot read absent.crt"]);
    assert_general_fault(
        &tls(&format!("clientCa: {pem}\n    allowedClients: [a, \"\"]")),
        "6:25",
        &["the name is empty"],
    );
    assert_general_fault(&format!("grpc: {{tls: {{cert: {pem}}}}}"), "1:14", &["\"key\" is missing"]);
}

#[test]
fn gpu_label() {
    assert_general_fault("gpuLabel: \"\"", "1:11", &["the label is empty"]);
}

#[test]
fn sources() {
    assert_fault("sources: []\n", "1:10", &["there are no sources", "nodeGroups"]);
    let named = |name: &str| format!("sources:\n  - name: {name}\n    simulated: {{}}\n");
    assert_fault(&named("US"), "2:11", &["\"US\"", "a-z, 0-9 and -"]);
    assert_fault(&named("\"\""), "2:11", &["a-z, 0-9 and -"]);
    assert_fault(&named("a/b"), "2:11", &["\"a/b\""]);
    assert_fault(
        &format!("{}  - name: us\n    simulated: {{}}\n", named("us")),
        "4:11",
        &["two sources have the name \"us\""],
    );
    assert_fault("sources:\n  - name: us\n", "2:5", &["source \"us\" names no cloud", "aws, azure or simulated"]);
    assert_fault("sources:\n  - name: us\n    aws:\n", "2:5", &["source \"us\" names no cloud"]);
    assert_fault("sources:\n  - {name: us, aws: {}, simulated: {}}\n", "2:5", &["more than one cloud"]);
}

#[test]
fn no_sources_at_all() {
    let error = parse("admin: {}\n").expect_err("no sources").to_string();
    assert!(error.starts_with("headcount.yaml: the key \"sources\" is missing"), "{error}");
    let error = parse(" \n").expect_err("empty").to_string();
    assert!(error.starts_with("headcount.yaml: the file is empty"), "{error}");
}

#[test]
fn aws() {
    let aws = |rest: &str| format!("sources:\n  - name: us\n    aws:\n      {rest}\n");
    assert_fault(&aws("nodeGroups: [my-asg]"), "4:20", &["\"my-asg\"", "min:max:name"]);
    assert_fault(
        &aws("nodeGroups: [\"1:5:a\", \"x:5:b\"]"),
        "4:29",
        &["min \"x\" is not a whole number", "min:max:name"],
    );
    assert_fault(&aws("nodeGroups:\n        - \"1:5:\""), "5:11", &["has no name"]);
    assert_fault(
        &aws("autoDiscovery: [\"mig:tag=t\"]"),
        "4:23",
        &["\"mig:tag=t\": the discoverer must be \"asg\", as in asg:tag=k8s.io/cluster-autoscaler/enabled"],
    );
    assert_fault(&aws("endpoint: 127.0.0.1:5000"), "4:17", &["not an endpoint", "http://127.0.0.1:5000"]);
    assert_fault(&aws("endpoint: \"http://\""), "4:17", &["not an endpoint"]);
    assert_fault(&aws("endpoint: http://127.0.0.1:99999"), "4:17", &["not an endpoint"]);
    assert_fault(&aws("region: \"\""), "4:15", &["the region is empty"]);
    assert_fault(&aws("region: us east"), "4:15", &["\"us east\" is not the name of a region"]);
}

#[test]
fn groups() {
    assert_fault(&format!("{SOURCES}groups:\n  - match: \"\"\n"), "3:12", &["match is empty", "gpu-*"]);
    assert_group_fault("capacity: {memory: 16GB}", "4:24", &["\"16GB\" is not a quantity", "16Gi", "leave out the B"]);
    assert_group_fault("capacity: {cpu: -2}", "4:21", &["\"-2\" is a negative quantity"]);
    assert_group_fault("taints: [gpu]", "4:14", &["\"gpu\" is not a taint", "key=value:Effect"]);
    assert_group_fault(
        "taints: [\"a=b:NoSchedule\", \"a=b:Never\"]",
        "4:32",
        &["\"a=b:Never\" is not a taint", "NoExecute"],
    );
    assert_group_fault(
        "reserved: {profile: gke}",
        "4:25",
        &["\"gke\" is not a profile", "eks, aks, aks-legacy, kubeadm, openshift"],
    );
    assert_group_fault("capacity: {memry: 16Gi}", "4:23", &["unknown resource \"memry\"", "expected cpu, memory"]);
    assert_group_fault("capacity: {nvidia.com/gpu: 1.5}", "4:32", &["nvidia.com/gpu is counted", "whole number"]);
    assert_group_fault("labels: {team: a b}", "4:20", &["the value \"a b\" of team", "63 letters"]);
    assert_group_fault("reserved: {kubeReserved: {Memory: 2Gi}}", "4:39", &["reserves no \"Memory\"", "cpu, memory"]);
    assert_group_fault("reserved: {maxPods: 0}", "4:25", &["at least 1"]);
    assert_group_fault("reserved: {kubeReserved: {cpu: lots}}", "4:36", &["\"lots\" is not a quantity"]);
    assert_group_fault("reserved: {systemReserved: {cpu: \"\"}}", "4:38", &["not a quantity"]);
    assert_group_fault(
        "reserved: {evictionHard: {memory.available: -1Mi}}",
        "4:49",
        &["\"-1Mi\" is negative", "100Mi or 10%"],
    );
    assert_group_fault(
        "reserved: {evictionHard: {memory.available: 105%}}",
        "4:49",
        &["not a percentage from 0% to 100%", "100Mi or 10%"],
    );
    assert_group_fault(
        "reserved: {evictionHard: {pid.available: 5%}}",
        "4:46",
        &["\"pid.available\"", "memory.available, nodefs.available"],
    );
    assert_group_fault("memoryOverhead: 0.075", "4:21", &["\"0.075\" is not a percentage", "7.5%"]);
    assert_group_fault("memoryOverhead: 100%", "4:21", &["leaves nodes no memory", "less than 100%"]);
    assert_group_fault(
        "options: {scaleDownUtilizationThreshold: 1.5}",
        "4:46",
        &["1.5 is not a fraction", "from 0 to 1"],
    );
    assert_group_fault("options: {scaleDownUtilizationThreshold: .nan}", "4:46", &["from 0 to 1"]);
    assert_group_fault("options: {scaleDownGpuUtilizationThreshold: -0.1}", "4:49", &["-0.1 is not a fraction"]);
}

#[test]
fn learning() {
    assert_general_fault("learn: true", "1:8", &["expected keys with values"]);
    assert_general_fault("learn: {kubernetes: perhaps}", "1:21", &["expected true or false"]);
    assert_general_fault("learn: {kubeconfig: nowhere}", "1:21", &["cannot read nowhere"]);
    assert_general_fault("kubernetes: {kubeconfig: nowhere}", "1:26", &["cannot read nowhere"]);
    assert_general_fault("kubernetes: {allowExec: perhaps}", "1:25", &["expected true or false"]);
    assert_general_fault("kubernetes: {allowexec: true}", "1:14", &["did you mean \"allowExec\"?", "kubeconfig"]);
    assert_general_fault(
        "kubernetes: {kubeconfig: a}\nlearn: {kubeconfig: b}",
        "2:21",
        &["kubernetes.kubeconfig is set too; remove learn.kubeconfig"],
    );
    assert_general_fault(
        "learn: {namespace: kube_system}",
        "1:20",
        &["\"kube_system\" is not a namespace", "a-z, 0-9"],
    );
    assert_general_fault("learn: {namespace: a.b}", "1:20", &["is not a namespace"]);
    assert_general_fault("learn: {configMap: \"\"}", "1:20", &["is not a ConfigMap's name", "headcount-learned"]);
    assert_general_fault("learn: {configMap: a.-b}", "1:20", &["is not a ConfigMap's name"]);
    assert_general_fault(&format!("learn: {{configMap: {}}}", "a".repeat(254)), "1:20", &["at most 253"]);
}
