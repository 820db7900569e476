//! Reads versions of launch templates, and which numbered versions `$Default` and `$Latest` are at the moment.
//!
//! A numbered version cannot change, so its parameters are kept for long. `$Default` and `$Latest` can move at any
//! time: their numbers are read regularly, with one call for all launch templates in use.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use aws_sdk_ec2::types::LaunchTemplate;
use tokio::time::Instant;

use super::super::sdk::api::{Ec2Api, TEMPLATES, TemplateKey};
use super::super::sdk::cache::{FAILED_CALL_TTL, IMMUTABLE_TTL, MOVING_TTL, UNKNOWN_FORM_TTL};
use super::Launches;
use super::parameters::LaunchParameters;
use super::settings::TemplateVersion;
use crate::cloud::CloudError;
use crate::clouds::page_walk::PageWalk;

/// Most pages of one query of at most [`TEMPLATES`] launch templates.
const PAGES_MAX: usize = 50;

impl Launches {
    /// The parameters of a version of a launch template.
    pub(super) async fn launch_template(
        &self,
        template: &TemplateVersion,
    ) -> Result<Arc<LaunchParameters>, CloudError> {
        if let Some(data) = self.templates.get(template) {
            return Ok(data);
        }
        if template.is_fixed() {
            return self.read_version(template).await;
        }
        let number = self.version_numbers.current(template, &*self.ec2).await?;
        let Some(numbered) = number.map(|number| template.numbered(number)) else {
            return self.read_version(template).await;
        };
        match self.templates.get(&numbered) {
            Some(data) => Ok(data),
            None => self.read_version(&numbered).await,
        }
    }

    async fn read_version(&self, template: &TemplateVersion) -> Result<Arc<LaunchParameters>, CloudError> {
        let described = self.ec2.describe_launch_template_version(&template.key, &template.version).await?;
        let missing = || {
            let message = format!("the launch template has no version {}", template.version);
            CloudError::not_found("DescribeLaunchTemplateVersions", template.key.as_str(), message)
        };
        let described = described.ok_or_else(missing)?;
        let data = described.launch_template_data.as_ref().ok_or_else(missing)?;
        let data = Arc::new(LaunchParameters::from(data));
        let (key, ttl) = match described.version_number {
            _ if template.is_fixed() => (template.clone(), IMMUTABLE_TTL),
            None => (template.clone(), MOVING_TTL),
            Some(number) => {
                self.version_numbers.learn(template, number).await;
                (template.numbered(number), IMMUTABLE_TTL)
            }
        };
        self.templates.put(key, Arc::clone(&data), ttl);
        Ok(data)
    }
}

/// The numbers of the versions that `$Default` and `$Latest` are at the moment.
#[derive(Debug, Default)]
pub(super) struct VersionNumbers(tokio::sync::Mutex<State>);

#[derive(Debug, Default)]
struct State {
    known: HashMap<TemplateVersion, Known>,
    /// The error of the last call, which callers get until this time.
    failed: Option<(CloudError, Instant)>,
    /// AWS refused the call. It is not sent again before this time.
    suspended_until: Option<Instant>,
    /// Whether the refusal has been logged.
    is_logged: bool,
}

/// The state of `$Default` or `$Latest` of one launch template.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: i64,
    read_at: Instant,
    used_at: Instant,
}

impl VersionNumbers {
    /// The number of a version that can move, at most [`MOVING_TTL`] old. `None` where only a read of the version
    /// itself shows it: it was never read, the launch template does not exist any more, or AWS refuses to describe
    /// several at once.
    async fn current(&self, template: &TemplateVersion, ec2: &dyn Ec2Api) -> Result<Option<i64>, CloudError> {
        // A caller that waited for the lock finds the numbers that the one before it read.
        let mut state = self.0.lock().await;
        let now = Instant::now();
        let Some(known) = state.known.get_mut(template) else { return Ok(None) };
        known.used_at = now;
        if now < known.read_at + MOVING_TTL {
            return Ok(Some(known.number));
        }
        if state.suspended_until.is_some_and(|until| now < until) {
            return Ok(None);
        }
        if let Some((error, until)) = &state.failed
            && now < *until
        {
            return Err(error.clone());
        }
        state.renew(ec2, now).await?;
        Ok(state.known.get(template).map(|known| known.number))
    }

    /// Stores the number that a read of the version itself has shown.
    async fn learn(&self, template: &TemplateVersion, number: i64) {
        let now = Instant::now();
        self.0.lock().await.known.insert(template.clone(), Known { number, read_at: now, used_at: now });
    }
}

impl State {
    /// Reads all numbers again. Those that cannot be read this way are forgotten.
    async fn renew(&mut self, ec2: &dyn Ec2Api, now: Instant) -> Result<(), CloudError> {
        self.known.retain(|_, known| now < known.used_at + IMMUTABLE_TTL);
        let ids: HashSet<&str> = self.known.keys().filter_map(TemplateVersion::template_id).collect();
        let mut ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
        ids.sort_unstable();
        let described = describe_all(ec2, &ids).await;
        self.failed = None;
        match described {
            Ok(described) => {
                self.is_logged = false;
                self.known.retain(|template, known| {
                    let described = template.template_id().and_then(|id| described.get(id));
                    let number = described.and_then(|described| template.number_in(described));
                    if let Some(number) = number {
                        *known = Known { number, read_at: now, ..*known };
                    }
                    number.is_some()
                });
                Ok(())
            }
            // One launch template that does not exist fails the call for all. The next call includes those that can be
            // read one by one again.
            Err(CloudError::NotFound(_)) => {
                self.known.clear();
                Ok(())
            }
            Err(error @ (CloudError::Denied(_) | CloudError::Refused(_))) => {
                if !std::mem::replace(&mut self.is_logged, true) {
                    tracing::warn!(%error, "launch templates cannot be described together; reading the versions of \
                        each one by itself");
                }
                self.suspended_until = Some(now + UNKNOWN_FORM_TTL);
                self.known.clear();
                Ok(())
            }
            Err(error) => {
                self.failed = Some((error.clone(), now + FAILED_CALL_TTL));
                Err(error)
            }
        }
    }
}

async fn describe_all(ec2: &dyn Ec2Api, ids: &[String]) -> Result<HashMap<String, LaunchTemplate>, CloudError> {
    let mut found = HashMap::new();
    for batch in ids.chunks(TEMPLATES) {
        let (mut token, mut walk) = (None, PageWalk::default());
        for page in 1.. {
            let described = ec2.describe_launch_templates(batch, token).await?;
            let templates = described.launch_templates.unwrap_or_default().into_iter();
            found.extend(templates.filter_map(|template| Some((template.launch_template_id.clone()?, template))));
            let next = walk.token(described.next_token);
            token = next.map_err(|why| CloudError::unintelligible("DescribeLaunchTemplates", "all", why))?;
            if token.is_none() {
                break;
            }
            if page >= PAGES_MAX {
                let message = format!("more than {PAGES_MAX} pages");
                return Err(CloudError::unintelligible("DescribeLaunchTemplates", "all", message));
            }
        }
    }
    Ok(found)
}

impl TemplateVersion {
    fn numbered(&self, number: i64) -> Self {
        Self { key: self.key.clone(), version: number.to_string() }
    }

    // EC2 Auto Scaling returns the ID of every launch template, whether the group was given its ID or its name.
    fn template_id(&self) -> Option<&str> {
        match &self.key {
            TemplateKey::Id(id) => Some(id),
            TemplateKey::Name(_) => None,
        }
    }

    fn number_in(&self, template: &LaunchTemplate) -> Option<i64> {
        match self.version.as_str() {
            "$Default" => template.default_version_number,
            "$Latest" => template.latest_version_number,
            _ => None,
        }
    }
}
