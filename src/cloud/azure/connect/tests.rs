use std::path::PathBuf;

use super::super::settings::{Credential, Secret};
use super::*;

fn settings(endpoint: Option<&str>, credential: Option<Credential>) -> Settings {
    Settings {
        cloud: AzureCloud::Public,
        endpoint: endpoint.map(str::to_owned),
        location: None,
        subscription_id: Some("sub".to_owned()),
        resource_group: "rg".to_owned(),
        credential,
        node_groups: Vec::new(),
        auto_discovery: Vec::new(),
        enable_force_delete: false,
        detailed_extension_messages: false,
        label_predictions: true,
    }
}

fn secret() -> Credential {
    let secret = Secret("hunter2".to_owned());
    Credential::ClientSecret { tenant_id: "tenant".to_owned(), client_id: "client".to_owned(), secret }
}

#[test]
fn endpoints_are_bare_addresses() {
    for good in ["http://127.0.0.1:9000", "https://management.azure.com/"] {
        assert!(endpoint(&settings(Some(good), None)).is_ok(), "{good}");
    }
    for bad in ["management.azure.com", "ftp://x", "https://x/path", "https://x/?q", "https://me:pw@x", "http://"] {
        assert!(matches!(endpoint(&settings(Some(bad), None)), Err(ConnectError::Endpoint(_))), "{bad}");
    }
    let china = Settings { cloud: AzureCloud::China, ..settings(None, None) };
    assert_eq!(endpoint(&china).expect("an address").as_str(), "https://management.chinacloudapi.cn/");
}

#[test]
fn what_is_missing_is_named() {
    let nobody = Settings { subscription_id: Some(" ".to_owned()), ..settings(None, None) };
    assert!(matches!(Arm::connect(&nobody), Err(ConnectError::NoSubscription)));
    assert!(matches!(Arm::connect(&settings(None, None)), Err(ConnectError::NoCredential)));
    Arm::connect(&settings(Some("http://127.0.0.1:1"), None)).expect("plain http needs no credential");
}

#[test]
fn every_credential_can_be_made_and_none_is_shown() {
    let managed = |id: Option<&str>| Credential::ManagedIdentity { user_assigned: id.map(str::to_owned) };
    let workload = Credential::WorkloadIdentity {
        tenant_id: Some("tenant".to_owned()),
        client_id: Some("client".to_owned()),
        token_file: Some(PathBuf::from(file!())),
    };
    for credential in [secret(), managed(None), managed(Some("id")), managed(Some("/subscriptions/x")), Credential::Cli]
    {
        let arm = Arm::connect(&settings(Some("https://arm.invalid"), Some(credential.clone())));
        let arm = arm.unwrap_or_else(|error| panic!("{credential:?}: {error}"));
        assert!(!format!("{arm:?}").contains("hunter2"));
    }
    let arm = Arm::connect(&settings(Some("https://arm.invalid"), Some(workload)));
    // The file is looked at by the crate; what matters is that nothing else is wrong with it.
    if let Err(error) = arm {
        assert!(error.to_string().contains("token"), "{error}");
    }
}
