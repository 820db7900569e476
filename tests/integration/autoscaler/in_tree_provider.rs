//! How the autoscaler's own providers are configured for an emulator.

use std::path::Path;

use headcount::clouds::simulated::{Group, RESOURCE_GROUP, SUBSCRIPTION};
use serde_json::json;

use crate::emulators::{Emulator, HttpResponse};

/// What such a provider needs besides its name.
pub(super) struct InTreeProvider {
    pub(super) cloud_config: String,
    pub(super) environment: Vec<(&'static str, String)>,
    /// `--nodes` for each group of the emulator, within the group's own bounds.
    pub(super) nodes: Vec<String>,
}

impl InTreeProvider {
    /// For the cloud of this emulator; on Azure, it must have a port with TLS. The folder is for files.
    pub(super) fn over(emulator: &impl Emulator, folder: &Path) -> Self {
        let (cloud_config, environment) = match emulator.cloud() {
            "aws" => aws(&emulator.url()),
            _ => azure(emulator, folder),
        };
        let nodes = emulator.simulated().world(|world, _| {
            let spec = |group: &Group| format!("--nodes={}:{}:{}", group.plan().min, group.plan().max, group.name());
            world.groups().map(spec).collect()
        });
        Self { cloud_config, environment, nodes }
    }
}

fn aws(url: &str) -> (String, Vec<(&'static str, String)>) {
    let service = |name: &str| {
        format!("[ServiceOverride \"{name}\"]\nService={name}\nRegion=us-east-1\nURL={url}\nSigningRegion=us-east-1\n")
    };
    let services = ["autoscaling", "ec2", "eks"].map(service).concat();
    let environment = [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    let environment = environment.map(|(name, value)| (name, value.to_owned()));
    (format!("[Global]\nZone=us-east-1a\n{services}"), environment.to_vec())
}

/// Over TLS: Azure's SDK for Go sends no token in plaintext. The managed identity is that of App Service.
fn azure(emulator: &impl Emulator, folder: &Path) -> (String, Vec<(&'static str, String)>) {
    let (url, authority) = emulator.secure().expect("opened with TLS");
    let roots = folder.join("in-tree-roots.crt");
    std::fs::write(&roots, authority).expect("written");
    let endpoints = json!([{
        "name": "AzurePublicCloud",
        "resourceManager": &url,
        "authentication": {"audiences": ["https://management.azure.com/"]},
    }]);
    emulator.script("GET", "/metadata/endpoints", 100, HttpResponse::json(200, &endpoints));
    let environment = vec![
        ("SSL_CERT_FILE", roots.display().to_string()),
        ("IDENTITY_ENDPOINT", format!("{}/msi/token", emulator.url())),
        ("IDENTITY_HEADER", "test".to_owned()),
    ];
    let cloud_config = json!({
        "cloud": "AzurePublicCloud",
        "tenantId": "tenant",
        "subscriptionId": SUBSCRIPTION,
        "resourceGroup": RESOURCE_GROUP,
        "location": "eastus",
        "vmType": "vmss",
        "useManagedIdentityExtension": true,
        "hostedResourceProxyURL": url,
    });
    (cloud_config.to_string(), environment)
}
