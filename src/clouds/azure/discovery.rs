//! Which scale sets are served, and between which bounds.

use std::collections::BTreeMap;

use super::arm::ScaleSet;
use super::{LabelQuery, Settings, tags};
use crate::cloud::NodeGroupSpec;
use crate::clouds::bounds::Bounds;

/// What a scale set is to the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// Served between these bounds, and what the operator should be told about them.
    Served(Bounds, Option<String>),
    /// Found, but cannot be served for this reason.
    Invalid(String),
    /// None of ours.
    NotSelected,
}

/// The configuration's own entry for a scale set. Where a name is given twice, the first counts.
pub(super) fn spec<'a>(settings: &'a Settings, name: &str) -> Option<&'a NodeGroupSpec> {
    settings.node_groups.iter().find(|spec| spec.name.eq_ignore_ascii_case(name))
}

/// Judges a scale set: named in the configuration, or found by one of its queries.
pub(super) fn select(settings: &Settings, set: &ScaleSet) -> Selection {
    if let Some(spec) = spec(settings, &set.name) {
        let (bounds, remark) = explicit_bounds(spec, &set.tags);
        return Selection::Served(bounds, remark);
    }
    let matching: Vec<&LabelQuery> = settings.auto_discovery.iter().filter(|query| matches(query, &set.tags)).collect();
    if matching.is_empty() {
        return Selection::NotSelected;
    }
    match bounds(&matching, &set.tags) {
        Ok(bounds) => Selection::Served(bounds, None),
        Err(reason) => Selection::Invalid(reason),
    }
}

fn matches(query: &LabelQuery, tags: &BTreeMap<String, String>) -> bool {
    // A query without conditions would find every scale set of the resource group.
    !query.labels.is_empty() && query.labels.iter().all(|(key, value)| tags::value(tags, key) == Some(value.as_str()))
}

// A scale set has no bounds of its own but what its tags say, and they need not say both. In-tree they say nothing of a set
// that the configuration names, so what cannot be understood in them is no reason not to serve it.
fn explicit_bounds(spec: &NodeGroupSpec, tags: &BTreeMap<String, String>) -> (Bounds, Option<String>) {
    let configured = Bounds { min: spec.min, max: spec.max };
    let own = || -> Result<Bounds, String> {
        let min = tagged(tags, "min")?.unwrap_or(spec.min);
        let max = tagged(tags, "max")?.unwrap_or(spec.max);
        if min > max {
            Err(format!("its tags come to a min of {min} and a max of {max}"))
        } else {
            Ok(Bounds { min, max })
        }
    };
    match own() {
        Ok(own) => own.within(spec, "the tags of the scale set say"),
        Err(reason) => (configured, Some(format!("{reason}; the configured {}:{} is used", spec.min, spec.max))),
    }
}

// Tags before queries; where several queries match, the tightest of their bounds, as in the in-tree provider.
fn bounds(matching: &[&LabelQuery], tags: &BTreeMap<String, String>) -> Result<Bounds, String> {
    let min = tagged(tags, "min")?.or_else(|| matching.iter().filter_map(|query| query.min).max());
    let max = tagged(tags, "max")?.or_else(|| matching.iter().filter_map(|query| query.max).min());
    let missing = |name| format!("neither a tag {name:?} nor the discovery says what its {name} is");
    let (min, max) = (min.ok_or_else(|| missing("min"))?, max.ok_or_else(|| missing("max"))?);
    if min > max {
        return Err(format!("its min {min} is greater than its max {max}"));
    }
    Ok(Bounds { min, max })
}

fn tagged(tags: &BTreeMap<String, String>, name: &str) -> Result<Option<u32>, String> {
    let Some(text) = tags::value(tags, name) else { return Ok(None) };
    // The protocol's sizes are int32.
    let bound = text.trim().parse::<u32>().ok().filter(|bound| *bound <= i32::MAX.unsigned_abs());
    let bound = bound.ok_or_else(|| format!("its tag {name:?} is {text:?}, and not a whole number from 0 up"))?;
    Ok(Some(bound))
}
