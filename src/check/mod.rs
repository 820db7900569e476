//! What is wrong, or works against the Cluster Autoscaler, in the configuration, the credentials and the groups, and what to
//! do about it.
//!
//! `collected` asks the clouds, each for itself, and writes nothing; `findings` decides what to say of it, and is pure.

mod collected;
mod finding;
mod findings;
mod groups;

use std::sync::Arc;

pub use finding::{Finding, Severity};

use crate::cloud::ReadOnlyCloud;
use crate::fleet::Policies;
use crate::instance_types::Catalog;
use crate::kubernetes::KubernetesApi;

/// What is to be checked.
pub struct CheckInput<'a> {
    /// The sources, by name.
    pub sources: &'a [(Arc<str>, ReadOnlyCloud)],
    /// LaunchSpec types.
    pub catalog: &'a Arc<Catalog>,
    /// The configuration's say on groups.
    pub policies: &'a Arc<Policies>,
    /// What reading the configuration found odd.
    pub warnings: &'a [String],
    /// Whether the configuration names the label of GPU nodes.
    pub gpu_label: bool,
    /// The cluster to learn from, or why there is none; `None` where nothing is to be learned.
    pub kubernetes: Option<Result<&'a dyn KubernetesApi, &'a str>>,
}

/// Checks everything. Sources come in their order, and what is worst of each first.
pub async fn check(input: &CheckInput<'_>) -> Vec<Finding> {
    findings::findings(&collected::collect(input).await)
}
