//! Several discovery specs of an in-tree provider as one. In-tree, a group has to match all of them; in headcount.yaml,
//! one entry is enough.

use crate::config::Provider;

/// The specs as entries of `autoDiscovery:` that find the same groups. Specs that cannot be read stay as they are: the
/// configuration is refused with the reason.
pub(super) fn joined(provider: Provider, specs: &[&str]) -> Vec<String> {
    let marker = match provider {
        Provider::Aws => "tag=",
        Provider::Azure => ":",
    };
    let parts: Option<Vec<_>> = specs.iter().map(|spec| spec.split_once(marker)).collect();
    let has_tags = |conditions: &str| provider == Provider::Aws || conditions.split(',').any(|one| !is_bound(one));
    match parts {
        // In-tree, a spec of Azure that only has bounds matches nothing.
        Some(parts) if parts.len() > 1 && parts.iter().all(|(_, conditions)| has_tags(conditions)) => {
            let all = parts.iter().flat_map(|(_, conditions)| conditions.split(',')).map(str::trim);
            vec![format!("{}{marker}{}", parts[0].0, conditions(provider, all).join(","))]
        }
        _ => specs.iter().map(|spec| (*spec).to_owned()).collect(),
    }
}

/// Whether a condition of Azure is a number of nodes.
fn is_bound(condition: &str) -> bool {
    matches!(condition.trim().split_once('='), Some(("min" | "max", _)))
}

/// All conditions, as the in-tree provider joins them. On AWS, the last value of a tag wins. On Azure, the highest
/// minimum and the lowest maximum do.
fn conditions<'a>(provider: Provider, all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut joined: Vec<&str> = Vec::new();
    for condition in all {
        let (key, value) = condition.split_once('=').unwrap_or((condition, ""));
        let is_same = |known: &&mut &str| known.split_once('=').map_or(**known, |(key, _)| key) == key;
        let bound = |text: &str| text.split_once('=').and_then(|(_, bound)| bound.parse::<u32>().ok());
        match joined.iter_mut().find(is_same) {
            None => joined.push(condition),
            Some(known) if provider == Provider::Azure => match key {
                "min" if bound(known) < value.parse().ok() => *known = condition,
                "max" if bound(known) > value.parse().ok() => *known = condition,
                // Two values of one tag match no group.
                _ if *known != condition && !matches!(key, "min" | "max") => joined.push(condition),
                _ => {}
            },
            Some(known) => *known = condition,
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_specs_become_one_that_finds_the_same_groups() {
        let aws = |specs: &[&str]| joined(Provider::Aws, specs);
        assert_eq!(aws(&["asg:tag=a,b=c"]), ["asg:tag=a,b=c"]);
        assert_eq!(aws(&["asg:tag=a,b=c", "asg:tag=d,b=e"]), ["asg:tag=a,b=e,d"]);
        assert_eq!(aws(&["asg:tag=a", "mig:x"]), ["asg:tag=a", "mig:x"]);
        let azure = |specs: &[&str]| joined(Provider::Azure, specs);
        assert_eq!(azure(&["label:a=b,min=1,max=9"]), ["label:a=b,min=1,max=9"]);
        assert_eq!(
            azure(&["label:a=b,min=1,max=9", "label:a=b,c=d,min=2,max=8", "label:a=b,max=10"]),
            ["label:a=b,min=2,max=8,c=d"]
        );
        assert_eq!(azure(&["label:a=b", "label:min=1,max=9"]).len(), 2, "matches nothing in-tree, and is refused");
        assert_eq!(azure(&["label:a=b", "label:a=c"]), ["label:a=b,a=c"]);
    }
}
