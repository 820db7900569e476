//! What is known about the Cluster Autoscaler: its release, its flags and when it last called.

mod findings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub(super) use findings::{SUBJECT, findings};

use super::DeploymentError;
use crate::admin::statusz::Document;
use crate::cloud::go_syntax::parse_duration;
use crate::cloud::in_tree::IGNORE_LABEL_GONE;
use crate::grpc::Dialect;
use crate::kubernetes::{AutoscalerContainer, Flag, parse_flags};

/// The defaults of --initial-node-group-backoff-duration and --max-node-group-backoff-duration.
const BACKOFF_INITIAL: Duration = Duration::from_secs(5 * 60);
const BACKOFF_MAX: Duration = Duration::from_secs(30 * 60);

/// Why the arguments about the Cluster Autoscaler cannot be used.
#[derive(Debug, Error)]
pub enum AutoscalerError {
    /// The manifest is not YAML or JSON.
    #[error("--ca-deployment {0}: not valid YAML: {1}")]
    Syntax(String, String),
    /// The manifest has no container that runs the Cluster Autoscaler.
    #[error("--ca-deployment {0}: no container runs cluster-autoscaler; pass the manifest of its Deployment")]
    NoContainer(String),
    /// The version is not of the form 1.34 or 1.34.2.
    #[error("--ca-version {0}: not a release; write it as 1.34")]
    Version(String),
}

/// The Cluster Autoscaler, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Autoscaler {
    /// Its release.
    pub version: Option<(u32, u32)>,
    /// Its flags, in order, where they are known.
    pub flags: Option<Vec<Flag>>,
    /// What the running server knows about its calls.
    pub calls: Option<Calls>,
    /// Why the running server cannot be read, if it cannot.
    pub server_unread: Option<String>,
    /// Why the running server serves groups as ones that cannot grow, by their IDs.
    pub cannot_grow: BTreeMap<String, String>,
    /// Why the cloud refused the running server's launches, by the IDs of the groups.
    pub launches_refused: BTreeMap<String, String>,
    /// Where release and flags come from, as text.
    pub origin: Option<String>,
    /// Why its Deployment is not known, if it was looked for.
    pub unread: Option<Arc<DeploymentError>>,
}

/// What a running server knows about the Cluster Autoscaler's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// The server.
    pub server: String,
    /// How long ago the last call was; `None` if there was none.
    pub age: Option<Duration>,
    /// Whether there has been none for so long that another replica must be the leader.
    pub is_standby: bool,
    /// The releases that the requests look like.
    pub dialect: Option<Dialect>,
}

impl Autoscaler {
    /// Learns the release and the flags from a manifest of the Deployment, alone or in a list. `name` is the file's.
    ///
    /// # Errors
    ///
    /// If the manifest is not YAML, or no container in it runs the Cluster Autoscaler.
    pub fn read_manifest(&mut self, text: &str, name: &str) -> Result<(), AutoscalerError> {
        let found = AutoscalerContainer::from_manifest(text);
        let found = found.map_err(|error| AutoscalerError::Syntax(name.to_owned(), error))?;
        let container = found.ok_or_else(|| AutoscalerError::NoContainer(name.to_owned()))?;
        self.read_container(&container, name.to_owned());
        Ok(())
    }

    /// Learns the release and the flags from its container.
    pub fn read_container(&mut self, container: &AutoscalerContainer, origin: String) {
        self.version = container.tag.as_deref().and_then(release);
        self.flags = Some(parse_flags(&container.arguments));
        self.origin = Some(origin);
    }

    /// Learns from a running server when the Cluster Autoscaler last called, which releases its requests look like, and
    /// which groups it cannot choose.
    pub fn read_server(&mut self, server: &str, document: &Document) {
        let seen = &document.autoscaler;
        self.calls = Some(Calls {
            server: server.to_owned(),
            age: seen.age_seconds.map(Duration::from_secs),
            is_standby: document.standby,
            dialect: seen.dialect.as_deref().and_then(Dialect::named),
        });
        let blocked = document.groups.iter().filter_map(|group| Some((group.id.clone(), group.cannot_grow.clone()?)));
        self.cannot_grow = blocked.collect();
        let refused =
            document.groups.iter().filter_map(|group| Some((group.id.clone(), group.launches_refused.clone()?)));
        self.launches_refused = refused.collect();
    }

    /// Sets the release, which overrides that of the Deployment.
    ///
    /// # Errors
    ///
    /// If the text is not a release.
    pub fn set_version(&mut self, version: &str) -> Result<(), AutoscalerError> {
        self.version = Some(release(version).ok_or_else(|| AutoscalerError::Version(version.to_owned()))?);
        Ok(())
    }

    /// Whether it chooses groups by their price; `None` where its flags are not known.
    pub(super) fn uses_prices(&self) -> Option<bool> {
        self.flags.as_ref()?;
        Some(self.values("expander").any(|value| value.split(',').any(|expander| expander.trim() == "price")))
    }

    /// The labels that alone decide whether groups are alike.
    pub(super) fn balancing_labels(&self) -> impl Iterator<Item = &str> {
        self.values("balancing-label")
    }

    /// The labels to ignore in addition to the usual ones.
    pub(super) fn ignored_labels(&self) -> impl Iterator<Item = &str> {
        let has_effect = self.version.is_none_or(|version| version < IGNORE_LABEL_GONE);
        self.values("balancing-ignore-label").filter(move |_| has_effect)
    }

    /// The value of a flag that is a share.
    pub(super) fn ratio(&self, flag: &str) -> Option<f64> {
        self.values(flag).last()?.parse().ok()
    }

    /// For how long it backs off a group at first, and at most. Each failure soon after a backoff doubles the time.
    pub fn backoff(&self) -> (Duration, Duration) {
        let of = |flag: &str, default| self.values(flag).last().and_then(parse_duration).unwrap_or(default);
        (of("initial-node-group-backoff-duration", BACKOFF_INITIAL), of("max-node-group-backoff-duration", BACKOFF_MAX))
    }

    /// The form of its requests: that of its release, or else what the server saw.
    fn dialect(&self) -> Option<Dialect> {
        self.version.map(Dialect::of_release).or_else(|| self.calls.as_ref()?.dialect)
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let flags = self.flags.iter().flatten().filter(move |flag| flag.name == name);
        flags.map(|flag| flag.value().unwrap_or("true"))
    }

    /// Whether a switch is on; `None` where it is not given.
    fn switch(&self, name: &str) -> Option<bool> {
        self.flags.iter().flatten().rfind(|flag| flag.name == name).map(Flag::is_on)
    }

    fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }
}

/// `v1.34.2` or `1.34` as numbers.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
