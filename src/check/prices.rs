//! The findings about prices, if the Cluster Autoscaler uses them.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::CheckInput;
use super::autoscaler::SUBJECT;
use super::code::Code;
use super::collected::{CollectedSource, PATIENCE};
use super::finding::Finding;
use crate::cloud::{CloudError, PriceExtent, ReadOnlyCloud};

/// Groups named in a finding; the others are counted.
const NAMED_MAX: usize = 5;

/// What is known about prices.
#[derive(Debug, Default)]
pub(super) struct CollectedPrices {
    /// Whether the Cluster Autoscaler is known to ask for prices.
    pub(super) are_used: bool,
    /// The groups whose price is an estimate, and what it is made from.
    pub(super) estimates: Vec<(String, String)>,
    /// The calls of live prices that failed, by source.
    pub(super) problems: Vec<(Arc<str>, CloudError)>,
}

impl CollectedPrices {
    /// Reads the price lists if the Cluster Autoscaler uses prices. If that is not known, reads only as much as shows
    /// whether the credentials permit it.
    pub(super) async fn collect(input: &CheckInput<'_>, sources: &[CollectedSource]) -> Self {
        match input.autoscaler.uses_prices() {
            Some(false) => Self::default(),
            None if input.price_refresh.is_none() => Self::default(),
            None => Self { problems: join_all(input.sources.iter().map(sample)).await.concat(), ..Self::default() },
            Some(true) => {
                let problems = match input.price_refresh {
                    Some(refresh) => refresh.fetch(Some(Instant::now() + PATIENCE)).await,
                    None => Vec::new(),
                };
                Self { are_used: true, estimates: estimates(input, sources), problems }
            }
        }
    }
}

/// The calls that the credentials of a source do not permit.
async fn sample((name, cloud): &(Arc<str>, ReadOnlyCloud)) -> Vec<(Arc<str>, CloudError)> {
    let read = async {
        let region = cloud.price_regions().await.ok()?.into_iter().next()?;
        Some(cloud.price_list(&region, PriceExtent::Sample).await.problems)
    };
    let problems = timeout(PATIENCE, read).await.ok().flatten().unwrap_or_default();
    let denied = problems.into_iter().filter(|error| matches!(error, CloudError::Denied(_)));
    denied.map(|error| (Arc::clone(name), error)).collect()
}

fn estimates(input: &CheckInput<'_>, sources: &[CollectedSource]) -> Vec<(String, String)> {
    let groups = sources.iter().filter_map(|source| source.listed.as_ref().ok()).flat_map(|listed| &listed.groups);
    let estimate = |(id, offer)| {
        let provenance = input.prices.quote(offer).provenance;
        provenance.is_estimate().then(|| (id, provenance.to_string()))
    };
    groups
        .filter_map(|group| Some((group.id.clone(), &group.template.as_ref().ok()?.offer)))
        .filter_map(estimate)
        .collect()
}

/// The finding about `--expander=price`.
pub(super) fn of_expander(prices: &CollectedPrices) -> Finding {
    if prices.estimates.is_empty() {
        return Finding::ok(
            Code::CA_PRICE,
            SUBJECT,
            "uses --expander=price, and no price of a group is an estimate",
            "",
        );
    }
    let named = prices.estimates.iter().take(NAMED_MAX).map(|(id, provenance)| format!("{id} ({provenance})"));
    let mut groups = named.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = prices.estimates.len().checked_sub(NAMED_MAX) {
        groups.push_str(&format!(" and {more} more"));
    }
    let what = format!("uses --expander=price, and the prices of these groups are estimates: {groups}");
    let advice = "permit live prices, set price: and spotPrice: in a table of instance types, or choose another expander; \
                  `headcount prices` shows all prices";
    Finding::warning(Code::CA_PRICE, SUBJECT, what, advice)
}

/// The finding about live prices. They are optional: it is a warning only if they are known to be used.
pub(super) fn of_lists(prices: &CollectedPrices) -> Vec<Finding> {
    let finding = |(source, error): &(Arc<str>, CloudError)| {
        if prices.are_used {
            let advice = "optional: permit the call (statement HeadcountPrices of deploy/aws-iam-policy.json; for Azure, the host \
                          prices.azure.com), or set prices: {live: false}; the shipped table and estimates are used instead";
            Finding::warning(Code::PRICES, source, format!("live prices cannot be read: {error}"), advice)
        } else {
            let what = format!(
                "the credentials do not permit live prices, which are optional without --expander=price ({error})"
            );
            Finding::ok(Code::PRICES, source, what, "")
        }
    };
    prices.problems.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn the_first_groups_with_an_estimate_are_named_and_the_others_counted() {
        let estimates = (1..=7).map(|number| (format!("group-{number}"), "estimate: of a test".to_owned())).collect();
        let found = of_expander(&CollectedPrices { are_used: true, estimates, ..CollectedPrices::default() });
        assert_eq!(found.severity, Severity::Warning);
        let sentence = found.sentence();
        assert!(sentence.contains("group-5 (estimate: of a test) and 2 more — "), "{sentence}");
        assert_eq!(of_expander(&CollectedPrices::default()).severity, Severity::Ok);
    }

    #[test]
    fn live_prices_that_are_not_known_to_be_used_are_no_warning() {
        for (are_used, severity) in [(true, Severity::Warning), (false, Severity::Ok)] {
            let problems = vec![(Arc::from("us"), CloudError::refused("GetProducts", "us-east-1", "no"))];
            let found = of_lists(&CollectedPrices { are_used, problems, ..CollectedPrices::default() });
            assert_eq!(found[0].severity, severity);
            assert!(found[0].sentence().contains("optional"), "{}", found[0].sentence());
        }
    }
}
