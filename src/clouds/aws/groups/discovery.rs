//! Finds Auto Scaling groups by their tags.

use aws_sdk_autoscaling::types::{AutoScalingGroup, Filter};

use crate::config::settings::aws::TagQuery;

/// The filters of a query for DescribeAutoScalingGroups, which returns the groups that pass all of them.
pub(super) fn filters(query: &TagQuery) -> Vec<Filter> {
    let filter = |(key, value): &(String, Option<String>)| match value {
        Some(value) => Filter::builder().name(format!("tag:{key}")).values(value).build(),
        None => Filter::builder().name("tag-key").values(key).build(),
    };
    query.tags.iter().map(filter).collect()
}

/// Whether a group has all tags of a query, with their values.
pub(super) fn matches(query: &TagQuery, group: &AutoScalingGroup) -> bool {
    let has = |(key, value): &(String, Option<String>)| {
        group.tags().iter().any(|tag| {
            tag.key() == Some(key) && value.as_deref().is_none_or(|value| tag.value().unwrap_or_default() == value)
        })
    };
    !query.tags.is_empty() && query.tags.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_with_a_value_filters_by_both_and_one_without_by_its_key() {
        let filters = filters(&"asg:tag=a=1,b".parse().expect("a good query"));
        let plain: Vec<_> = filters.iter().map(|filter| (filter.name(), filter.values().to_vec())).collect();
        assert_eq!(plain, [(Some("tag:a"), vec!["1".to_owned()]), (Some("tag-key"), vec!["b".to_owned()])]);
    }
}
