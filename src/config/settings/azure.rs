//! What the configuration says of an Azure source.

use std::fmt;
use std::path::PathBuf;

use crate::cloud::NodeGroupSpec;

/// One Azure subscription and resource group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which of Azure's clouds; the public one by default.
    pub cloud: AzureCloud,
    /// Azure Resource Manager's address; the cloud's own where it is absent.
    pub endpoint: Option<String>,
    /// The region of the scale sets, which narrows the look-up of instance types; each scale set's own where it is absent.
    pub location: Option<String>,
    /// The subscription; the instance metadata service is asked where it is absent.
    pub subscription_id: Option<String>,
    /// The resource group that the scale sets are in.
    pub resource_group: String,
    /// How to sign in. Absent only where `endpoint` is plain HTTP, over which no token is ever sent.
    pub credential: Option<Credential>,
    /// Scale sets named one by one.
    pub node_groups: Vec<NodeGroupSpec>,
    /// Scale sets found by tags. Each entry is one specification whose tags must all be there; several are a union.
    pub auto_discovery: Vec<LabelQuery>,
    /// Whether machines are deleted without being shut down first; not by default.
    pub enable_force_delete: bool,
    /// Whether a failed VM extension's own message is looked up and reported; not by default.
    pub detailed_extension_messages: bool,
    /// Whether the labels that AKS gives to nodes are predicted in templates; they are by default.
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
    /// The cloud of that name, in any case; both spellings of the US government's are in use.
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
        /// What the file is encrypted with, if it is.
        password: Option<Secret>,
    },
    /// A managed identity of the machine that Headcount runs on.
    ManagedIdentity {
        /// Client ID or resource ID of a user-assigned identity; the system-assigned one where it is absent.
        user_assigned: Option<String>,
    },
    /// A Kubernetes service account's token, exchanged.
    WorkloadIdentity {
        /// The tenant. This and the others are set by the workload identity webhook in the environment, as a rule.
        tenant_id: Option<String>,
        /// The identity.
        client_id: Option<String>,
        /// The file that holds the token.
        token_file: Option<PathBuf>,
    },
    /// Whoever the Azure CLI is signed in as.
    Cli,
}

/// A text that no log and no error message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// One `label:key=value,min=…,max=…` specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelQuery {
    /// The tags a scale set must have, key and value; never empty.
    pub labels: Vec<(String, String)>,
    /// The least number of nodes, for scale sets whose own tags do not say.
    pub min: Option<u32>,
    /// The greatest number of nodes, likewise; not below `min`.
    pub max: Option<u32>,
}
