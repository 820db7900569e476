//! Selects the scale sets to serve, with their min and max size.

use std::collections::BTreeMap;

use super::arm::ScaleSet;
use super::{LabelQuery, Settings, tags};
use crate::cloud::NodeGroupSpec;
use crate::clouds::bounds::Bounds;

/// Whether the configuration selects a scale set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// It is served with these bounds. The text is a warning about them.
    Served(Bounds, Option<String>),
    /// Discovered, but cannot be served for this reason.
    Invalid(String),
    /// Neither named nor discovered.
    NotSelected,
}

/// The entry of the configuration for a scale set. If a name occurs twice, the first entry counts.
pub(super) fn spec<'a>(settings: &'a Settings, name: &str) -> Option<&'a NodeGroupSpec> {
    settings.node_groups.iter().find(|spec| spec.name.eq_ignore_ascii_case(name))
}

/// Selects a scale set if the configuration names it or a discovery query matches it.
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
    // A query without conditions would match every scale set of the resource group.
    !query.labels.is_empty() && query.labels.iter().all(|(key, value)| tags::value(tags, key) == Some(value.as_str()))
}

// The bounds of a scale set are in its tags, and either may be missing. The in-tree provider ignores the tags of a
// scale set that the configuration names, so invalid tags are no reason not to serve it.
fn explicit_bounds(spec: &NodeGroupSpec, tags: &BTreeMap<String, String>) -> (Bounds, Option<String>) {
    let configured = Bounds { min: spec.min, max: spec.max };
    let own = || -> Result<Bounds, String> {
        let min = tagged(tags, "min")?.unwrap_or(spec.min);
        let max = tagged(tags, "max")?.unwrap_or(spec.max);
        if min > max {
            Err(format!("with its tags, min {min} is greater than max {max}"))
        } else {
            Ok(Bounds { min, max })
        }
    };
    match own() {
        Ok(own) if own.overlaps(spec) => own.within(spec, "the tags of the scale set say"),
        // Azure itself does not know these bounds, so they are no reason to exceed what is configured.
        Ok(Bounds { min, max }) => {
            let reason = format!("the bounds in its tags, {min}:{max}, do not overlap the configured ones");
            (configured, Some(format!("{reason}; the configured {}:{} is used", spec.min, spec.max)))
        }
        Err(reason) => (configured, Some(format!("{reason}; the configured {}:{} is used", spec.min, spec.max))),
    }
}

// Tags override queries. If several queries match, the tightest of their bounds apply, as in the in-tree provider.
fn bounds(matching: &[&LabelQuery], tags: &BTreeMap<String, String>) -> Result<Bounds, String> {
    let min = tagged(tags, "min")?.or_else(|| matching.iter().filter_map(|query| query.min).max());
    let max = tagged(tags, "max")?.or_else(|| matching.iter().filter_map(|query| query.max).min());
    let missing = |name| format!("neither a tag {name:?} nor the discovery query sets its {name} size");
    let (min, max) = (min.ok_or_else(|| missing("min"))?, max.ok_or_else(|| missing("max"))?);
    if min > max {
        return Err(format!("its min {min} is greater than its max {max}"));
    }
    Ok(Bounds { min, max })
}

fn tagged(tags: &BTreeMap<String, String>, name: &str) -> Result<Option<u32>, String> {
    let Some(text) = tags::value(tags, name) else { return Ok(None) };
    // Sizes are int32 in the protocol.
    let bound = text.trim().parse::<u32>().ok().filter(|bound| *bound <= i32::MAX.unsigned_abs());
    let bound =
        bound.ok_or_else(|| format!("its tag {name:?} is {text:?}, which is not a whole number of 0 or more"))?;
    Ok(Some(bound))
}
