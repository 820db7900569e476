//! Settings of an AWS source, from headcount.yaml or from the flags of the in-tree provider.

use std::path::Path;

use super::error::{ConfigError, Located, Place, read_file};
use super::source::{SourceContext, each, located, node_groups, warn_if_idle};
use super::yaml::{checked, optional};
use super::{discovery, file, scalar};
use crate::config::settings::aws::{AssumeRole, Settings, is_region};

/// Validates `aws:` in headcount.yaml.
pub(super) fn from_file(
    aws: &file::Aws,
    source: &str,
    path: &Path,
    context: &mut SourceContext<'_>,
) -> Result<Settings, ConfigError> {
    let region = optional(aws.region.as_ref(), path, |region| match region.trim() {
        "" => {
            Err("the region is empty; write, for example, us-east-1, or remove the key to use the environment's region"
                .to_owned())
        }
        region if is_region(region) => Ok(region.to_owned()),
        region => Err(format!("{region:?} is not the name of a region; write, for example, us-east-1")),
    })?;
    let endpoint = optional(aws.endpoint.as_ref(), path, |text| scalar::endpoint(text))?;
    let groups = groups(&located(&aws.node_groups, path), &located(&aws.auto_discovery, path), source, context)?;
    let profile = optional(aws.profile.as_ref(), path, |profile| match profile.trim() {
        "" => Err("the profile is empty; write the name of a profile in the shared AWS files".to_owned()),
        profile => Ok(profile.to_owned()),
    })?;
    let assume_role = aws.assume_role.as_ref().map(|role| assume_role(role, path)).transpose()?;
    Ok(Settings { region, endpoint, profile, assume_role, ..groups })
}

/// The session's name where none is configured.
const SESSION_NAME: &str = "headcount";

fn assume_role(role: &file::AssumeRole, path: &Path) -> Result<AssumeRole, ConfigError> {
    let arn = checked(&role.arn, path, |arn| match arn.trim() {
        arn if arn.starts_with("arn:") && arn.contains(":role/") => Ok(arn.to_owned()),
        _ => Err(format!(
            "{arn:?} is not the ARN of a role; write, for example, arn:aws:iam::123456789012:role/headcount"
        )),
    })?;
    // AWS's own limits for both.
    let allowed = |text: &str, more: &str, letters: std::ops::RangeInclusive<usize>| {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || more.contains(letter);
        letters.contains(&text.len()) && text.chars().all(is_allowed)
    };
    let external_id = optional(role.external_id.as_ref(), path, |id| match id.as_str() {
        id if allowed(id, "_+=,.@:/-", 2..=1224) => Ok(id.to_owned()),
        _ => Err(format!("{id:?} is not an external ID; write 2 to 1224 of a-z, A-Z, 0-9 and _+=,.@:/-")),
    })?;
    let session_name = optional(role.session_name.as_ref(), path, |name| match name.as_str() {
        name if allowed(name, "_+=,.@-", 2..=64) => Ok(name.to_owned()),
        _ => Err(format!("{name:?} is not a session name; write 2 to 64 of a-z, A-Z, 0-9 and _+=,.@-")),
    })?;
    Ok(AssumeRole { arn, external_id, session_name: session_name.unwrap_or_else(|| SESSION_NAME.to_owned()) })
}

/// Parses the groups of a source, from the file or from flags.
pub(super) fn groups(
    explicit: &[Located<String>],
    discovered: &[Located<String>],
    source: &str,
    context: &mut SourceContext<'_>,
) -> Result<Settings, ConfigError> {
    let node_groups = node_groups(explicit, source, context)?;
    let auto_discovery = each(discovered, discovery::tag_query)?;
    warn_if_idle(node_groups.len(), auto_discovery.len(), source, context);
    Ok(Settings { node_groups, auto_discovery, ..Settings::default() })
}

/// Reads the in-tree provider's cloud-config, an INI file. The Cluster Autoscaler uses only its endpoints, which the
/// AWS SDK takes from the environment. The warning says which variable to set.
pub(super) fn warn_about_cloud_config(
    path: &Path,
    flag: &Place,
    context: &mut SourceContext<'_>,
) -> Result<(), ConfigError> {
    let text = read_file(path, flag)?;
    let mut overridden = ServiceOverride::default();
    let mut ignored = Vec::new();
    let mut section = String::new();
    for (line, number) in text.lines().zip(1..) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[') {
            let Some((name, _)) = name.split_once(']') else {
                // Columns count characters, from 1.
                let indent = line.chars().take_while(|letter| letter.is_whitespace()).count() as u64;
                let place = Place::Text { file: path.to_owned(), line: number, column: indent + 1 };
                return Err(ConfigError::at(
                    &place,
                    format!("{trimmed:?} has no closing bracket; write [Section] or [Section \"name\"]"),
                ));
            };
            context.warnings.extend(std::mem::take(&mut overridden).warning(path));
            section = name.split_whitespace().next().unwrap_or_default().to_owned();
            continue;
        }
        // A key without a value means true.
        let (key, value) = trimmed.split_once('=').unwrap_or((trimmed, "true"));
        let (key, value) = (key.trim(), value_of(value));
        match (section.to_ascii_lowercase().as_str(), key.to_ascii_lowercase().as_str()) {
            ("serviceoverride", "service") => value.clone_into(&mut overridden.service),
            ("serviceoverride", "url") => value.clone_into(&mut overridden.url),
            // The region and signing keys of an override have no use without the override.
            ("serviceoverride", _) => {}
            _ => ignored.push(format!("{section}.{key}")),
        }
    }
    context.warnings.extend(overridden.warning(path));
    if !ignored.is_empty() {
        context.warnings.push(format!(
            "{}: these keys have no effect in Headcount: {}",
            path.display(),
            ignored.join(", ")
        ));
    }
    Ok(())
}

/// A value without its quotes, or without the comment after it.
fn value_of(text: &str) -> &str {
    let text = text.trim();
    match text.strip_prefix('"').and_then(|text| text.split_once('"')) {
        Some((quoted, _)) => quoted,
        None => text.split([';', '#']).next().unwrap_or_default().trim(),
    }
}

#[derive(Default)]
struct ServiceOverride {
    service: String,
    url: String,
}

impl ServiceOverride {
    fn warning(self, path: &Path) -> Option<String> {
        let variable = match self.service.to_ascii_lowercase().as_str() {
            "" => return None,
            "autoscaling" => "AWS_ENDPOINT_URL_AUTO_SCALING",
            "ec2" => "AWS_ENDPOINT_URL_EC2",
            "eks" => "AWS_ENDPOINT_URL_EKS",
            // Headcount calls no other service.
            _ => return None,
        };
        // A user and a password in a URL are a secret, and Headcount takes no such URL.
        let value = if self.url.contains('@') {
            " to its URL without the user and the password"
        } else {
            &format!("={}", self.url)
        };
        let service = &self.service;
        Some(format!(
            "{}: the ServiceOverride of {service:?} is not used; set the environment variable {variable}{value} instead",
            path.display()
        ))
    }
}
