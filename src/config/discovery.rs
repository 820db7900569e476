//! `--node-group-auto-discovery`, in the syntax of each in-tree provider.

#[cfg(feature = "aws")]
use crate::config::settings::aws::{TagQuery, TagQueryError};
#[cfg(feature = "azure")]
use crate::config::settings::azure::LabelQuery;

/// Parses `asg:tag=key[=value],…`.
#[cfg(feature = "aws")]
pub(super) fn tag_query(spec: &str) -> Result<TagQuery, String> {
    spec.parse().map_err(|error: TagQueryError| error.to_string())
}

/// Parses `label:key=value,…[,min=N][,max=N]`.
#[cfg(feature = "azure")]
pub(super) fn label_query(spec: &str) -> Result<LabelQuery, String> {
    const EXAMPLE: &str = "label:cluster=prod,min=1,max=10";
    let conditions = discovered_by("label", spec, EXAMPLE)?;
    let mut query = LabelQuery { labels: Vec::new(), min: None, max: None };
    for condition in conditions.split(',') {
        let fields = condition.split('=').map(str::trim).collect::<Vec<_>>();
        match fields[..] {
            ["min", bound] => query.min = Some(node_count(spec, "min", bound)?),
            ["max", bound] => query.max = Some(node_count(spec, "max", bound)?),
            [key, value] if !key.is_empty() && !value.is_empty() => {
                // Azure compares the names of tags without case.
                if query.labels.iter().any(|(known, of_known)| known.eq_ignore_ascii_case(key) && of_known != value) {
                    return Err(format!(
                        "{spec:?} requires two values of tag {key:?}, which no scale set can have; to accept either, write \
                         two specifications"
                    ));
                }
                query.labels.push((key.to_owned(), value.to_owned()))
            }
            _ => return Err(format!("{spec:?}: {condition:?} is not of the form key=value, as in {EXAMPLE}")),
        }
    }
    if query.labels.is_empty() {
        return Err(format!("{spec:?} has no tag to match; add at least one, as in {EXAMPLE}"));
    }
    match (query.min, query.max) {
        (Some(min), Some(max)) if min > max => {
            Err(format!("{spec:?}: min {min} is greater than max {max}; write a min that is not above max"))
        }
        _ => Ok(query),
    }
}

/// Returns the text after the discoverer, which must be `discoverer`.
#[cfg(feature = "azure")]
fn discovered_by<'a>(discoverer: &str, spec: &'a str, example: &str) -> Result<&'a str, String> {
    match spec.split_once(':') {
        Some((name, rest)) if name.trim() == discoverer => Ok(rest.trim()),
        _ => Err(format!("{spec:?}: the discoverer must be {discoverer:?}, as in {example}")),
    }
}

#[cfg(feature = "azure")]
fn node_count(spec: &str, field: &str, value: &str) -> Result<u32, String> {
    // The protocol's sizes are int32.
    value
        .parse::<u32>()
        .ok()
        .filter(|bound| *bound <= i32::MAX.unsigned_abs())
        .ok_or_else(|| format!("{spec:?}: {field} {value:?} is not a whole number from 0 to 2147483647"))
}

#[cfg(all(test, feature = "aws", feature = "azure"))]
mod properties;
#[cfg(all(test, feature = "aws", feature = "azure"))]
mod tests {
    use super::*;

    #[test]
    fn tags_match_a_value_or_any_value() {
        let tags = |spec: &str| tag_query(spec).map(|query| query.tags);
        let tag = |key: &str, value: &str| (key.to_owned(), (!value.is_empty()).then(|| value.to_owned()));
        assert_eq!(tags("asg:tag=tag,anothertag"), Ok(vec![tag("tag", ""), tag("anothertag", "")]));
        assert_eq!(tags(" asg:tag=label=value , anothertag= "), Ok(vec![tag("label", "value"), tag("anothertag", "")]));
        assert_eq!(
            tags("asg:tag=my:label=value,my:otherlabel=othervalue"),
            Ok(vec![tag("my:label", "value"), tag("my:otherlabel", "othervalue")])
        );
        assert_eq!(tags("asg:tag=a=b=c"), Ok(vec![tag("a", "b=c")]));
    }

    #[test]
    fn errors_in_tag_queries_say_what_is_wrong() {
        for (spec, expected) in [
            (
                "mig:tag=t",
                r#""mig:tag=t": the discoverer must be "asg", as in asg:tag=k8s.io/cluster-autoscaler/enabled"#,
            ),
            ("tag=tag", r#""tag=tag": the discoverer must be "asg""#),
            ("asg:tag=", "a tag's key is empty"),
            ("asg:tag", "a tag's key is empty"),
            ("asg:tag=a,,b", "a tag's key is empty"),
            ("asg:=tag", r#"only "tag" is supported"#),
        ] {
            let error = tag_query(spec).expect_err(spec);
            assert!(error.contains(expected), "{spec}: {error}");
        }
    }

    #[test]
    fn labels_have_values_and_bounds_are_optional() {
        let query = label_query("label: cluster=prod, min=1 ,max=10,pool=a").expect("good");
        assert_eq!(query.labels, [("cluster".into(), "prod".into()), ("pool".into(), "a".into())]);
        assert_eq!((query.min, query.max), (Some(1), Some(10)));
        assert_eq!(label_query("label:a=b").map(|query| (query.min, query.max)), Ok((None, None)));
    }

    #[test]
    fn errors_in_label_queries_say_what_is_wrong() {
        for (spec, expected) in [
            ("asg:a=b", r#"the discoverer must be "label", as in label:"#),
            ("label", r#"the discoverer must be "label""#),
            ("label:a", r#""a" is not of the form key=value"#),
            ("label:a=", "not of the form key=value"),
            ("label:=b", "not of the form key=value"),
            ("label:a=b=c", "not of the form key=value"),
            ("label:", "not of the form key=value"),
            ("label:min=1,max=2", "has no tag to match"),
            ("label:a=b,min=x", r#"min "x" is not a whole number"#),
            ("label:a=b,max=-1", r#"max "-1" is not a whole number"#),
            ("label:a=b,min=3,max=2", "min 3 is greater than max 2"),
            ("label:a=b,A=c", r#"two values of tag "A""#),
        ] {
            let error = label_query(spec).expect_err(spec);
            assert!(error.contains(expected), "{spec}: {error}");
        }
    }
}
