//! `headcount migrate`, as a user of an in-tree provider runs it.

use crate::peers::headcount::{ConfigFile, Server, run};

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
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
