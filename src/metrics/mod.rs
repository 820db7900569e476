//! What a metric family is, and how one is registered. Each family is declared once, beside the state that it shows;
//! `admin/metrics` serves them all, and `docs/metrics.md` is generated from the same declarations.

mod encode;

use prometheus_client::registry::{Metric, Registry};

pub use encode::{Samples, samples};

/// A metric family, as it is documented and served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilySpec {
    /// The name, for counters without `_total`.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// What it shows: a sentence without its full stop.
    pub help: &'static str,
}

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows, from 0 at the start of the process.
    Counter,
    /// A value that can rise and fall.
    Gauge,
    /// Observations in buckets, with their sum and count.
    Histogram,
}

impl FamilySpec {
    /// A counter.
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Counter, labels, help }
    }

    /// A gauge.
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, labels, help }
    }

    /// A histogram.
    pub const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self { name, kind: Kind::Histogram, labels, help }
    }

    /// The name of its samples, without the suffixes of a histogram.
    pub fn sample_name(&self) -> String {
        match self.kind {
            Kind::Counter => format!("{}_total", self.name),
            Kind::Gauge | Kind::Histogram => self.name.to_owned(),
        }
    }

    /// Registers this family.
    pub fn register(&self, registry: &mut Registry, metric: impl Metric) {
        registry.register(self.name, self.help, metric);
    }
}
