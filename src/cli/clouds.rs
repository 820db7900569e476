//! From the configuration to a fleet: each source's cloud is connected, tables and policies are read.

use std::sync::Arc;

use super::CommandError;
use crate::cloud::{Family, SharedCloud, simulated};
use crate::config::{Config, Source, SourceKind};
use crate::fleet::{Fleet, Settings};
use crate::instance_types::Catalog;

/// A fleet that has been started, and what the commands want to know of its sources.
pub(super) struct Connected {
    pub(super) fleet: Arc<Fleet>,
    /// The sources' families, in the configuration's order.
    pub(super) families: Vec<Family>,
    /// Simulated sources, which have something to tell.
    pub(super) simulated: Vec<Arc<simulated::Simulated>>,
}

/// Connects every source and starts watching it. No source is called before that.
pub(super) async fn connect(config: &Config) -> Result<Connected, CommandError> {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let (mut sources, mut simulated) = (Vec::new(), Vec::new());
    for source in &config.sources {
        sources.push((Arc::from(source.name.as_str()), connect_source(source, &mut simulated).await?));
    }
    let families = sources.iter().map(|(_, cloud): &(Arc<str>, SharedCloud)| cloud.family()).collect();
    let settings = Settings {
        sources,
        refresh_interval: config.refresh_interval,
        catalog: Arc::new(Catalog::new(config.instance_types.clone())),
        policies: Arc::new(config.groups.clone()),
    };
    Ok(Connected { fleet: Arc::new(Fleet::start(settings)), families, simulated })
}

async fn connect_source(
    source: &Source,
    simulated: &mut Vec<Arc<simulated::Simulated>>,
) -> Result<SharedCloud, CommandError> {
    match &source.kind {
        SourceKind::Simulated(settings) => {
            let cloud = Arc::new(simulated::Simulated::demo(settings));
            simulated.push(Arc::clone(&cloud));
            Ok(cloud)
        }
        #[cfg(feature = "aws")]
        SourceKind::Aws(settings) => {
            let connected = crate::cloud::aws::Aws::connect(settings.clone()).await;
            let cloud = connected.map_err(|error| CommandError::Usage(format!("source {}: {error}", source.name)))?;
            Ok(Arc::new(cloud))
        }
        #[cfg(feature = "azure")]
        SourceKind::Azure(settings) => {
            let connected = crate::cloud::azure::Azure::connect(settings.clone()).await;
            let cloud = connected.map_err(|error| CommandError::Usage(format!("source {}: {error}", source.name)))?;
            Ok(Arc::new(cloud))
        }
    }
}
