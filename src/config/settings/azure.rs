//! The settings of an Azure source.

use std::path::PathBuf;

use crate::cloud::NodeGroupSpec;
use crate::cloud::secrets::Secret;

/// One Azure subscription and resource group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The Azure cloud; the public one by default.
    pub cloud: AzureCloud,
    /// The URL of Azure Resource Manager; by default, that of the cloud.
    pub endpoint: Option<String>,
    /// The region to look up instance types in; by default, that of each scale set.
    pub location: Option<String>,
    /// The subscription; by default, that of the instance metadata service.
    pub subscription_id: Option<String>,
    /// The resource group that the scale sets are in.
    pub resource_group: String,
    /// How to sign in. `None` only if `endpoint` is plain HTTP, over which no token is sent.
    pub credential: Option<Credential>,
    /// Scale sets listed by name.
    pub node_groups: Vec<NodeGroupSpec>,
    /// Scale sets found by tags. A scale set matches an entry if it has all of its tags; one matching entry is enough.
    pub auto_discovery: Vec<LabelQuery>,
    /// Whether instances are deleted without a shutdown; not by default.
    pub enable_force_delete: bool,
    /// Whether the detailed message of a failed VM extension is looked up and reported; not by default.
    pub detailed_extension_messages: bool,
    /// Whether templates predict the labels that AKS gives to nodes; they do by default.
    pub label_predictions: bool,
}

/// Azure's separate clouds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AzureCloud {
    /// `AzurePublicCloud`
    #[default]
    Public,
    /// `AzureUSGovernmentCloud`
    UsGovernment,
    /// `AzureChinaCloud`
    China,
}

impl AzureCloud {
    /// Parses the name of a cloud, ignoring case. The US government cloud has two spellings.
    pub fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "AZUREPUBLICCLOUD" | "AZURECLOUD" => Some(Self::Public),
            "AZUREUSGOVERNMENTCLOUD" | "AZUREUSGOVERNMENT" => Some(Self::UsGovernment),
            "AZURECHINACLOUD" => Some(Self::China),
            _ => None,
        }
    }
}

/// How a source signs in to Azure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A service principal's secret.
    ClientSecret {
        /// The principal's tenant.
        tenant_id: String,
        /// The principal.
        client_id: String,
        /// Its secret.
        secret: Secret,
    },
    /// A service principal's certificate.
    ClientCertificate {
        /// The principal's tenant.
        tenant_id: String,
        /// The principal.
        client_id: String,
        /// The file that holds certificate and key.
        path: PathBuf,
        /// The password of the file, if it is encrypted.
        password: Option<Secret>,
    },
    /// A managed identity of the instance that Headcount runs on.
    ManagedIdentity {
        /// Client ID or resource ID of a user-assigned identity; the system-assigned one where it is absent.
        user_assigned: Option<String>,
    },
    /// The token of a Kubernetes service account, exchanged for an Azure token.
    WorkloadIdentity {
        /// The tenant. The workload identity webhook usually sets all three in the environment.
        tenant_id: Option<String>,
        /// The identity.
        client_id: Option<String>,
        /// The file that holds the token.
        token_file: Option<PathBuf>,
    },
    /// The account that the Azure CLI is signed in with.
    Cli,
}

impl Credential {
    /// The identity that signs in, for people.
    pub fn description(&self) -> String {
        let or = |id: &Option<String>, otherwise: &str| id.clone().unwrap_or_else(|| otherwise.to_owned());
        match self {
            Self::ClientSecret { tenant_id, client_id, .. } => {
                format!("application {client_id} of tenant {tenant_id}, with a secret")
            }
            Self::ClientCertificate { tenant_id, client_id, .. } => {
                format!("application {client_id} of tenant {tenant_id}, with a certificate")
            }
            Self::ManagedIdentity { user_assigned: Some(id) } => format!("managed identity {id}"),
            Self::ManagedIdentity { user_assigned: None } => "system-assigned managed identity".to_owned(),
            Self::WorkloadIdentity { client_id, .. } => {
                format!("workload identity {}", or(client_id, "of AZURE_CLIENT_ID"))
            }
            Self::Cli => "the account of the Azure CLI".to_owned(),
        }
    }
}

/// One `label:key=value,min=…,max=…` specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelQuery {
    /// The tags a scale set must have, key and value; never empty.
    pub labels: Vec<(String, String)>,
    /// The minimum size of scale sets that have no such tag.
    pub min: Option<u32>,
    /// The maximum size of scale sets that have no such tag; not below `min`.
    pub max: Option<u32>,
}
