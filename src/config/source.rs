//! `sources:`, the clouds to watch.

use std::collections::BTreeSet;
use std::path::Path;

use serde_saphyr::Spanned;

use super::error::{ConfigError, Located, Place};
use super::file::{self, Text};
use super::settings::simulated;
use super::yaml::{checked, optional, place};
use super::{Environment, scalar};
use crate::cloud::NodeGroupSpec;
#[cfg(feature = "aws")]
use crate::config::settings::aws;
#[cfg(feature = "azure")]
use crate::config::settings::azure;

/// One cloud account or subscription, and region or resource group, to watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its name: `a-z`, `0-9` and `-`.
    pub name: String,
    /// Its cloud, and the settings to connect to it.
    pub cloud: CloudSettings,
}

/// The cloud of a source, and its settings.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there are only a few, and they live as long as the process")]
pub enum CloudSettings {
    /// AWS Auto Scaling groups.
    #[cfg(feature = "aws")]
    Aws(aws::Settings),
    /// Azure VM scale sets.
    #[cfg(feature = "azure")]
    Azure(azure::Settings),
    /// An in-memory cloud.
    Simulated(simulated::Settings),
}

/// The environment, and the warnings found so far.
pub(super) struct SourceContext<'a> {
    pub(super) environment: Environment<'a>,
    pub(super) warnings: Vec<String>,
}

impl SourceContext<'_> {
    /// Returns the warnings in order, without duplicates: each source that reads the environment repeats its warnings.
    pub(super) fn into_warnings(self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        self.warnings.into_iter().filter(|warning| seen.insert(warning.clone())).collect()
    }
}

const EXAMPLE: &str =
    "write, for example, sources: [{name: us, aws: {region: us-east-1, nodeGroups: [\"1:10:my-asg\"]}}]";

/// Checks `sources:`.
pub(super) fn all(
    sources: Option<Spanned<Vec<Spanned<file::Source>>>>,
    path: &Path,
    context: &mut SourceContext<'_>,
) -> Result<Vec<Source>, ConfigError> {
    let Some(sources) = sources else {
        return Err(ConfigError::at(
            &Place::File(path.to_owned()),
            format!("the key \"sources\" is missing; {EXAMPLE}"),
        ));
    };
    if sources.value.is_empty() {
        return Err(ConfigError::at(&place(&sources, path), format!("there are no sources; {EXAMPLE}")));
    }
    let mut names = BTreeSet::new();
    let mut checked_sources = Vec::new();
    for source in sources.value {
        let name = checked(&source.value.name, path, |name| source_name(name))?;
        if !names.insert(name.clone()) {
            let place = place(&source.value.name, path);
            return Err(ConfigError::at(&place, format!("two sources have the name {name:?}; choose another one")));
        }
        let cloud = cloud_settings(source, &name, path, context)?;
        checked_sources.push(Source { name, cloud });
    }
    Ok(checked_sources)
}

fn source_name(name: &str) -> Result<String, String> {
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if !name.is_empty() && name.chars().all(allowed) {
        return Ok(name.to_owned());
    }
    Err(format!("{name:?} is not a valid name for a source; use only a-z, 0-9 and -"))
}

fn cloud_settings(
    source: Spanned<file::Source>,
    name: &str,
    path: &Path,
    context: &mut SourceContext<'_>,
) -> Result<CloudSettings, ConfigError> {
    let place = place(&source, path);
    match (source.value.aws, source.value.azure, source.value.simulated) {
        #[cfg(feature = "aws")]
        (Some(aws), None, None) => super::aws::from_file(&aws.value, name, path, context).map(CloudSettings::Aws),
        #[cfg(feature = "azure")]
        (None, Some(azure), None) => super::azure::from_file(&azure, name, path, context).map(CloudSettings::Azure),
        (None, None, Some(simulated)) => self::simulated(&simulated.value, path).map(CloudSettings::Simulated),
        (None, None, None) => Err(ConfigError::at(
            &place,
            format!("source {name:?} names no cloud; write one of aws, azure or simulated, with its keys or {{}}"),
        )),
        #[cfg(not(feature = "aws"))]
        (Some(_), None, None) => Err(ConfigError::at(&place, "this build of Headcount does not support AWS")),
        #[cfg(not(feature = "azure"))]
        (None, Some(_), None) => Err(ConfigError::at(&place, "this build of Headcount does not support Azure")),
        _ => Err(ConfigError::at(
            &place,
            format!(
                "source {name:?} names more than one cloud; write one of aws, azure or simulated, and a source for each"
            ),
        )),
    }
}

/// More groups and instances than the largest installations have, and few enough for one process.
const SIMULATED_GROUPS_MAX: u32 = 10_000;
const SIMULATED_INSTANCES_MAX: u32 = 1_000_000;

fn simulated(written: &file::Simulated, path: &Path) -> Result<simulated::Settings, ConfigError> {
    let number = |value: &Option<Spanned<u32>>, most: u32| {
        let within = |value: &u32| match *value {
            value if value <= most => Ok(value),
            value => Err(format!("{value} is too many; write a number from 0 to {most}")),
        };
        optional(value.as_ref(), path, within).map(Option::unwrap_or_default)
    };
    let error_rate = optional(written.error_rate.as_ref(), path, |share| scalar::fraction(*share))?;
    Ok(simulated::Settings {
        seed: written.seed,
        groups: number(&written.groups, SIMULATED_GROUPS_MAX)?,
        instances: number(&written.instances, SIMULATED_INSTANCES_MAX)?,
        error_rate: error_rate.unwrap_or_default(),
    })
}

/// Returns the texts of a list with their places.
pub(super) fn located(texts: &[Text], path: &Path) -> Vec<Located<String>> {
    texts.iter().map(|text| Located { value: text.value.clone(), place: place(text, path) }).collect()
}

/// Parses each text. An error gets the place of its text.
pub(super) fn each<T>(
    texts: &[Located<String>],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, ConfigError> {
    texts.iter().map(|text| read(&text.value).map_err(|message| ConfigError::at(&text.place, message))).collect()
}

/// Parses a source's groups, `min:max:name`. Of two entries for one group the first is used, as in-tree.
pub(super) fn node_groups(
    specs: &[Located<String>],
    source: &str,
    context: &mut SourceContext<'_>,
) -> Result<Vec<NodeGroupSpec>, ConfigError> {
    let (mut groups, mut names) = (Vec::<NodeGroupSpec>::new(), BTreeSet::new());
    for (spec, written) in each(specs, scalar::node_group)?.into_iter().zip(specs) {
        if !names.insert(spec.name.clone()) {
            context.warnings.push(format!(
                "{}: node group {:?} is listed twice in source {source:?}; the first entry is used",
                written.place, spec.name
            ));
        } else {
            groups.push(spec);
        }
    }
    Ok(groups)
}

/// Warns about a source that can never have a group.
pub(super) fn warn_if_idle(node_groups: usize, discoveries: usize, source: &str, context: &mut SourceContext<'_>) {
    if node_groups + discoveries == 0 {
        context.warnings.push(format!(
            "source {source:?} has neither nodeGroups nor autoDiscovery, so it never serves a group; add one of them"
        ));
    }
}
