//! `/metrics`: everything that is counted, and gauges that are derived from the fleet at each scrape.

mod classic;
mod fleet;
mod process;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::fleet::Fleet;
use crate::metrics::{FamilySpec, samples};

static CERTIFICATE: FamilySpec = FamilySpec::gauge(
    "headcount_tls_certificate_not_after_timestamp_seconds",
    &["file"],
    "When the served certificate or the first client CA expires, since the Unix epoch in seconds",
);

/// The end of each certificate's validity in seconds since the Unix epoch, by its role.
pub type CertificateExpiry = Arc<dyn Fn() -> Vec<(&'static str, f64)> + Send + Sync>;

/// What `/metrics` serves.
#[derive(Default)]
pub struct Metrics(Registry);

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The classic format (0.0.4).
    Classic,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// The format that an `Accept` header asks for.
    pub fn wanted(accept: &str) -> Self {
        if classic::wants_open_metrics(accept) { Self::OpenMetrics } else { Self::Classic }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => classic::CLASSIC,
            Self::OpenMetrics => classic::OPEN_METRICS,
        }
    }
}

impl Metrics {
    /// Serves the metrics of this registry and those that are derived from the fleet.
    pub fn new(mut registry: Registry, fleet: Arc<Fleet>, certificates: CertificateExpiry) -> Self {
        fleet.journal().register(&mut registry);
        fleet.tasks().register(&mut registry);
        registry.register_collector(Box::new(fleet::FleetCollector(fleet)));
        registry.register_collector(Box::new(Certificates(certificates)));
        registry.register_collector(Box::new(process::ProcessCollector));
        Self(registry)
    }

    /// The families of this module.
    pub fn families() -> impl Iterator<Item = &'static FamilySpec> {
        fleet::FAMILIES.into_iter().chain([&CERTIFICATE]).chain(process::FAMILIES)
    }

    /// Writes all metrics in this format.
    ///
    /// # Errors
    ///
    /// If a collector fails.
    pub fn render(&self, format: Format) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0)?;
        Ok(match format {
            Format::OpenMetrics => text,
            Format::Classic => classic::to_classic(&text),
        })
    }
}

struct Certificates(CertificateExpiry);

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Certificates")
    }
}

impl Collector for Certificates {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut help = String::new();
        let mut samples = samples(&mut encoder, &CERTIFICATE, &mut help)?;
        (self.0)().into_iter().try_for_each(|(file, at)| samples.write(&[file], at))
    }
}
