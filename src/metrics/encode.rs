//! Families that are derived from other state at each scrape, instead of being kept beside it.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelKey, EncodeLabelSet, EncodeLabelValue, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use super::{FamilySpec, Kind};

/// Writes the samples of one family.
#[derive(Debug)]
pub struct Samples<'a> {
    encoder: MetricEncoder<'a>,
    spec: &'static FamilySpec,
}

/// Begins a family.
///
/// # Errors
///
/// If the exposition cannot be written.
pub fn samples<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    spec: &'static FamilySpec,
    help: &'a mut String,
) -> Result<Samples<'a>, fmt::Error> {
    let kind = match spec.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    // As the registry does with the help of its own families.
    *help = format!("{}.", spec.help);
    Ok(Samples { encoder: encoder.encode_descriptor(spec.name, help, None, kind)?, spec })
}

impl Samples<'_> {
    /// Writes one sample, with a value for each label of the family.
    ///
    /// # Errors
    ///
    /// If the exposition cannot be written, or the values are not as many as the labels.
    pub fn write(&mut self, labels: &[&str], value: f64) -> fmt::Result {
        if labels.len() != self.spec.labels.len() {
            return Err(fmt::Error);
        }
        let pairs = Pairs { names: self.spec.labels, values: labels };
        let is_counter = self.spec.kind == Kind::Counter;
        let write = |encoder: &mut MetricEncoder<'_>| match is_counter {
            true => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
            false => encoder.encode_gauge(&value),
        };
        if labels.is_empty() { write(&mut self.encoder) } else { write(&mut self.encoder.encode_family(&pairs)?) }
    }
}

struct Pairs<'a> {
    names: &'static [&'static str],
    values: &'a [&'a str],
}

impl EncodeLabelSet for Pairs<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in self.names.iter().zip(self.values) {
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            EncodeLabelKey::encode(name, &mut key)?;
            let mut text = key.encode_label_value()?;
            EncodeLabelValue::encode(value, &mut text)?;
            text.finish()?;
        }
        Ok(())
    }
}
