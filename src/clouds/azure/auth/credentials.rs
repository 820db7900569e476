//! The credentials of azure_identity, on our HTTP client.

use std::sync::Arc;
use std::time::Duration;

use azure_core::cloud::CloudConfiguration;
use azure_core::credentials::TokenCredential;
use azure_core::http::{ClientOptions, ExponentialRetryOptions, HttpClient, RetryOptions, Transport, Url};
use azure_identity::{
    AzureCliCredential, ClientAssertionCredential, ClientAssertionCredentialOptions, ClientSecretCredential,
    ClientSecretCredentialOptions, ManagedIdentityCredential, ManagedIdentityCredentialOptions, UserAssignedId,
};

use super::certificate::{Certificate, CertificateError};
use super::federated::{FederatedError, TokenFile};
use super::in_time::InTime;
use crate::cloud::secrets::keep_long_lived_secret;
use crate::config::settings::azure::{AzureCloud, Credential};

/// Overrides the address of the sign-in service; the workload identity webhook sets it.
const AUTHORITY_HOST: &str = "AZURE_AUTHORITY_HOST";

/// Where App Service has its tokens.
const IDENTITY_ENDPOINT: &str = "IDENTITY_ENDPOINT";
/// Where every Azure VM has its tokens.
const METADATA_SERVICE: &str = "169.254.169.254";

/// The header that App Service and Arc require in requests for tokens.
const IDENTITY_HEADER: &str = "IDENTITY_HEADER";

/// Retries are safe: a token request changes nothing. The metadata service returns 429 and 5xx from time to time.
const SIGN_IN_TRIES: u32 = 3;
/// Shorter than the time that a call waits for its token.
const SIGN_IN_TIME: Duration = Duration::from_secs(8);

/// Why there is no credential.
#[derive(Debug, thiserror::Error)]
pub(in crate::clouds::azure) enum CredentialError {
    #[error(transparent)]
    Sdk(#[from] azure_core::Error),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Federated(#[from] FederatedError),
}

/// Creates the configured credential. Sends no request yet.
pub(in crate::clouds::azure) fn credential(
    settings: &Credential,
    cloud: AzureCloud,
    transport: Arc<dyn HttpClient>,
) -> Result<Arc<dyn TokenCredential>, CredentialError> {
    let environment = set(AUTHORITY_HOST);
    let authority = environment.as_deref().unwrap_or_else(|| authority(cloud));
    let client_options = options(cloud, environment.is_some(), transport);
    let signs_in_at = match settings {
        Credential::ManagedIdentity { .. } => {
            set(IDENTITY_ENDPOINT).map_or_else(|| METADATA_SERVICE.to_owned(), |endpoint| host(&endpoint))
        }
        Credential::Cli => "the Azure CLI".to_owned(),
        _ => host(authority),
    };
    let credential: Arc<dyn TokenCredential> = match settings {
        Credential::ClientSecret { tenant_id, client_id, secret } => {
            let options = ClientSecretCredentialOptions { client_options };
            keep_long_lived_secret(secret.expose());
            let secret = azure_core::credentials::Secret::new(secret.expose().to_owned());
            ClientSecretCredential::new(tenant_id, client_id.clone(), secret, Some(options))?
        }
        Credential::ClientCertificate { tenant_id, client_id, path, password } => {
            let certificate =
                Certificate::new(path.clone(), password.is_some(), authority, tenant_id, client_id.clone())?;
            let options = ClientAssertionCredentialOptions { client_options };
            ClientAssertionCredential::new(tenant_id.clone(), client_id.clone(), certificate, Some(options))?
        }
        Credential::ManagedIdentity { user_assigned } => {
            std::env::var(IDENTITY_HEADER).iter().for_each(|header| keep_long_lived_secret(header));
            let user_assigned_id = user_assigned.clone().map(|id| {
                if id.starts_with('/') { UserAssignedId::ResourceId(id) } else { UserAssignedId::ClientId(id) }
            });
            let options = ManagedIdentityCredentialOptions { user_assigned_id, client_options };
            ManagedIdentityCredential::new(Some(options))?
        }
        Credential::WorkloadIdentity { tenant_id, client_id, token_file } => {
            let given = |value: &Option<String>, what| value.clone().ok_or(FederatedError::Unset(what));
            let tenant_id = given(tenant_id, "the tenant ID (tenantId, AZURE_TENANT_ID)")?;
            let client_id = given(client_id, "the client ID of the identity (aadClientId, AZURE_CLIENT_ID)")?;
            let file = token_file.clone();
            let file = file
                .ok_or(FederatedError::Unset("the token file (aadFederatedTokenFile, AZURE_FEDERATED_TOKEN_FILE)"))?;
            let options = ClientAssertionCredentialOptions { client_options };
            ClientAssertionCredential::new(tenant_id, client_id, TokenFile::new(file)?, Some(options))?
        }
        Credential::Cli => AzureCliCredential::new(None)?,
    };
    Ok(Arc::new(InTime::new(credential, signs_in_at)))
}

/// What the environment sets.
fn set(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.trim().is_empty())
}

/// The host of a URL, or the URL if it has none.
fn host(url: &str) -> String {
    let parsed = Url::parse(url).ok();
    parsed.as_ref().and_then(Url::host_str).unwrap_or(url).to_owned()
}

fn options(cloud: AzureCloud, authority_is_set: bool, transport: Arc<dyn HttpClient>) -> ClientOptions {
    let cloud = match cloud {
        // The crate reads the environment only if no cloud is named.
        _ if authority_is_set => None,
        AzureCloud::Public => None,
        AzureCloud::UsGovernment => Some(CloudConfiguration::AzureGovernment),
        AzureCloud::China => Some(CloudConfiguration::AzureChina),
    };
    let retry = ExponentialRetryOptions {
        max_retries: SIGN_IN_TRIES,
        max_total_elapsed: azure_core::time::Duration::try_from(SIGN_IN_TIME).unwrap_or_default(),
        ..ExponentialRetryOptions::default()
    };
    ClientOptions {
        transport: Some(Transport::new(transport)),
        retry: RetryOptions::exponential(retry),
        cloud: cloud.map(Arc::new),
        ..ClientOptions::default()
    }
}

fn authority(cloud: AzureCloud) -> &'static str {
    match cloud {
        AzureCloud::Public => "https://login.microsoftonline.com",
        AzureCloud::UsGovernment => "https://login.microsoftonline.us",
        AzureCloud::China => "https://login.chinacloudapi.cn",
    }
}

#[cfg(test)]
mod tests;
