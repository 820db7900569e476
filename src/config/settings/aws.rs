//! The settings of an AWS source.

use std::str::FromStr;

use thiserror::Error;

use crate::cloud::NodeGroupSpec;

/// One AWS account and region.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// The region; by default, that of the SDK's default chain.
    pub region: Option<String>,
    /// One endpoint for all AWS services, for tests; by default, `AWS_ENDPOINT_URL*` apply.
    pub endpoint: Option<String>,
    /// The profile of the shared files; by default, that of `AWS_PROFILE`, or `default`.
    pub profile: Option<String>,
    /// The role to assume with the credentials that the default chain finds.
    pub assume_role: Option<AssumeRole>,
    /// Groups listed by name.
    pub node_groups: Vec<NodeGroupSpec>,
    /// Groups found by tags. A group matches an entry if it has all of its tags; one matching entry is enough.
    pub auto_discovery: Vec<TagQuery>,
}

/// Whether a region can have this name.
pub fn is_region(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// A role, usually of another account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumeRole {
    /// Its ARN.
    pub arn: String,
    /// What the role's trust policy asks for, if it does.
    pub external_id: Option<String>,
    /// The name of the session, which CloudTrail shows.
    pub session_name: String,
}

/// The tags of one `asg:tag=…` specification; a group must have all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagQuery {
    /// Keys with the required value; `None` for any value.
    pub tags: Vec<(String, Option<String>)>,
}

/// Why an `asg:tag=…` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TagQueryError {
    /// The discoverer is not `asg`.
    #[error("{spec:?}: the discoverer must be \"asg\", as in asg:tag=k8s.io/cluster-autoscaler/enabled")]
    Discoverer {
        /// The whole text.
        spec: String,
    },
    /// The key is not `tag`.
    #[error("{spec:?}: only \"tag\" is supported, as in asg:tag=k8s.io/cluster-autoscaler/enabled")]
    Key {
        /// The whole text.
        spec: String,
    },
    /// There is no tag, or one without a key.
    #[error("{0:?}: a tag's key is empty; write one or more tags, as in asg:tag=k8s.io/cluster-autoscaler/enabled")]
    NoTagKey(String),
    /// Two values for one key: no group can have both.
    #[error(
        "{spec:?} requires two values of tag {key:?}, which no group can have; to accept either, write two \
            specifications"
    )]
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
    fn errors_say_what_is_wrong() {
        for (spec, expected) in [
            ("tag=tag", "the discoverer must be"),
            ("mig:tag=t", "the discoverer must be \"asg\""),
            ("asg:tag=", "a tag's key is empty"),
            ("asg:=tag", "only \"tag\" is supported"),
            ("asg:tag", "a tag's key is empty"),
            ("asg:tag=a,,b", "a tag's key is empty"),
            ("asg:tag==v", "a tag's key is empty"),
            ("asg:tag=a=1,a=2", "two values of tag \"a\""),
            ("", "the discoverer must be"),
        ] {
            let error = spec.parse::<TagQuery>().expect_err(spec).to_string();
            assert!(error.contains(expected), "{spec}: {error}");
        }
    }
}
