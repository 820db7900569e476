//! The machine image of a launch option: what it shows, and what is assumed where it cannot be read.
//!
//! The image decides two things that change the whole template: whether a node runs Windows, and whether it is an EKS
//! node, which reserves more and has fewer pods than others. An estimate may be low but never high, so an image that
//! cannot be read never counts as proof that a node is not one of EKS.

use std::sync::Arc;

use super::super::sdk::cache::{FAILED_CALL_TTL, FAILED_TTL, IMMUTABLE_TTL};
use super::super::sdk::errors::refuses_caller;
use super::Launches;
use super::nodegroups::NodegroupDetails;
use super::settings::LaunchSettings;
use super::user_data::UserData;
use super::volumes::ImageDetails;
use crate::cloud::{CloudError, OperatingSystem};

/// What shows the kind of node that a group launches, apart from its image. `None` where nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Whether it is an EKS node.
    pub(super) eks: Option<bool>,
    pub(super) operating_system: Option<OperatingSystem>,
}

impl Evidence {
    /// What the group's tags and its managed node group show. `tagged` is the operating system that a tag names.
    pub(super) fn of_group(
        settings: &LaunchSettings,
        nodegroup: Option<&NodegroupDetails>,
        tagged: Option<OperatingSystem>,
    ) -> Self {
        let operating_system = nodegroup.and_then(|details| details.operating_system).or(tagged);
        Self { eks: settings.eks.then_some(true), operating_system }
    }

    /// Adds what the user data shows.
    pub(super) fn or(self, user_data: &UserData) -> Self {
        Self { eks: self.eks.or(user_data.eks), operating_system: self.operating_system.or(user_data.operating_system) }
    }

    /// Whether it shows all that decides the kind of node.
    fn is_complete(self) -> bool {
        self.eks.is_some() && self.operating_system.is_some()
    }
}

/// The image of a launch option, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LaunchImage {
    /// `None` without an image, or if it is unknown.
    pub(super) details: Option<Arc<ImageDetails>>,
    pub(super) windows: bool,
    pub(super) eks: bool,
    /// Whether it could not be read, but may be readable a little later.
    pub(super) is_provisional: bool,
}

impl LaunchImage {
    fn known(details: Arc<ImageDetails>) -> Self {
        Self { windows: details.windows, eks: details.eks, details: Some(details), is_provisional: false }
    }

    /// An image that may be any that the evidence does not exclude. EKS nodes leave the least to pods.
    fn unknown(evidence: Evidence) -> Self {
        Self {
            windows: evidence.operating_system == Some(OperatingSystem::Windows),
            eks: evidence.eks.unwrap_or(true),
            ..Self::default()
        }
    }
}

impl Launches {
    /// The image that a launch option names by ID or alias. Fails if it cannot be read at the moment, unless the launch
    /// spec can do without it: the evidence is complete, and the image does not decide which instance types are
    /// launched.
    pub(super) async fn launch_image(
        &self,
        alias: Option<&str>,
        evidence: Evidence,
        decides_types: bool,
    ) -> Result<LaunchImage, CloudError> {
        let Some(id) = alias else { return Ok(LaunchImage::default()) };
        if !id.starts_with("ami-") {
            let details = ImageDetails::from_alias(id).map(Arc::new);
            return Ok(details.map_or_else(|| LaunchImage::unknown(evidence), LaunchImage::known));
        }
        let is_needed = decides_types || !evidence.is_complete();
        match self.image(id).await {
            Ok(details) => Ok(LaunchImage::known(details)),
            Err(error) if may_pass(&error) && is_needed => Err(error),
            Err(error) => Ok(LaunchImage { is_provisional: may_pass(&error), ..LaunchImage::unknown(evidence) }),
        }
    }

    /// Reads an image. An image cannot change, so what an earlier read showed is used if it cannot be read again.
    async fn image(&self, id: &str) -> Result<Arc<ImageDetails>, CloudError> {
        let key = id.to_owned();
        if let Some(known) = self.images.get(&key) {
            return known;
        }
        let missing = || CloudError::not_found("DescribeImages", id, "the image does not exist");
        let described = self.ec2.describe_image(id).await.and_then(|image| image.ok_or_else(missing));
        let (image, ttl) = match (described, self.images.get_expired(&key)) {
            (Ok(image), _) => (Ok(Arc::new(ImageDetails::from(&image))), IMMUTABLE_TTL),
            (Err(error), Some(Ok(known))) => {
                tracing::warn!(image = %id, %error, "machine image cannot be read again; using what was read before");
                (Ok(known), FAILED_TTL)
            }
            (Err(error), _) if may_pass(&error) => {
                tracing::debug!(image = %id, %error, "machine image cannot be read at the moment");
                (Err(error), FAILED_CALL_TTL)
            }
            (Err(error), _) => {
                tracing::warn!(image = %id, %error, "machine image cannot be read with ec2:DescribeImages; assuming \
                    that it makes EKS nodes that run Linux, unless tags or user data show otherwise");
                (Err(error), FAILED_TTL)
            }
        };
        self.images.put(key, image.clone(), ttl);
        image
    }
}

/// Whether the image may be readable a little later.
fn may_pass(error: &CloudError) -> bool {
    error.may_pass() || refuses_caller(error)
}
