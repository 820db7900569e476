//! How much the instance types of a group differ. Its template has the minimum of each resource, so the Cluster
//! Autoscaler sees the rest of larger types only when their nodes exist.

use std::collections::{BTreeMap, BTreeSet};

use super::capacity::{CPU, MEMORY, Resources};
use crate::instance_types::Quantity;

/// The Cluster Autoscaler assumes that all nodes of a group are equal. From this ratio on, a scale-up adds about twice
/// as many nodes as are needed.
const WIDE: f64 = 2.0;

/// The lowest and the highest amount of a resource among the instance types of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The amount in the template.
    pub least: Quantity,
    /// A type that has this amount.
    pub least_type: String,
    /// The highest amount that a node can have.
    pub most: Quantity,
    /// A type that has this amount.
    pub most_type: String,
}

/// The spreads of the resources whose amounts differ between the types.
pub type Spreads = BTreeMap<String, Spread>;

impl Spread {
    /// The highest amount divided by the lowest: more than 1; infinite if a type lacks the resource.
    pub fn ratio(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let [least, most] = [self.least, self.most].map(|quantity| quantity.whole_millis() as f64);
        if least > 0.0 { most / least } else { f64::INFINITY }
    }

    /// Whether the types differ so much that it should be reported.
    pub fn is_wide(&self) -> bool {
        self.ratio() > WIDE
    }
}

/// A warning about a group whose types differ a lot in processors or memory; `None` if they do not.
pub fn warning(spreads: &Spreads) -> Option<String> {
    let wide: Vec<String> = [CPU, MEMORY]
        .into_iter()
        .filter_map(|resource| Some((resource, spreads.get(resource).filter(|spread| spread.is_wide())?)))
        .map(|(resource, Spread { least, least_type, most, most_type })| {
            format!("{resource} from {least} ({least_type}) to {most} ({most_type})")
        })
        .collect();
    (!wide.is_empty()).then(|| {
        format!(
            "the instance types have {}; the template has the minimum of each, so a scale-up may add more nodes than \
             needed: use instance types of similar size",
            wide.join(" and ")
        )
    })
}

/// The spreads of these types, each given with its resources.
pub(super) fn spreads(types: &[(&str, &Resources)]) -> Spreads {
    let names: BTreeSet<&String> = types.iter().flat_map(|(_, resources)| resources.keys()).collect();
    let spread = |name: &String| {
        let amounts = || {
            let amount = |resources: &Resources| resources.get(name).map_or(Quantity::ZERO, |resource| resource.value);
            types.iter().map(move |(type_name, resources)| (amount(resources), *type_name))
        };
        let (least, least_type) = amounts().min()?;
        let (most, most_type) = amounts().max_by_key(|(amount, _)| *amount)?;
        let [least_type, most_type] = [least_type, most_type].map(str::to_owned);
        (least < most).then_some(Spread { least, least_type, most, most_type })
    };
    names.into_iter().filter_map(|name| Some((name.clone(), spread(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance_types::{Provenance, WithProvenance};

    fn resources(amounts: &[(&str, &str)]) -> Resources {
        let sourced = |amount: &str| WithProvenance::new(amount.parse().unwrap(), Provenance::Default);
        amounts.iter().map(|(name, amount)| ((*name).to_owned(), sourced(amount))).collect()
    }

    #[test]
    fn a_resource_that_differs_between_types_has_a_spread() {
        let small = resources(&[("cpu", "2"), ("memory", "8Gi"), ("pods", "29")]);
        let large = resources(&[("cpu", "8"), ("memory", "15Gi"), ("pods", "29"), ("nvidia.com/gpu", "1")]);
        let spreads = spreads(&[("large", &large), ("small", &small)]);
        assert_eq!(spreads.keys().collect::<Vec<_>>(), ["cpu", "memory", "nvidia.com/gpu"]);
        let cpu = &spreads["cpu"];
        assert_eq!((cpu.least_type.as_str(), cpu.most_type.as_str()), ("small", "large"));
        assert!((cpu.ratio() - 4.0).abs() < 1e-9 && cpu.is_wide() && !spreads["memory"].is_wide());
        assert!(spreads["nvidia.com/gpu"].ratio().is_infinite());
        let warning = warning(&spreads).unwrap();
        assert!(warning.starts_with("the instance types have cpu from 2 (small) to 8 (large); the"), "{warning}");
    }

    #[test]
    fn similar_types_cause_no_warning() {
        let one = resources(&[("cpu", "2"), ("memory", "8Gi")]);
        let double = resources(&[("cpu", "4"), ("memory", "16Gi")]);
        assert!(spreads(&[("one", &one), ("other", &one)]).is_empty());
        assert_eq!(warning(&spreads(&[("one", &one), ("double", &double)])), None);
        assert!(spreads(&[]).is_empty());
    }
}
