//! Connects to Azure Resource Manager as configured.

use std::io;
use std::sync::Arc;

use azure_core::http::Url;
use thiserror::Error;

use super::client::ArmClient;
use super::scale_sets::ArmScaleSets;
use super::sign_in::{Bearer, NewCredential};
use crate::cloud::{CallMeter, CloudError};
use crate::clouds::azure::auth::{CredentialError, credential};
use crate::clouds::azure::http::Transport;
use crate::clouds::azure::throttle::CallLimiter;
use crate::clouds::roots::{self, NoRoots};
use crate::config::settings::azure::{AzureCloud, Credential, Settings};

/// Why Headcount cannot connect to a source.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No subscription is configured.
    #[error(
        "no Azure subscription: set azure.subscriptionId of the source in headcount.yaml, or ARM_SUBSCRIPTION_ID; \
         on an Azure VM, make the metadata service reachable"
    )]
    NoSubscription,
    /// The endpoint is not a valid URL.
    #[error("{0} is not a valid Azure Resource Manager endpoint: use https://HOST or http://HOST:PORT, without a path")]
    Endpoint(String),
    /// No credential is configured.
    #[error(
        "no Azure credential: set useManagedIdentityExtension, useFederatedWorkloadIdentityExtension, \
         or aadClientId and aadClientSecret in the cloud config"
    )]
    NoCredential,
    /// The credential cannot be used.
    #[error("the Azure credential cannot be used: {0}")]
    Credential(String),
    /// The system has no root certificates.
    #[error(transparent)]
    NoRoots(#[from] NoRoots),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] io::Error),
}

impl From<CredentialError> for ConnectError {
    fn from(error: CredentialError) -> Self {
        Self::Credential(error.to_string())
    }
}

impl ArmScaleSets {
    /// Connects to one subscription and resource group. Sends no request yet.
    pub(in crate::clouds::azure) fn connect(settings: &Settings, calls: CallMeter) -> Result<Self, ConnectError> {
        let subscription = settings.subscription_id.as_deref().map(str::trim).filter(|id| !id.is_empty());
        let subscription = subscription.ok_or(ConnectError::NoSubscription)?;
        let endpoint = endpoint(settings)?;
        let (transport, bearer) = if endpoint.scheme() == "https" {
            roots::check()?;
            let transport = Arc::new(Transport::new()?);
            let settings_of = settings.credential.as_ref().ok_or(ConnectError::NoCredential)?;
            let first = credential(settings_of, settings.cloud, Arc::clone(&transport) as _)?;
            let (renew, scope) = (factory(settings_of, settings.cloud, &transport), scope(settings.cloud).to_owned());
            (transport, Some(Bearer { credential: first, scope, renew }))
        } else {
            if settings.credential.is_some() {
                tracing::warn!(%endpoint, "the Azure endpoint uses plain HTTP; no token is sent, and the credential \
                    is not used");
            }
            (Arc::new(Transport::plain()?), None)
        };
        let location = settings.location.as_deref().unwrap_or_default();
        let limiter = CallLimiter::shared(endpoint.as_str(), subscription, location);
        let client = ArmClient::new(transport, endpoint, bearer, limiter).metered(calls);
        Ok(Self::new(client, subscription.to_owned(), settings.resource_group.clone()))
    }

    /// Whom the tokens are issued to; `None` without tokens, or where they do not say.
    pub(in crate::clouds::azure) async fn application(&self) -> Result<Option<String>, CloudError> {
        self.client.application().await
    }

    /// Signs in with this credential from now on, if there is a token for it. Otherwise the previous one stays in use.
    pub(in crate::clouds::azure) async fn renew_credential(
        &self,
        settings: &Credential,
        cloud: AzureCloud,
    ) -> Result<(), String> {
        self.client.sign_in_with(factory(settings, cloud, self.client.transport())).await
    }
}

/// Creates this credential anew at each call.
fn factory(settings: &Credential, cloud: AzureCloud, transport: &Arc<Transport>) -> NewCredential {
    let (settings, transport) = (settings.clone(), Arc::clone(transport));
    Arc::new(move || credential(&settings, cloud, Arc::clone(&transport) as _).map_err(|error| error.to_string()))
}

fn endpoint(settings: &Settings) -> Result<Url, ConnectError> {
    let text = settings.endpoint.as_deref().filter(|text| !text.is_empty()).unwrap_or_else(|| address(settings.cloud));
    let bad = || ConnectError::Endpoint(text.to_owned());
    let url = Url::parse(text).map_err(|_| bad())?;
    // The crate that builds the requests silently drops a path.
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    let anonymous = url.username().is_empty() && url.password().is_none();
    let fits = matches!(url.scheme(), "https" | "http") && url.has_host() && bare && anonymous;
    if fits { Ok(url) } else { Err(bad()) }
}

fn address(cloud: AzureCloud) -> &'static str {
    match cloud {
        AzureCloud::Public => "https://management.azure.com",
        AzureCloud::UsGovernment => "https://management.usgovcloudapi.net",
        AzureCloud::China => "https://management.chinacloudapi.cn",
    }
}

/// The scope of tokens for Resource Manager, as in the Go SDK for the sovereign clouds.
fn scope(cloud: AzureCloud) -> &'static str {
    match cloud {
        AzureCloud::Public => "https://management.azure.com/.default",
        AzureCloud::UsGovernment => "https://management.core.usgovcloudapi.net/.default",
        AzureCloud::China => "https://management.core.chinacloudapi.cn/.default",
    }
}

#[cfg(test)]
mod tests;
