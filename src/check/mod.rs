//! Finds what is wrong in the configuration, the credentials and the groups, or conflicts with the Cluster Autoscaler,
//! and says what to do about it.
//!
//! `collected` reads the clouds, each independently, and writes nothing; `findings` decides what to report, and is
//! pure.

mod autoscaler;
mod cluster;
mod code;
mod collected;
pub mod compare;
mod finding;
mod findings;
mod groups;
mod pod_identity;
mod prices;
mod served;
mod similar;

use std::sync::Arc;

pub use autoscaler::{Autoscaler, AutoscalerError, Calls};
pub use cluster::{ClusterError, DeploymentError};
pub use code::Code;
pub use finding::{Finding, Severity, summary};
pub use similar::{Similar, similar};

use crate::cloud::ReadOnlyCloud;
use crate::fleet::Policies;
use crate::instance_types::Catalog;
use crate::kubernetes::{ClusterConfigError, KubernetesApi};
use crate::prices::{PriceRefresh, Prices};

/// What is to be checked.
pub struct CheckInput<'a> {
    /// The sources, by name.
    pub sources: &'a [(Arc<str>, ReadOnlyCloud)],
    /// Instance types.
    pub catalog: &'a Arc<Catalog>,
    /// What the configuration sets for groups.
    pub policies: &'a Arc<Policies>,
    /// Probable mistakes in the configuration.
    pub warnings: &'a [String],
    /// Whether the configuration names the label of GPU nodes.
    pub gpu_label: bool,
    /// The label by which the Cluster Autoscaler knows GPU nodes.
    pub gpu_label_key: &'a str,
    /// The cluster whose nodes are watched, or why there is none; `None` where they are not to be watched.
    pub kubernetes: Option<Result<&'a dyn KubernetesApi, &'a Arc<ClusterConfigError>>>,
    /// Whether what nodes report is learned.
    pub learns: bool,
    /// Whether options are sent to releases from 1.35 on.
    pub are_options_sent_since_135: bool,
    /// Whether the option `zeroOrMaxNodeScaling` is sent.
    pub is_zero_or_max_sent: bool,
    /// Whether new instances are listed at once.
    pub are_new_listed_at_once: bool,
    /// What is known about the Cluster Autoscaler.
    pub autoscaler: &'a Autoscaler,
    /// What nodes cost.
    pub prices: &'a Prices,
    /// What fetches prices from the clouds, unless the configuration turns this off.
    pub price_refresh: Option<&'a PriceRefresh>,
    /// The environment of this process.
    pub environment: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

/// Checks everything. Sources come in their order, the worst findings of each first.
pub async fn check(input: &CheckInput<'_>) -> Vec<Finding> {
    findings::findings(&collected::collect(input).await)
}
