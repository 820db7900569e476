//! The in-tree provider's own flags.

use clap::{Args, CommandFactory, Parser};

use super::super::{Arguments, CloudSettings, Config, ConfigError, Provider};
use super::bare;

/// About the command
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    arguments: Arguments,
}

fn read(flags: &[&str]) -> Result<Config, ConfigError> {
    let command = Command::try_parse_from(std::iter::once(&"headcount").chain(flags)).expect("flags");
    command.arguments.read(&bare)
}

#[test]
fn flattened_flags_leave_the_command_as_it_is() {
    Command::command().debug_assert();
    assert_eq!(Command::command().get_about().map(ToString::to_string).as_deref(), Some("About the command"));
    assert!(Arguments::augment_args(clap::Command::new("x")).get_arguments().all(|flag| flag.get_help().is_some()));
}

#[test]
fn aws_flags_are_one_source() {
    let config = read(&[
        "--cloud-provider=aws",
        "--nodes=1:5:a",
        "--nodes",
        "0:3:b",
        "--node-group-auto-discovery=asg:tag=k1,k2=v",
    ])
    .expect("good");
    let [source] = &config.sources[..] else { panic!("one source") };
    assert_eq!(source.name, "aws");
    let CloudSettings::Aws(settings) = &source.cloud else { panic!("AWS") };
    assert_eq!(settings.node_groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(settings.auto_discovery[0].tags, [("k1".into(), None), ("k2".into(), Some("v".into()))]);
    assert_eq!((&settings.region, &settings.endpoint), (&None, &None));
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn several_discovery_specs_are_a_warning() {
    let specs = ["--node-group-auto-discovery=asg:tag=a", "--node-group-auto-discovery=asg:tag=b"];
    let config = read(&[&["--cloud-provider=aws"], &specs[..]].concat()).expect("good");
    let CloudSettings::Aws(settings) = &config.sources[0].cloud else { panic!("AWS") };
    assert_eq!(settings.auto_discovery.len(), 2, "one match is enough");
    assert!(config.warnings.iter().any(|warning| warning.contains("match any of these")), "{:?}", config.warnings);
}

#[test]
fn unused_keys_of_an_aws_cloud_config_are_warnings() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cloud.conf");
    let text = "; in-tree\n[Global]\nZone = us-east-1a\nDisableSecurityGroupIngress\n\n[ServiceOverride \"1\"]\n  Service = \"ec2\"\n  Region=us-east-1\n  \
                URL = http://127.0.0.1:5000\n";
    std::fs::write(&path, text).expect("written");
    let flag = format!("--cloud-config={}", path.display());
    let config = read(&["--cloud-provider=aws", "--nodes=1:5:a", &flag]).expect("good");
    assert_eq!(config.warnings.len(), 2, "{:?}", config.warnings);
    assert!(config.warnings[0].contains("AWS_ENDPOINT_URL_EC2=http://127.0.0.1:5000"), "{:?}", config.warnings);
    assert!(config.warnings[1].contains("Global.Zone, Global.DisableSecurityGroupIngress"), "{:?}", config.warnings);

    std::fs::write(&path, "[Global]\nZone=a\n  [Service\n").expect("written");
    let error = read(&["--cloud-provider=aws", &flag]).expect_err("no section").to_string();
    assert_eq!(
        error,
        format!("{}:3:3: \"[Service\" has no closing bracket; write [Section] or [Section \"name\"]", path.display())
    );
}

#[test]
fn errors_name_the_flag() {
    for (flag, start) in [
        ("--nodes=5:1:a", "--nodes: node group \"5:1:a\": min 5 is greater than max 1"),
        (
            "--node-group-auto-discovery=mig:tag=t",
            "--node-group-auto-discovery: \"mig:tag=t\": the discoverer must be \"asg\"",
        ),
        ("--cloud-config=absent.conf", "--cloud-config: cannot read absent.conf: "),
    ] {
        let error = read(&["--cloud-provider=aws", flag]).expect_err(flag).to_string();
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn file_and_flags_cannot_be_combined() {
    for (flag, name) in [
        ("--cloud-provider=aws", "--cloud-provider"),
        ("--nodes=1:2:a", "--nodes"),
        ("--node-group-auto-discovery=asg:tag=a", "--node-group-auto-discovery"),
        ("--cloud-config=x", "--cloud-config"),
    ] {
        let error = read(&["--config=headcount.yaml", flag]).expect_err(flag);
        assert_eq!(error, ConfigError::FileAndFlags(name));
        assert!(error.to_string().starts_with(&format!("--config and {name} cannot be combined: ")), "{error}");
    }
}

#[test]
fn flags_need_a_provider() {
    assert_eq!(read(&["--nodes=1:2:a"]), Err(ConfigError::NoProvider("--nodes")));
    assert_eq!(read(&[]), Err(ConfigError::Nothing));
    assert_eq!(Arguments::default().cloud_provider, None::<Provider>);
}

#[test]
fn an_unreadable_file_is_reported_with_its_flag() {
    let error = read(&["--config=absent.yaml"]).expect_err("absent").to_string();
    assert!(error.starts_with("--config: cannot read absent.yaml: No such file"), "{error}");

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("large.yaml");
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).expect("written");
    let error = read(&[&format!("--config={}", path.display())]).expect_err("large").to_string();
    assert!(error.ends_with("it is larger than 1 MiB"), "{error}");
}

#[test]
fn a_file_is_read_with_the_files_beside_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("headcount.yaml");
    std::fs::write(directory.path().join("table.yaml"), "aws: {x.large: {cpu: 2}}\n").expect("written");
    let text = "instanceTypes: [table.yaml]\nsources: [{name: demo, simulated: {}}]\n";
    std::fs::write(&path, text).expect("written");
    let config = read(&[&format!("--config={}", path.display())]).expect("good");
    assert!(config.instance_types[0].get(crate::cloud::Family::Aws, "x.large").is_some());
}
