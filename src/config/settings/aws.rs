//! What the configuration says of an AWS source.

use std::str::FromStr;

use thiserror::Error;

use crate::cloud::NodeGroupSpec;

/// One AWS account and region.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// The region; the SDK's default chain decides where it is absent.
    pub region: Option<String>,
    /// One endpoint for all AWS services, for tests; `AWS_ENDPOINT_URL*` work as everywhere where it is absent.
    pub endpoint: Option<String>,
    /// Groups named one by one.
    pub node_groups: Vec<NodeGroupSpec>,
    /// Groups found by tags. Each entry is one specification whose tags must all be there; several are a union.
    pub auto_discovery: Vec<TagQuery>,
}

/// The tags of one `asg:tag=…` specification; all must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagQuery {
    /// Key, and the value it must have; any value where there is none.
    pub tags: Vec<(String, Option<String>)>,
}

/// What is wrong with an `asg:tag=…`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TagQueryError {
    /// A discoverer that AWS has not.
    #[error("{spec:?}: the discoverer must be \"asg\", as in asg:tag=k8s.io/cluster-autoscaler/enabled")]
    Discoverer {
        /// The whole text.
        spec: String,
    },
    /// Not by tag.
    #[error("{spec:?}: only \"tag\" can be asked for, as in asg:tag=k8s.io/cluster-autoscaler/enabled")]
    Key {
        /// The whole text.
        spec: String,
    },
    /// No tags, or one without a key.
    #[error("{0:?}: a tag's key is empty; write one or more tags, as in asg:tag=k8s.io/cluster-autoscaler/enabled")]
    NoTagKey(String),
    /// Two values for one key: no group has both.
    #[error("{spec:?} wants two values of tag {key:?}; for either of them, give two specifications")]
    Contradiction {
        /// The whole text.
        spec: String,
        /// The key given twice.
        key: String,
    },
}

impl FromStr for TagQuery {
    type Err = TagQueryError;

    fn from_str(spec: &str) -> Result<Self, TagQueryError> {
        let (discoverer, rest) = spec.split_once(':').unwrap_or((spec, ""));
        if discoverer.trim() != "asg" {
            return Err(TagQueryError::Discoverer { spec: spec.to_owned() });
        }
        let (key, tags) = rest.split_once('=').unwrap_or((rest, ""));
        if key.trim() != "tag" {
            return Err(TagQueryError::Key { spec: spec.to_owned() });
        }
        let mut wanted: Vec<(String, Option<String>)> = Vec::new();
        for tag in tags.split(',') {
            let (key, value) = tag.split_once('=').unwrap_or((tag, ""));
            // `key` and `key=` both mean any value, as in the in-tree provider.
            let value = Some(value.trim()).filter(|value| !value.is_empty()).map(str::to_owned);
            let key = key.trim();
            if key.is_empty() {
                return Err(TagQueryError::NoTagKey(spec.to_owned()));
            }
            match wanted.iter_mut().find(|(known, _)| known == key) {
                None => wanted.push((key.to_owned(), value)),
                Some((_, known)) if known.is_none() || value.is_none() || *known == value => {
                    *known = known.take().or(value);
                }
                Some(_) => {
                    return Err(TagQueryError::Contradiction { spec: spec.to_owned(), key: key.to_owned() });
                }
            }
        }
        Ok(Self { tags: wanted })
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use super::*;

    fn query(tags: &[(&str, Option<&str>)]) -> TagQuery {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)));
        TagQuery { tags: tags.collect() }
    }

    #[test]
    fn tags_with_and_without_values() {
        for (spec, tags) in [
            ("asg:tag=tag,anothertag", vec![("tag", None), ("anothertag", None)]),
            ("asg:tag=label=value,anothertag", vec![("label", Some("value")), ("anothertag", None)]),
            (
                "asg:tag=my:label=value,my:otherlabel=othervalue",
                vec![("my:label", Some("value")), ("my:otherlabel", Some("othervalue"))],
            ),
            ("asg:tag=a=", vec![("a", None)]),
            (" asg:tag= a = b=c , d ", vec![("a", Some("b=c")), ("d", None)]),
            ("asg:tag=a,a=b,a=b", vec![("a", Some("b"))]),
        ] {
            assert_eq!(spec.parse(), Ok(query(&tags)), "{spec}");
        }
    }

    #[test]
    fn a_bad_specification_says_what_is_wrong() {
        for (spec, complaint) in [
            ("tag=tag", "the discoverer must be"),
            ("mig:tag=t", "the discoverer must be \"asg\""),
            ("asg:tag=", "a tag's key is empty"),
            ("asg:=tag", "only \"tag\" can be asked for"),
            ("asg:tag", "a tag's key is empty"),
            ("asg:tag=a,,b", "a tag's key is empty"),
            ("asg:tag==v", "a tag's key is empty"),
            ("asg:tag=a=1,a=2", "two values of tag \"a\""),
            ("", "the discoverer must be"),
        ] {
            let error = spec.parse::<TagQuery>().expect_err(spec).to_string();
            assert!(error.contains(complaint), "{spec}: {error}");
        }
    }
}
