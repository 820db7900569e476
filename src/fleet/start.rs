//! Starts a fleet: one watcher for each source, and what they share.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Fleet;
use super::cadence::{Cadence, Pulse};
use super::claims::Claims;
use super::clock::Clock;
use super::contact::Contact;
use super::foreign::LiveCluster;
use super::health;
use super::journal::Journal;
use super::keeper::KeeperContext;
use super::policy::{LivePolicies, Policies};
use super::quota::{QuotaBook, QuotaWatch, QuotaWatcher};
use super::recording::Recordings;
use super::source::Source;
use super::store::Store;
use super::template_builder::TemplateBuilder;
use crate::cloud::{ReadOnlyCloud, SharedCloud};
use crate::instance_types::Catalog;
use crate::tasks::Tasks;

/// What a fleet is made of.
pub struct Settings<C = SharedCloud> {
    /// The sources, by name.
    pub sources: Vec<(Arc<str>, C)>,
    /// How often each is listed.
    pub cadence: Cadence,
    /// Instance types.
    pub catalog: Arc<Catalog>,
    /// What the configuration sets for groups.
    pub policies: Arc<Policies>,
    /// Whether everything that needs a write is refused.
    pub read_only: bool,
}

impl Fleet {
    /// Starts watching all sources.
    pub fn start(settings: Settings) -> Self {
        Self::watch(settings, |cloud| (Arc::clone(cloud) as ReadOnlyCloud, Some(Arc::clone(cloud))))
    }

    /// Starts watching all sources without a way to write to them: for commands that only read.
    pub fn start_reading(settings: Settings<ReadOnlyCloud>) -> Self {
        Self::watch(settings, |cloud| (Arc::clone(cloud), None))
    }

    fn watch<C>(settings: Settings<C>, access: impl Fn(&C) -> (ReadOnlyCloud, Option<SharedCloud>)) -> Self {
        let (store, claims) = (Arc::new(Store::default()), Arc::new(Claims::default()));
        let clock = Clock::started(Instant::now());
        let journal = Arc::new(Journal::default());
        let policies = Arc::new(LivePolicies::new(settings.policies));
        let tasks = Tasks::default();
        let contact = Arc::new(Contact::new());
        let cluster = Arc::new(LiveCluster::default());
        let recordings = Arc::new(Recordings::default());
        let remembered = watch::Sender::new(true);
        let quota_watches: HashMap<Arc<str>, QuotaWatch> =
            settings.sources.iter().map(|(name, _)| (Arc::clone(name), QuotaWatch::default())).collect();
        let sources: Vec<Source> = settings
            .sources
            .iter()
            .map(|(name, cloud)| {
                let (cloud, writer) = access(cloud);
                let builder = TemplateBuilder {
                    source: Arc::clone(name),
                    cloud: Arc::clone(&cloud),
                    catalog: Arc::clone(&settings.catalog),
                    policies: Arc::clone(&policies),
                    is_lookup_failing: Arc::default(),
                    remembered: remembered.subscribe(),
                    waits: writer.is_some(),
                };
                let quotas = quota_watches[name].clone();
                let read_only = settings.read_only || writer.is_none();
                let context = KeeperContext {
                    cloud,
                    writer,
                    claims: Arc::clone(&claims),
                    store: Arc::clone(&store),
                    policies: Arc::clone(&policies),
                    tasks: tasks.clone(),
                    clock,
                    journal: Arc::clone(&journal),
                    templates: builder.start(&tasks),
                    pulse: Arc::new(Pulse::new()),
                    reach: Arc::default(),
                    catalog: Arc::clone(&settings.catalog),
                    cluster: Arc::clone(&cluster),
                    quotas,
                    recordings: Arc::clone(&recordings),
                    read_only,
                };
                Source::start(Arc::clone(name), context, settings.cadence, Arc::clone(&contact))
            })
            .collect();
        let ready = health::watch_readiness(sources.iter().map(|source| source.watched.clone()).collect(), &tasks);
        let quotas = Arc::new(QuotaBook::default());
        for (name, cloud) in &settings.sources {
            let watcher = QuotaWatcher {
                source: Arc::clone(name),
                cloud: access(cloud).0,
                store: Arc::clone(&store),
                policies: Arc::clone(&policies),
                book: Arc::clone(&quotas),
                contact: Arc::clone(&contact),
            };
            quota_watches[name].start(watcher, ready.clone(), &tasks);
        }
        Self {
            store,
            sources,
            quotas,
            quota_watches,
            clouds: settings.sources.iter().map(|(name, cloud)| (Arc::clone(name), access(cloud).0)).collect(),
            catalog: settings.catalog,
            policies,
            tasks,
            started: Instant::now(),
            cadence: settings.cadence,
            read_only: settings.read_only,
            ready,
            journal,
            contact,
            cluster,
            recordings,
            remembered,
        }
    }
}
