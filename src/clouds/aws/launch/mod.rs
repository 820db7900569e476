//! What a group launches: from its launch templates, launch configuration, images and tags to a
//! [`LaunchSpec`](crate::cloud::LaunchSpec).
//!
//! A group's [`LaunchSettings`] list one or more [`LaunchOption`](settings::LaunchOption)s. `resolve` looks each of
//! them up, which gives a [`ResolvedLaunch`](merged::ResolvedLaunch), and `merged` reduces these to one launch spec.

mod eks_contact;
mod fingerprint;
mod images;
mod instance_types;
mod merged;
mod nodegroups;
mod parameters;
mod requirements;
mod resolve;
mod settings;
pub(super) mod tags;
mod template_versions;
mod user_data;
mod volumes;

use std::sync::Arc;

use self::eks_contact::EksContact;
#[cfg(test)]
pub(super) use self::eks_contact::NODEGROUP_PATIENCE;
pub(super) use self::fingerprint::launch_fingerprint;
use self::nodegroups::{KnownNodegroup, NodegroupKey};
use self::parameters::LaunchParameters;
pub(super) use self::settings::LaunchSettings;
use self::settings::TemplateVersion;
pub(super) use self::tags::hints;
use self::template_versions::VersionNumbers;
pub(super) use self::user_data::parse as parse_user_data;
use self::volumes::ImageDetails;
use super::sdk::api::{AutoScalingApi, Ec2Api, EksApi};
use super::sdk::cache::Cache;
use super::sdk::connect::Clients;
use crate::cloud::{CloudError, InstanceType};

/// Looks up what groups launch, and caches the results.
pub(super) struct Launches {
    region: String,
    scaling: Arc<dyn AutoScalingApi>,
    pub(super) ec2: Arc<dyn Ec2Api>,
    pub(super) eks: Arc<dyn EksApi>,
    configurations: Cache<String, Arc<LaunchParameters>>,
    templates: Cache<TemplateVersion, Arc<LaunchParameters>>,
    version_numbers: VersionNumbers,
    images: Cache<String, Result<Arc<ImageDetails>, CloudError>>,
    types_by_requirements: Cache<String, Arc<[String]>>,
    nodegroups: Cache<NodegroupKey, KnownNodegroup>,
    eks_contact: EksContact,
    /// Instance types that were looked up; `None` for those that EC2 does not know.
    types: Cache<String, Option<InstanceType>>,
    /// Locked while types are looked up. Counts the lookups in a row that were denied or throttled.
    type_lookups: tokio::sync::Mutex<u32>,
    /// The error of the last lookup, while lookups are suspended because of it.
    refused_lookup: Cache<(), CloudError>,
}

impl Launches {
    /// Makes no call yet.
    pub(super) fn new(clients: Clients) -> Self {
        let Clients { region, scaling, ec2, eks, .. } = clients;
        Self {
            region,
            scaling,
            ec2,
            eks,
            configurations: Cache::default(),
            templates: Cache::default(),
            version_numbers: VersionNumbers::default(),
            images: Cache::default(),
            types_by_requirements: Cache::default(),
            nodegroups: Cache::default(),
            eks_contact: EksContact::default(),
            types: Cache::default(),
            type_lookups: tokio::sync::Mutex::default(),
            refused_lookup: Cache::default(),
        }
    }
}
