//! The in-tree Azure configuration: file, environment, headcount.yaml, and which of them wins.

use std::path::Path;

use super::super::{Arguments, CloudSettings, Config, ConfigError, Provider};
use super::environment;
use crate::cloud::secrets::Secret;
use crate::config::settings::azure::{AzureCloud, Credential, Settings};

/// The settings of the in-tree flags, with this cloud-config file and this environment.
fn in_tree(file: &str, variables: &[(&str, &str)]) -> Result<(Settings, Vec<String>), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("azure.json");
    std::fs::write(&path, file).expect("written");
    let arguments = Arguments {
        cloud_provider: Some(Provider::Azure),
        nodes: vec!["1:10:pool".into()],
        cloud_config: Some(path.clone()),
        ..Arguments::default()
    };
    // The directory differs from run to run.
    let relative = |text: String| text.replace(&path.display().to_string(), "azure.json");
    match arguments.read(&environment(variables)) {
        Ok(config) => Ok((azure(&config).clone(), config.warnings.into_iter().map(relative).collect())),
        Err(error) => Err(relative(error.to_string())),
    }
}

fn azure(config: &Config) -> &Settings {
    match &config.sources[..] {
        [source] => match &source.cloud {
            CloudSettings::Azure(settings) => settings,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn yaml(azure: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let text = format!("sources:\n  - name: eu\n    azure:\n      nodeGroups: [\"1:10:pool\"]\n{azure}");
    Config::parse(&text, Path::new("headcount.yaml"), &environment(variables))
}

const FILE: &str = r#"{
  "cloud": "AzureChinaCloud",
  "subscriptionId": "sub-file",
  "resourceGroup": "rg-file",
  "tenantId": "tenant-file",
  "aadClientId": "client-file",
  "aadClientSecret": "secret-file",
  "enableForceDelete": true
}"#;

#[test]
fn the_file_is_read() {
    let (settings, warnings) = in_tree(FILE, &[]).expect("good");
    assert_eq!(settings.cloud, AzureCloud::China);
    assert_eq!(settings.subscription_id.as_deref(), Some("sub-file"));
    assert_eq!(settings.resource_group, "rg-file");
    assert!(settings.enable_force_delete && settings.label_predictions && !settings.detailed_extension_messages);
    let credential = Credential::ClientSecret {
        tenant_id: "tenant-file".into(),
        client_id: "client-file".into(),
        secret: Secret::new("secret-file"),
    };
    assert_eq!(settings.credential, Some(credential));
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn a_secret_in_headcount_yaml_is_used_though_the_environment_chooses_an_identity() {
    let own = "      resourceGroup: rg\n      tenantId: t\n      aadClientId: c\n      aadClientSecret: s\n";
    for switch in ["ARM_USE_WORKLOAD_IDENTITY_EXTENSION", "ARM_USE_MANAGED_IDENTITY_EXTENSION"] {
        let config = yaml(own, &[(switch, "true")]).expect("good");
        assert!(matches!(azure(&config).credential, Some(Credential::ClientSecret { .. })), "{switch}");
        let switched = format!("{own}      useManagedIdentityExtension: true\n");
        let config = yaml(&switched, &[]).expect("good");
        assert!(
            matches!(azure(&config).credential, Some(Credential::ManagedIdentity { .. })),
            "its own switch is used"
        );
    }
}

#[test]
fn an_identity_is_used_whatever_the_auth_method_of_the_file_says() {
    for method in ["msi", "cli"] {
        let file =
            format!(r#"{{"resourceGroup": "rg", "useManagedIdentityExtension": true, "authMethod": "{method}"}}"#);
        let (settings, warnings) = in_tree(&file, &[]).expect("good");
        assert!(matches!(settings.credential, Some(Credential::ManagedIdentity { .. })), "{method}");
        assert!(warnings.iter().any(|warning| warning.contains("has no effect")), "{warnings:?}");
    }
    let config =
        yaml("      resourceGroup: rg\n      authMethod: cli\n", &[("ARM_USE_MANAGED_IDENTITY_EXTENSION", "true")]);
    assert_eq!(azure(&config.expect("good")).credential, Some(Credential::Cli), "that of headcount.yaml comes first");
}

#[test]
fn the_environment_overrides_the_file_unless_blank() {
    let variables =
        [("ARM_RESOURCE_GROUP", "rg-env"), ("ARM_SUBSCRIPTION_ID", " \t"), ("AZURE_ENABLE_FORCE_DELETE", "0")];
    let (settings, _) = in_tree(FILE, &variables).expect("good");
    assert_eq!(settings.resource_group, "rg-env");
    assert_eq!(settings.subscription_id.as_deref(), Some("sub-file"));
    assert!(!settings.enable_force_delete);
}

#[test]
fn the_older_of_two_names_wins() {
    let variables = [
        ("ARM_TENANT_ID", "arm"),
        ("AZURE_TENANT_ID", "azure"),
        ("ARM_CLIENT_ID", "arm"),
        ("AZURE_CLIENT_ID", "azure"),
        ("ARM_USE_FEDERATED_WORKLOAD_IDENTITY_EXTENSION", "false"),
        ("ARM_USE_WORKLOAD_IDENTITY_EXTENSION", "true"),
    ];
    let (settings, _) = in_tree(FILE, &variables).expect("good");
    let credential = Credential::WorkloadIdentity {
        tenant_id: Some("azure".into()),
        client_id: Some("azure".into()),
        token_file: None,
    };
    assert_eq!(settings.credential, Some(credential));

    let file = r#"{"resourceGroup": "rg", "useWorkloadIdentityExtension": true,
                   "useFederatedWorkloadIdentityExtension": false}"#;
    let (settings, _) = in_tree(file, &[]).expect("good");
    assert!(matches!(settings.credential, Some(Credential::WorkloadIdentity { .. })), "{settings:?}");
}

#[test]
fn headcount_yaml_overrides_file_and_environment() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("azure.json");
    std::fs::write(&file, FILE).expect("written");
    let keys = format!("      cloudConfig: {}\n      resourceGroup: rg-yaml\n", file.display());
    let config = yaml(&keys, &[("ARM_RESOURCE_GROUP", "rg-env"), ("ARM_SUBSCRIPTION_ID", "sub-env")]).expect("good");
    assert_eq!(azure(&config).resource_group, "rg-yaml");
    assert_eq!(azure(&config).subscription_id.as_deref(), Some("sub-env"));
    assert_eq!(azure(&config).cloud, AzureCloud::China);
}

#[test]
fn keys_ignore_case_and_null_counts_as_omitted() {
    let file = r#"{"RESOURCEGROUP": "rg", "usemanagedidentityextension": true, "UserAssignedIdentityId": "id", "location": null}"#;
    let (settings, warnings) = in_tree(file, &[]).expect("good");
    assert_eq!(settings.resource_group, "rg");
    assert_eq!(settings.credential, Some(Credential::ManagedIdentity { user_assigned: Some("id".into()) }));
    assert_eq!((settings.location, warnings), (None, Vec::new()));
}

#[test]
fn the_credential_is_chosen_as_in_tree() {
    let sign_in = |keys: &str, variables: &[(&str, &str)]| {
        in_tree(&format!(r#"{{"resourceGroup": "rg", {keys}}}"#), variables).map(|(settings, _)| settings.credential)
    };
    assert_eq!(sign_in(r#""authMethod": "cli""#, &[]), Ok(Some(Credential::Cli)));
    let certificate = Credential::ClientCertificate {
        tenant_id: "t".into(),
        client_id: "c".into(),
        path: "cert.pem".into(),
        password: Some(Secret::new("p")),
    };
    let keys = r#""tenantId": "t", "aadClientId": "c", "aadClientCertPath": "cert.pem", "aadClientCertPassword": "p""#;
    assert_eq!(sign_in(keys, &[]), Ok(Some(certificate)));
    // AKS writes "msi" for the principal it does not have.
    let keys =
        r#""useManagedIdentityExtension": true, "tenantId": "t", "aadClientId": "msi", "aadClientSecret": "msi""#;
    assert_eq!(sign_in(keys, &[]), Ok(Some(Credential::ManagedIdentity { user_assigned: None })));
    let federated =
        Credential::WorkloadIdentity { tenant_id: None, client_id: None, token_file: Some("/token".into()) };
    let keys = r#""useFederatedWorkloadIdentityExtension": true"#;
    assert_eq!(sign_in(keys, &[("AZURE_FEDERATED_TOKEN_FILE", "/token")]), Ok(Some(federated)));
    assert_eq!(sign_in(r#""resourceManagerEndpoint": "http://127.0.0.1:9000/""#, &[]), Ok(None));
}

#[test]
fn unused_keys_and_variables_are_warnings() {
    let file = r#"{"resourceGroup": "rg", "useManagedIdentityExtension": true, "vmType": "standard",
                   "vnetName": "v", "vmssCacheTTL": 60, "loadBalancerSku": {"a": [1]}}"#;
    let (_, warnings) = in_tree(file, &[("AZURE_VMSS_CACHE_TTL", "60"), ("ENABLE_BACKOFF", "true")]).expect("good");
    assert_eq!(
        warnings,
        [
            "azure.json: these keys have no effect in Headcount: vnetName, vmssCacheTTL, loadBalancerSku",
            "these environment variables have no effect in Headcount: AZURE_VMSS_CACHE_TTL, ENABLE_BACKOFF",
            "azure.json: vmType: \"standard\" is ignored; Headcount serves only scale sets",
        ]
    );
}

#[test]
fn a_secret_under_a_wrong_key_is_not_repeated() {
    for key in ["useManagedIdentityExtension", "enableForceDelete"] {
        let error = in_tree(&format!("{{\"{key}\": \"s3cret, expected x\"}}"), &[]).expect_err(key);
        assert!(error.contains(key) && !error.contains("s3cret"), "{error}");
    }
}

#[test]
fn errors_in_the_cloud_config_have_a_place() {
    for (file, start, words) in [
        ("{\n  \"cloud\": 5\n}", "azure.json:2:12: ", "cloud: invalid type: integer, expected a string"),
        (
            "{\n  \"enableForceDelete\": \"yes\"\n}",
            "azure.json:2:28: ",
            "enableForceDelete: invalid type: string, expected a boolean",
        ),
        ("{\n  \"cloud\": \"a\"\n  \"x\": 1}", "azure.json:3:3: ", "expected `,` or `}`"),
        ("{} x", "azure.json:1:4: ", "trailing characters"),
        ("[]", "azure.json:1:", "a JSON object"),
        (
            r#"{"resourceGroup": "rg", "cloud": "GCP"}"#,
            "azure.json: cloud: ",
            "\"GCP\" is not a cloud; write AzurePublicCloud",
        ),
        (r#"{"resourceGroup": "rg", "authMethod": "x"}"#, "azure.json: authMethod: ", "principal or cli"),
    ] {
        let error = in_tree(file, &[]).expect_err(file);
        assert!(error.starts_with(start) && error.contains(words), "{error}");
        assert_eq!(error.matches(" line ").count(), 0, "{error}");
    }
}

#[test]
fn errors_in_flags_and_environment_have_a_place() {
    let error = in_tree("{}", &[]).expect_err("no resource group");
    assert!(error.starts_with("--cloud-provider: resourceGroup is missing;"), "{error}");
    let error = in_tree(r#"{"resourceGroup": "rg"}"#, &[]).expect_err("no credential");
    assert!(error.starts_with("--cloud-provider: no credentials for Azure;"), "{error}");
    let error = in_tree(FILE, &[("ARM_USE_MANAGED_IDENTITY_EXTENSION", "yes")]).expect_err("not a switch");
    assert_eq!(error, "ARM_USE_MANAGED_IDENTITY_EXTENSION: \"yes\" is neither true nor false; write true or false");
    let both = [("ARM_USE_MANAGED_IDENTITY_EXTENSION", "true"), ("ARM_USE_WORKLOAD_IDENTITY_EXTENSION", "true")];
    let error = in_tree(FILE, &both).expect_err("two identities");
    assert!(error.starts_with("ARM_USE_MANAGED_IDENTITY_EXTENSION: managed identity and workload identity"), "{error}");
}

#[test]
fn errors_in_headcount_yaml_have_a_place() {
    for (keys, start) in [
        ("", "headcount.yaml:4:7: resourceGroup is missing;"),
        ("      resourceGroup: rg\n", "headcount.yaml:4:7: no credentials"),
        (
            "      autoDiscovery: [\"label:a\"]\n      resourceGroup: rg\n      authMethod: cli\n",
            "headcount.yaml:5:23: \"label:a\": ",
        ),
        ("      resourceGroup: rg\n      cloud: Azure\n", "headcount.yaml:6:14: \"Azure\" is not a cloud"),
        ("      endpoint: arm\n      resourceGroup: rg\n", "headcount.yaml:5:17: \"arm\" is not an endpoint"),
        ("      enableForceDelete: maybe\n", "headcount.yaml:5:26: expected true or false"),
        ("      vmType: vmss\n", "headcount.yaml:5:7: unknown key \"vmType\""),
    ] {
        let error = yaml(keys, &[]).expect_err(keys).to_string();
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let (settings, _) = in_tree(FILE, &[]).expect("good");
    assert!(!format!("{settings:?}").contains("secret-file"));
}
