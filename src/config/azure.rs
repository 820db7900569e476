//! Settings of an Azure source, from headcount.yaml or from the in-tree provider's flags, file and environment.

use std::path::{Path, PathBuf};

use serde_saphyr::Spanned;

use super::cloud_config::{self, Layer};
use super::error::{ConfigError, Located, Place};
use super::file::{self, Text};
use super::source::{SourceContext, each, located, node_groups, warn_if_idle};
use super::validate::beside;
use super::{discovery, scalar, yaml};
use crate::cloud::secrets::Secret;
use crate::config::settings::azure::{AzureCloud, Credential, Settings};

/// The input for an Azure source, before validation.
pub(super) struct AzureInput {
    /// The place of the source, for errors about missing keys.
    pub(super) place: Place,
    pub(super) cloud_config: Option<Located<PathBuf>>,
    pub(super) node_groups: Vec<Located<String>>,
    pub(super) auto_discovery: Vec<Located<String>>,
    /// Values that override the environment, which overrides the cloud-config file.
    pub(super) layer: Layer,
}

/// Validates `azure:` in headcount.yaml.
pub(super) fn from_file(
    azure: &Spanned<file::Azure>,
    source: &str,
    path: &Path,
    context: &mut SourceContext<'_>,
) -> Result<Settings, ConfigError> {
    let keys = &azure.value;
    let cloud_config = keys
        .cloud_config
        .as_ref()
        .map(|name| Located { value: beside(path, &name.value), place: yaml::place(name, path) });
    let input = AzureInput {
        place: yaml::place(azure, path),
        cloud_config,
        node_groups: located(&keys.node_groups, path),
        auto_discovery: located(&keys.auto_discovery, path),
        layer: layer(keys, path),
    };
    settings(input, source, context)
}

fn layer(keys: &file::Azure, path: &Path) -> Layer {
    let texts: [(&'static str, &Option<Text>); 13] = [
        ("resourceManagerEndpoint", &keys.endpoint),
        ("cloud", &keys.cloud),
        ("location", &keys.location),
        ("subscriptionId", &keys.subscription_id),
        ("resourceGroup", &keys.resource_group),
        ("tenantId", &keys.tenant_id),
        ("authMethod", &keys.auth_method),
        ("aadClientId", &keys.aad_client_id),
        ("aadClientSecret", &keys.aad_client_secret),
        ("aadClientCertPath", &keys.aad_client_cert_path),
        ("aadClientCertPassword", &keys.aad_client_cert_password),
        ("aadFederatedTokenFile", &keys.aad_federated_token_file),
        ("userAssignedIdentityID", &keys.user_assigned_identity_id),
    ];
    let switches = [
        ("useManagedIdentityExtension", &keys.use_managed_identity_extension),
        ("useFederatedWorkloadIdentityExtension", &keys.use_federated_workload_identity_extension),
        ("enableForceDelete", &keys.enable_force_delete),
        ("enableDetailedCSEMessage", &keys.enable_detailed_cse_message),
        ("enableLabelPredictionsOnTemplate", &keys.enable_label_predictions_on_template),
    ];
    let texts = texts.into_iter().filter_map(|(key, text)| {
        let text = text.as_ref()?;
        let value = match key {
            "aadClientCertPath" | "aadFederatedTokenFile" => beside(path, &text.value).to_string_lossy().into_owned(),
            _ => text.value.clone(),
        };
        Some((key, Located { value, place: yaml::place(text, path) }))
    });
    let switches = switches.into_iter().filter_map(|(key, switch)| {
        let switch = switch.as_ref()?;
        Some((key, Located { value: switch.value.to_string(), place: yaml::place(switch, path) }))
    });
    texts.chain(switches).collect()
}

/// Validates an Azure source.
pub(super) fn settings(
    input: AzureInput,
    source: &str,
    context: &mut SourceContext<'_>,
) -> Result<Settings, ConfigError> {
    let mut layer = match &input.cloud_config {
        Some(file) => cloud_config::from_file(&file.value, &file.place, context)?,
        None => Layer::new(),
    };
    layer.extend(cloud_config::from_environment(context)?);
    let keys = Keys(over(layer, input.layer, context));
    if let Some(vm_type) = keys.get("vmType").filter(|vm_type| !vm_type.value.eq_ignore_ascii_case("vmss")) {
        context
            .warnings
            .push(format!("{}: {:?} is ignored; Headcount serves only scale sets", vm_type.place, vm_type.value));
    }
    let Some(resource_group) = keys.text("resourceGroup") else {
        let message =
            "resourceGroup is missing; set it in headcount.yaml, in the cloud-config file or in ARM_RESOURCE_GROUP";
        return Err(ConfigError::at(&input.place, message));
    };
    let endpoint = keys.read("resourceManagerEndpoint", scalar::endpoint)?;
    let cloud = keys.read("cloud", |name| {
        AzureCloud::parse(name).ok_or_else(|| {
            format!("{name:?} is not a cloud; write AzurePublicCloud, AzureUSGovernmentCloud or AzureChinaCloud")
        })
    })?;
    let credential = credential(&keys, &input.place, endpoint.as_deref())?;
    let node_groups = node_groups(&input.node_groups, source, context)?;
    let auto_discovery = each(&input.auto_discovery, discovery::label_query)?;
    warn_if_idle(node_groups.len(), auto_discovery.len(), source, context);
    Ok(Settings {
        cloud: cloud.unwrap_or_default(),
        endpoint,
        location: keys.text("location"),
        subscription_id: keys.text("subscriptionId"),
        resource_group,
        credential,
        node_groups,
        auto_discovery,
        enable_force_delete: keys.switch("enableForceDelete").unwrap_or(false),
        detailed_extension_messages: keys.switch("enableDetailedCSEMessage").unwrap_or(false),
        label_predictions: keys.switch("enableLabelPredictionsOnTemplate").unwrap_or(true),
    })
}

/// What chooses between the ways to sign in.
const SWITCHES: [&str; 2] = ["useManagedIdentityExtension", "useFederatedWorkloadIdentityExtension"];

/// The values of headcount.yaml over those of the in-tree configuration. A secret or a certificate in headcount.yaml is
/// used even if the in-tree configuration chooses an identity.
fn over(mut in_tree: Layer, own: Layer, context: &mut SourceContext<'_>) -> Layer {
    let is_on = |layer: &Layer, key: &str| layer.get(key).is_some_and(|switch| switch.value.trim() == "true");
    let has_own = |key: &str| own.get(key).is_some_and(|written| !written.value.trim().is_empty());
    let has_own_secret = ["aadClientSecret", "aadClientCertPath"].into_iter().any(has_own);
    if has_own_secret && !SWITCHES.iter().any(|key| is_on(&own, key)) {
        in_tree.retain(|key, _| !SWITCHES.contains(key) && *key != "authMethod");
    }
    // In-tree, an identity is used whatever the authMethod says.
    let is_chosen = |key: &&str| if has_own(key) { is_on(&own, key) } else { is_on(&in_tree, key) };
    if SWITCHES.iter().any(is_chosen)
        && let Some(method) =
            in_tree.remove("authMethod").filter(|method| !matches!(method.value.trim(), "" | "principal"))
    {
        let (place, method) = (method.place, method.value);
        context
            .warnings
            .push(format!("{place}: authMethod {method:?} has no effect, because an identity is chosen as well"));
    }
    in_tree.extend(own);
    in_tree
}

/// Chooses the credential as the in-tree provider does.
fn credential(keys: &Keys, place: &Place, endpoint: Option<&str>) -> Result<Option<Credential>, ConfigError> {
    let cli = keys.read("authMethod", |method| match method {
        "principal" => Ok(false),
        "cli" => Ok(true),
        _ => Err(format!("{method:?} is not an authMethod; write principal or cli")),
    })?;
    let workload = keys.switch("useFederatedWorkloadIdentityExtension") == Some(true);
    let managed = keys.switch("useManagedIdentityExtension") == Some(true);
    if workload && managed {
        let place = keys.get("useManagedIdentityExtension").map_or(place, |found| &found.place);
        let message = "managed identity and workload identity cannot be combined; set either \
                       useManagedIdentityExtension or useFederatedWorkloadIdentityExtension to false";
        return Err(ConfigError::at(place, message));
    }
    if cli == Some(true) {
        return Ok(Some(Credential::Cli));
    }
    let (tenant_id, client_id) = (keys.text("tenantId"), keys.text("aadClientId"));
    if workload {
        let token_file = keys.text("aadFederatedTokenFile").map(PathBuf::from);
        return Ok(Some(Credential::WorkloadIdentity { tenant_id, client_id, token_file }));
    }
    if managed {
        return Ok(Some(Credential::ManagedIdentity { user_assigned: keys.text("userAssignedIdentityID") }));
    }
    let secret = keys.text("aadClientSecret").map(Secret::new);
    let certificate = keys.text("aadClientCertPath").map(PathBuf::from);
    match (tenant_id, client_id, secret, certificate) {
        (Some(tenant_id), Some(client_id), Some(secret), _) => {
            Ok(Some(Credential::ClientSecret { tenant_id, client_id, secret }))
        }
        (Some(tenant_id), Some(client_id), None, Some(path)) => {
            let password = keys.text("aadClientCertPassword").map(Secret::new);
            Ok(Some(Credential::ClientCertificate { tenant_id, client_id, path, password }))
        }
        (_, _, None, None) if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) => Ok(None),
        _ => Err(ConfigError::at(
            place,
            "no credentials for Azure; set useFederatedWorkloadIdentityExtension or useManagedIdentityExtension to true, \
             give tenantId and aadClientId with aadClientSecret or aadClientCertPath, or set authMethod to cli",
        )),
    }
}

/// The effective values. A blank value counts as missing.
struct Keys(Layer);

impl Keys {
    fn get(&self, key: &str) -> Option<&Located<String>> {
        self.0.get(key).filter(|written| !written.value.trim().is_empty())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(|written| written.value.trim().to_owned())
    }

    fn switch(&self, key: &str) -> Option<bool> {
        self.get(key).map(|written| written.value == "true")
    }

    fn read<T>(&self, key: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, ConfigError> {
        let Some(found) = self.get(key) else { return Ok(None) };
        read(found.value.trim()).map(Some).map_err(|message| ConfigError::at(&found.place, message))
    }
}
