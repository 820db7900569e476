//! `asg:tag=k1[=v1],k2`: the groups that carry all these tags.

use std::str::FromStr;

use aws_sdk_autoscaling::types::Filter;
use thiserror::Error;

use super::TagQuery;

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

/// The query as DescribeAutoScalingGroups takes it; several filters must all hold.
pub(super) fn filters(query: &TagQuery) -> Vec<Filter> {
    let filter = |(key, value): &(String, Option<String>)| match value {
        Some(value) => Filter::builder().name(format!("tag:{key}")).values(value).build(),
        None => Filter::builder().name("tag-key").values(key).build(),
    };
    query.tags.iter().map(filter).collect()
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

    #[test]
    fn a_value_filters_by_tag_and_its_absence_by_key() {
        let filters = filters(&query(&[("a", Some("1")), ("b", None)]));
        let plain: Vec<_> = filters.iter().map(|filter| (filter.name(), filter.values().to_vec())).collect();
        assert_eq!(plain, [(Some("tag:a"), vec!["1".to_owned()]), (Some("tag-key"), vec!["b".to_owned()])]);
    }
}
