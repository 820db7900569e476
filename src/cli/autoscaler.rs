//! How commands learn the release and the flags of the Cluster Autoscaler.

use std::path::PathBuf;
use std::sync::Arc;

use super::{CommandError, manifest, server};
use crate::check::{Autoscaler, ClusterError, DeploymentError};
use crate::config::Config;
use crate::kubernetes::{self, AutoscalerContainer};

/// The arguments about the Cluster Autoscaler.
#[derive(Debug, clap::Args)]
pub(super) struct AutoscalerArguments {
    /// The release of the Cluster Autoscaler, such as 1.34. It overrides that of the Deployment.
    #[arg(long, value_name = "RELEASE")]
    ca_version: Option<String>,
    /// The manifest of the Cluster Autoscaler's Deployment, with its release and flags. Without it, they come from the
    /// Kubernetes API, if the configuration gives access to it.
    #[arg(long, value_name = "FILE")]
    ca_deployment: Option<PathBuf>,
    /// The namespace of the Cluster Autoscaler.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub(super) ca_namespace: String,
}

impl AutoscalerArguments {
    /// Collects what the arguments, the running server and the Kubernetes API show about the Cluster Autoscaler.
    /// Sources that cannot be read are listed.
    pub(super) async fn learn(&self, config: &Config, server: Option<&str>) -> Result<Autoscaler, CommandError> {
        let usage = |error: crate::check::AutoscalerError| CommandError::Usage(error.to_string());
        let mut autoscaler = Autoscaler::default();
        if let Some(server) = server {
            match server::status(server).await {
                Ok(document) => autoscaler.read_server(server, &document),
                Err(reason) => autoscaler.server_unread = Some(reason),
            }
        }
        let access = config.learn.as_ref().or(config.events.as_ref()).or(config.taints.as_ref());
        match (&self.ca_deployment, access) {
            (Some(path), _) => {
                let name = path.display().to_string();
                let text = manifest::read(path)
                    .map_err(|error| CommandError::Usage(format!("--ca-deployment {name}: {error}")))?;
                autoscaler.read_manifest(&text, &name).map_err(usage)?;
            }
            (None, Some(settings)) => self.ask(settings, &mut autoscaler).await,
            (None, None) => {}
        }
        if let Some(version) = &self.ca_version {
            autoscaler.set_version(version).map_err(usage)?;
        }
        Ok(autoscaler)
    }

    /// Reads the Deployment from the Kubernetes API.
    async fn ask(&self, settings: &kubernetes::Settings, autoscaler: &mut Autoscaler) {
        match self.deployed(settings).await {
            Ok(container) => {
                let origin = format!("Deployment {}/{}", self.ca_namespace, container.deployment);
                autoscaler.read_container(&container, origin);
            }
            Err(error) => autoscaler.unread = Some(Arc::new(error)),
        }
    }

    async fn deployed(&self, settings: &kubernetes::Settings) -> Result<AutoscalerContainer, DeploymentError> {
        let client = kubernetes::Client::new(settings.clone(), &|name| std::env::var(name).ok());
        let client = client.map_err(|error| ClusterError::from(Arc::new(error)))?;
        let found = client.autoscaler_container(&self.ca_namespace).await.map_err(ClusterError::from)?;
        found.ok_or_else(|| DeploymentError::Find { namespace: self.ca_namespace.clone() })
    }
}
