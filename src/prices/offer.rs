//! How a node is bought: its type, its place, and whether on demand or spot.

use std::collections::HashMap;

use crate::cloud::Family;

/// The label of the instance type, and its deprecated name.
const TYPE: [&str; 2] = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];
const REGION: [&str; 2] = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
/// Labels of spot nodes: EKS, AKS, Karpenter, kops and others.
const SPOT: [(&str, &str); 5] = [
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
    ("karpenter.sh/capacity-type", "spot"),
    ("node.kubernetes.io/lifecycle", "spot"),
    ("lifecycle", "Ec2Spot"),
];

/// How a node is bought.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The cloud.
    pub family: Family,
    /// The instance type; empty if it is not known.
    pub type_name: String,
    /// The region, if it is known.
    pub region: Option<String>,
    /// The zone, if it is known.
    pub zone: Option<String>,
    /// Spot, not on demand.
    pub is_spot: bool,
}

/// Whether labels show that a node is spot capacity.
pub fn is_spot<'a>(label: impl Fn(&str) -> Option<&'a str>) -> bool {
    SPOT.iter().any(|(key, spot)| label(key).is_some_and(|value| value.eq_ignore_ascii_case(spot)))
}

impl Offer {
    /// Reads a node's labels. The cloud is `default` if they do not show it.
    pub fn of_labels(labels: &HashMap<String, String>, default: Family) -> Self {
        let label = |key: &str| labels.get(key).map(String::as_str).filter(|value| !value.is_empty());
        let first = |keys: [&str; 2]| keys.into_iter().find_map(label).map(str::to_owned);
        let type_name = first(TYPE).unwrap_or_default();
        let zone = first(ZONE);
        Self {
            family: family_of(&type_name).unwrap_or(default),
            region: first(REGION).or_else(|| region_of(zone.as_deref()?)),
            type_name,
            zone,
            is_spot: is_spot(label),
        }
    }
}

/// The cloud that an instance type belongs to: `Standard_D2s_v3` or `m5.large`.
pub fn family_of(type_name: &str) -> Option<Family> {
    let is_azure = ["standard_", "basic_"]
        .iter()
        .any(|prefix| type_name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)));
    match (is_azure, type_name.contains('.')) {
        (true, _) => Some(Family::Azure),
        (false, true) => Some(Family::Aws),
        (false, false) => None,
    }
}

/// The region of a zone: `us-east-1` of `us-east-1a`, `westus2` of `westus2-1`.
fn region_of(zone: &str) -> Option<String> {
    if let Some((region, number)) = zone.rsplit_once('-')
        && !region.is_empty()
        && !region.contains('-')
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Some(region.to_owned());
    }
    let region = zone.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    (region.contains('-') && region.ends_with(|letter: char| letter.is_ascii_digit())).then(|| region.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(labels: &[(&str, &str)]) -> Offer {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Offer::of_labels(&labels, Family::Aws)
    }

    #[test]
    fn labels_show_type_place_and_capacity_type() {
        let web = offer(&[(TYPE[0], "m5.large"), (ZONE[0], "us-east-1a"), (SPOT[0].0, "SPOT")]);
        assert_eq!((web.family, web.type_name.as_str(), web.is_spot), (Family::Aws, "m5.large", true));
        assert_eq!((web.region.as_deref(), web.zone.as_deref()), (Some("us-east-1"), Some("us-east-1a")));
        let pool = offer(&[(TYPE[1], "standard_D2s_v3"), (ZONE[1], "westus2-1"), (SPOT[1].0, "spot")]);
        assert_eq!((pool.family, pool.region.as_deref(), pool.is_spot), (Family::Azure, Some("westus2"), true));
        let on_demand = offer(&[(TYPE[0], "m5.large"), (REGION[0], "eu-west-1"), (SPOT[0].0, "ON_DEMAND")]);
        assert_eq!((on_demand.region.as_deref(), on_demand.is_spot), (Some("eu-west-1"), false));
    }

    #[test]
    fn a_node_without_labels_is_of_the_first_source() {
        let none = offer(&[]);
        assert_eq!((none.family, none.type_name.as_str(), none.region, none.is_spot), (Family::Aws, "", None, false));
        for zone in ["", "0", "-", "é", "zone", "a-b-c"] {
            assert_eq!(offer(&[(ZONE[0], zone)]).region, None, "{zone}");
        }
    }
}
