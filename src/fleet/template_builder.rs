//! Builds templates in the background. The cloud returns the launch spec of a new instance, instance types are looked
//! up once and cached, and the finished template goes to the group's keeper, which publishes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::limits::{READ_LIMIT, TEMPLATE_BUILDS, TEMPLATE_QUEUE, TYPES_LIMIT, WAIT_FOR_ALL_SOURCES};
use super::policy::LivePolicies;
use super::snapshot::GroupKey;
use crate::cloud::{CloudError, GroupReading, LaunchSpec, ReadOnlyCloud, ZoneName};
use crate::instance_types::Catalog;
use crate::tasks::{TaskKind, Tasks};
use crate::template::{self, NodeTemplate, TemplateError};

/// A template to build.
#[derive(Debug)]
pub(super) struct TemplateJob {
    /// The group as it was read.
    pub reading: GroupReading,
    /// The zone to describe, where each is served.
    pub zone: Option<ZoneName>,
    /// The ID it is served under.
    pub id: Arc<str>,
    /// Where the template goes.
    pub reply: oneshot::Sender<BuiltTemplate>,
}

/// The result of building a template.
#[derive(Debug)]
pub struct BuiltTemplate {
    /// The template, or why there is none.
    pub template: Result<NodeTemplate, String>,
    /// The cloud's error, if that is why there is no template.
    pub cause: Option<CloudError>,
    /// Whether the cloud failed to return something that it may return a little later.
    pub retry_soon: bool,
    /// Whether what the group launches can change without the group changing.
    pub is_floating: bool,
}

/// Builds the templates of one source's groups.
#[derive(Clone)]
pub struct TemplateBuilder {
    /// The source.
    pub source: Arc<str>,
    /// The source's cloud.
    pub cloud: ReadOnlyCloud,
    /// Instance types.
    pub catalog: Arc<Catalog>,
    /// What the configuration sets for groups.
    pub policies: Arc<LivePolicies>,
    /// Whether the last lookup of instance types failed, so that a thousand groups do not log it a thousand times.
    pub is_lookup_failing: Arc<AtomicBool>,
    /// Whether what was learned before this process started is in the catalog, or cannot be read.
    pub remembered: watch::Receiver<bool>,
    /// Whether a template waits for what cannot be read at the moment. One that a command prints does not.
    pub waits: bool,
}

impl TemplateBuilder {
    /// Starts building; ends with the last sender.
    pub(super) fn start(self, tasks: &Tasks) -> mpsc::Sender<TemplateJob> {
        let (jobs, mut queue) = mpsc::channel(TEMPLATE_QUEUE);
        let (mut restarts, tasks) = (tasks.supervise(TaskKind::Templates, &self.source), tasks.clone());
        tokio::spawn(async move { while restarts.run(self.run(&mut queue, &tasks)).await {} });
        jobs
    }

    async fn run(&self, queue: &mut mpsc::Receiver<TemplateJob>, tasks: &Tasks) {
        let places = Arc::new(Semaphore::new(TEMPLATE_BUILDS));
        loop {
            // The place comes first, so that every job that was taken is built.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Some(job) = queue.recv().await else { return };
            let (builder, tasks) = (self.clone(), tasks.clone());
            tokio::spawn(async move {
                builder.wait_for_figures().await;
                let building =
                    tasks.guard(TaskKind::SideTask, builder.build_one(&job.id, &job.reading, job.zone.as_ref())).await;
                let built = building.unwrap_or_else(|panic| {
                    tasks.note(TaskKind::SideTask, &format!("template of {}", job.id));
                    tracing::error!(
                        group = &*job.id,
                        panic,
                        "building the node template panicked; it will be tried again"
                    );
                    let reason = "a bug in Headcount stopped the build; see the log, and report it".to_owned();
                    BuiltTemplate { template: Err(reason), cause: None, retry_soon: true, is_floating: false }
                });
                let _keeper_ended = job.reply.send(built);
                drop(place);
            });
        }
    }

    /// Waits for the figures that an earlier process learned. Without them, the first templates could promise more than
    /// nodes have.
    async fn wait_for_figures(&self) {
        let mut remembered = self.remembered.clone();
        let _in_time = timeout(WAIT_FOR_ALL_SOURCES, remembered.wait_for(|remembered| *remembered)).await;
    }

    /// Builds the template of the group, or of a zone of it, that is served under this ID, or says why it cannot be
    /// built.
    pub async fn build_one(&self, id: &str, reading: &GroupReading, zone: Option<&ZoneName>) -> BuiltTemplate {
        let building = timeout(READ_LIMIT * 2, self.try_build(id, reading, zone)).await;
        building.unwrap_or_else(|_elapsed| {
            let reason = "the cloud did not describe what the node group launches in time";
            let cause = Some(CloudError::unreachable("launch spec", reading.name.as_str(), reason));
            BuiltTemplate { template: Err(reason.to_owned()), cause, retry_soon: true, is_floating: false }
        })
    }

    async fn try_build(&self, id: &str, reading: &GroupReading, zone: Option<&ZoneName>) -> BuiltTemplate {
        let mut launch = match self.cloud.launch_spec(reading).await {
            Ok(launch) => launch,
            Err(error) => {
                let retry_soon = error.may_pass();
                let template = Err(error.to_string());
                return BuiltTemplate { template, cause: Some(error), retry_soon, is_floating: false };
            }
        };
        if let Some(reason) = awaited(&launch).filter(|_| self.waits) {
            return BuiltTemplate { template: Err(reason), cause: None, retry_soon: true, is_floating: false };
        }
        match zone {
            Some(zone) => launch.zones = vec![zone.to_string()],
            None => leave_out(&mut launch.zones, &reading.zones.withdrawn),
        }
        let looked_up = self.look_up(&launch).await;
        let retry_soon = launch.is_provisional || looked_up.is_err_and(|error| error.may_pass());
        let template = self.describe(id, reading, zone, &launch).map_err(|error| error.to_string());
        BuiltTemplate { template, cause: None, retry_soon, is_floating: launch.is_floating }
    }

    fn describe(
        &self,
        id: &str,
        reading: &GroupReading,
        zone: Option<&ZoneName>,
        launch: &LaunchSpec,
    ) -> Result<NodeTemplate, TemplateError> {
        let key = |name| GroupKey { source: Arc::clone(&self.source), name };
        let policy = self.policies.of(&key(reading.name.clone()));
        let served = key(zone.map_or_else(|| reading.name.clone(), |zone| reading.name.in_zone(zone)));
        let catalog = self.catalog.for_group(&served.to_string());
        let input = template::Input {
            group: id,
            name: reading.name.as_str(),
            family: self.cloud.family(),
            hints: &reading.hints,
            launch,
            catalog: &catalog,
            overrides: &policy.overrides,
        };
        template::build(&input)
    }

    /// Looks up the instance types that have not been looked up yet. If that fails, the tables are used.
    async fn look_up(&self, launch: &LaunchSpec) -> Result<(), CloudError> {
        let family = self.cloud.family();
        let unknown: Vec<String> =
            launch.types.iter().filter(|name| !self.catalog.knows_live(family, name)).cloned().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let looked_up = timeout(TYPES_LIMIT, self.cloud.instance_types(&unknown)).await.unwrap_or_else(|_elapsed| {
            let why = format!("no response within {} s", TYPES_LIMIT.as_secs());
            Err(CloudError::unreachable("instance types", &self.source, why))
        });
        let has_failed_before = self.is_lookup_failing.swap(looked_up.is_err(), Ordering::Relaxed);
        let types = looked_up.inspect_err(|error| {
            if has_failed_before {
                tracing::debug!(?unknown, %error, "instance type lookup failed again");
            } else {
                tracing::warn!(?unknown, %error, "instance type lookup failed; using the shipped and user tables");
            }
        })?;
        self.catalog.insert_live(family, &types);
        Ok(())
    }
}

/// What the template had better wait for, and why.
fn awaited(launch: &LaunchSpec) -> Option<String> {
    let unread = launch.unread.as_ref().filter(|unread| unread.is_momentary)?;
    Some(format!("the {} cannot be read at the moment: {}", unread.what, unread.reason))
}

/// Leaves out the zones that the cloud launches nothing in at the moment: a template with such a zone would make CA grow the
/// group for a volume in it. Where all are withdrawn, the group cannot grow, and none is left out.
fn leave_out(zones: &mut Vec<String>, withdrawn: &BTreeMap<String, String>) {
    if zones.iter().any(|zone| !withdrawn.contains_key(zone)) {
        zones.retain(|zone| !withdrawn.contains_key(zone));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::Unread;

    #[test]
    fn a_template_waits_for_what_may_be_readable_in_a_moment_and_for_nothing_else() {
        let unread = |is_momentary| Unread { what: "node group w".into(), reason: "throttled".into(), is_momentary };
        let awaited = |unread| awaited(&LaunchSpec { unread, ..LaunchSpec::default() });
        let reason = "the node group w cannot be read at the moment: throttled";
        assert_eq!(awaited(Some(unread(true))).as_deref(), Some(reason));
        assert_eq!((awaited(Some(unread(false))), awaited(None)), (None, None));
    }

    #[test]
    fn zones_that_the_cloud_has_withdrawn_are_in_no_template() {
        let left = |withdrawn: &[&str]| {
            let mut zones = vec!["a".to_owned(), "b".to_owned()];
            leave_out(
                &mut zones,
                &withdrawn.iter().map(|zone| ((*zone).to_owned(), "a zonal shift".to_owned())).collect(),
            );
            zones
        };
        assert_eq!(left(&[]), ["a", "b"]);
        assert_eq!(left(&["a"]), ["b"]);
        assert_eq!(left(&["a", "b"]), ["a", "b"]);
    }
}
