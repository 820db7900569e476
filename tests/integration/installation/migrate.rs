//! `headcount migrate`, as a user of an in-tree provider runs it.

use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use crate::emulators::Emulator;
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, Server, command, run};

const DEPLOYMENT: &str = "
kind: Deployment
spec:
  template:
    spec:
      containers:
        - image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0
          command: [./cluster-autoscaler, --cloud-provider=aws, --expander=priority]
          args: ['--nodes=1:10:my-asg']
          env: [{name: AWS_REGION, value: us-east-1}]
";

#[test]
fn a_deployment_becomes_a_configuration_that_headcount_reads() {
    let file = ConfigFile::new(DEPLOYMENT);
    let output = run(&["migrate", "--deployment", &file.path()]);
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "region: \"us-east-1\"",
        "--cloud-provider=externalgrpc\n",
        "--expander=priority\n",
        "autoscaling:SetDesiredCapacity",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let config = shown.split("\n\n").next().expect("headcount.yaml comes first");
    let config = ConfigFile::new(config);
    let variables = [("AWS_ENDPOINT_URL", "http://127.0.0.1:1")];
    let _reads_it = Server::in_environment(&["--config", &config.path()], &variables);
}

#[test]
fn flags_are_read_from_the_command_line_and_errors_exit_with_2() {
    let output = run(&["migrate", "--cloud-provider=azure", "--nodes=1:5:pool", "--v=4"]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && shown.contains("\"1:5:pool\"") && shown.contains("\n--v=4\n"), "{shown}");
    for wrong in [&["migrate"][..], &["migrate", "--cloud-provider=gce"], &["migrate", "--deployment", "nowhere.yaml"]]
    {
        let output = run(wrong);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {stderr}");
        let is_without = wrong.len() == 1;
        assert!(!is_without || stderr.contains("--deployment <FILE>"), "both ways are named: {stderr}");
    }
}

/// The Deployments of several ways to install the in-tree provider, with what the configuration must then contain.
const INSTALLED: [(&str, &str, &[&str]); 4] = [
    (
        "the official chart for AWS",
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: ca-aws-cluster-autoscaler}
spec:
  template:
    spec:
      containers:
        - name: aws-cluster-autoscaler
          image: 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0'
          command: [./cluster-autoscaler, --cloud-provider=aws, --namespace=kube-system,
            '--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod',
            --logtostderr=true, --stderrthreshold=info, --v=4]
          env:
            - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
            - {name: SERVICE_ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
            - {name: AWS_REGION, value: us-east-1}
",
        &["asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod", "region: \"us-east-1\"", "\n--v=4\n"],
    ),
    (
        "kops",
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, labels: {k8s-app: cluster-autoscaler}}
spec:
  template:
    spec:
      containers:
        - name: cluster-autoscaler
          image: 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.1'
          command: [./cluster-autoscaler, --balance-similar-node-groups=true, --cloud-provider=aws, --expander=random,
            --max-node-provision-time=15m0s, '--nodes=2:6:nodes-us-east-1a.prod.example.com',
            '--nodes=1:3:gpu.prod.example.com', --scale-down-utilization-threshold=0.5, --v=4]
          env: [{name: AWS_REGION, value: us-east-1}]
",
        &["2:6:nodes-us-east-1a.prod.example.com", "1:3:gpu.prod.example.com", "--balancing-ignore-label=lifecycle\n", "enabled: \"true\""],
    ),
    (
        "a self-hosted autoscaler on AKS, with a service principal in a Secret",
        "
apiVersion: v1
kind: List
items:
- kind: Deployment
  spec:
    template:
      spec:
        containers:
        - name: cluster-autoscaler
          image: 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0'
          command: [./cluster-autoscaler, --v=3, --logtostderr=true, --cloud-provider=azure, '--nodes=1:10:aks-pool-123-vmss']
          env:
          - {name: ARM_SUBSCRIPTION_ID, valueFrom: {secretKeyRef: {key: SubscriptionID, name: ca}}}
          - {name: ARM_RESOURCE_GROUP, valueFrom: {secretKeyRef: {key: ResourceGroup, name: ca}}}
          - {name: ARM_TENANT_ID, valueFrom: {secretKeyRef: {key: TenantID, name: ca}}}
          - {name: ARM_CLIENT_ID, valueFrom: {secretKeyRef: {key: ClientID, name: ca}}}
          - {name: ARM_CLIENT_SECRET, valueFrom: {secretKeyRef: {key: ClientSecret, name: ca}}}
          - {name: ARM_VM_TYPE, value: vmss}
",
        &["1:10:aks-pool-123-vmss", "ARM_CLIENT_ID, ARM_CLIENT_SECRET, ARM_RESOURCE_GROUP, ARM_SUBSCRIPTION_ID"],
    ),
    (
        "a self-managed Azure cluster, with a managed identity and the node's azure.json",
        "
kind: Deployment
spec:
  template:
    spec:
      containers:
        - image: 'registry.k8s.io/autoscaling/cluster-autoscaler:v1.34.0'
          args: [./cluster-autoscaler, --cloud-provider=azure, --cloud-config=/etc/kubernetes/azure.json,
            '--node-group-auto-discovery=label:cluster-autoscaler-enabled=true,cluster-autoscaler-name=prod']
          env:
            - {name: ARM_SUBSCRIPTION_ID, value: 0000-1111}
            - {name: ARM_RESOURCE_GROUP, value: rg}
            - {name: ARM_USE_MANAGED_IDENTITY_EXTENSION, value: 'true'}
",
        &["cloudConfig: \"/etc/kubernetes/azure.json\"", "ARM_SUBSCRIPTION_ID, ARM_USE_MANAGED_IDENTITY_EXTENSION.", "cluster-autoscaler-name=prod"],
    ),
];

#[test]
fn deployments_of_the_chart_kops_and_aks_are_migrated() {
    for (name, deployment, expected) in INSTALLED {
        let file = ConfigFile::new(deployment);
        let output = run(&["migrate", "--deployment", &file.path()]);
        let shown = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        for part in expected.iter().chain(&["--cloud-provider=externalgrpc\n"]) {
            assert!(shown.contains(part), "{name}: {part}: {shown}");
        }
        for gone in ["\n--nodes", "\n--node-group-auto-discovery", "--cloud-provider=aws", "--cloud-provider=azure"] {
            assert!(!shown.contains(gone), "{name}: {gone}: {shown}");
        }
    }
}

/// The commands of a page that call Headcount, without the files that they are shown with.
fn commands_of(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("    headcount "));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// Runs every command of a page as written, in a folder with the files that the page has made by then.
fn run_page(page: &str, config: &ConfigFile) {
    let commands = commands_of(page);
    assert!(commands.len() >= 4, "{commands:?}");
    for words in commands {
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = command(&arguments).current_dir(config.folder()).output().expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "headcount {}: {stderr}", words.join(" "));
        assert!(!output.stdout.is_empty(), "headcount {}", words.join(" "));
    }
}

#[tokio::test]
async fn the_commands_of_the_migration_pages_work_as_written() {
    let source = |emulator: &dyn Emulator, groups: &str| {
        let settings: String = emulator.settings().iter().map(|line| format!("      {line}\n")).collect();
        format!("sources:\n  - name: here\n    {}:\n{settings}      nodeGroups: [\"{groups}\"]\n", emulator.cloud())
    };
    let simulated = |plan: GroupPlan| Arc::new(Simulated::with_groups(1, [plan.sized(0, 10, 2)]));
    let aws = Aws::start(simulated(GroupPlan::aws("my-asg")));
    let config = ConfigFile::new(&source(&aws, "1:10:my-asg")).beside("ca.yaml", INSTALLED[0].1);
    run_page(include_str!("../../../docs/migrate-aws.md"), &config);
    let azure = Arm::start(simulated(GroupPlan::azure("my-vmss")));
    let config = ConfigFile::new(&source(&azure, "1:10:my-vmss")).beside("ca.yaml", INSTALLED[3].1);
    run_page(include_str!("../../../docs/migrate-azure.md"), &config);
}
