use std::path::PathBuf;

use super::*;
use crate::cloud::CallMeter;
use crate::cloud::secrets::Secret;
use crate::config::settings::azure::Credential;

fn settings(endpoint: Option<&str>, credential: Option<Credential>) -> Settings {
    Settings {
        endpoint: endpoint.map(str::to_owned),
        subscription_id: Some("sub".to_owned()),
        resource_group: "rg".to_owned(),
        credential,
        ..crate::clouds::azure::tests::settings()
    }
}

fn secret() -> Credential {
    let secret = Secret::new("hunter2");
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
}

#[test]
fn what_is_missing_is_named() {
    let nobody = Settings { subscription_id: Some(" ".to_owned()), ..settings(None, None) };
    assert!(matches!(ArmScaleSets::connect(&nobody, CallMeter::default()), Err(ConnectError::NoSubscription)));
    assert!(matches!(
        ArmScaleSets::connect(&settings(None, None), CallMeter::default()),
        Err(ConnectError::NoCredential)
    ));
    ArmScaleSets::connect(&settings(Some("http://127.0.0.1:1"), None), CallMeter::default())
        .expect("plain http needs no credential");
}

#[test]
fn every_credential_can_be_created_and_none_appears_in_debug_output() {
    let managed = |id: Option<&str>| Credential::ManagedIdentity { user_assigned: id.map(str::to_owned) };
    let workload = |file: &str| Credential::WorkloadIdentity {
        tenant_id: Some("tenant".to_owned()),
        client_id: Some("client".to_owned()),
        token_file: Some(PathBuf::from(file)),
    };
    let there = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let connect = |credential: Credential| {
        ArmScaleSets::connect(&settings(Some("https://arm.invalid"), Some(credential)), CallMeter::default())
    };
    let managed_by_resource = managed(Some("/subscriptions/x"));
    let all = [secret(), managed(None), managed(Some("id")), managed_by_resource, Credential::Cli, workload(there)];
    for credential in all {
        let arm = connect(credential.clone()).unwrap_or_else(|error| panic!("{credential:?}: {error}"));
        assert!(!format!("{arm:?}").contains("hunter2"));
    }
    let missing = connect(workload("/nowhere/at/all")).expect_err("no file");
    assert!(missing.to_string().contains("/nowhere/at/all"), "{missing}");
    let unset = Credential::WorkloadIdentity { tenant_id: None, client_id: None, token_file: None };
    let unset = connect(unset).expect_err("nothing is set");
    assert!(unset.to_string().contains("AZURE_TENANT_ID"), "{unset}");
}

#[test]
fn every_cloud_has_its_own_addresses() {
    for (cloud, manages, audience) in [
        (AzureCloud::Public, "https://management.azure.com/", "https://management.azure.com/.default"),
        (
            AzureCloud::UsGovernment,
            "https://management.usgovcloudapi.net/",
            "https://management.core.usgovcloudapi.net/.default",
        ),
        (
            AzureCloud::China,
            "https://management.chinacloudapi.cn/",
            "https://management.core.chinacloudapi.cn/.default",
        ),
    ] {
        let of_cloud = Settings { cloud, ..settings(None, None) };
        assert_eq!(endpoint(&of_cloud).expect("an address").as_str(), manages);
        assert_eq!(scope(cloud), audience);
    }
}
