//! The client of the Price List API. The API is served in a few regions of two partitions, and lists the prices of
//! all others.

use std::sync::Arc;

use aws_config::{Region, SdkConfig};
use aws_smithy_runtime_api::client::interceptors::SharedInterceptor;
use aws_types::service_config::ServiceConfigKey;

use super::api::{Pricing, PricingApi};

/// The other services that Headcount calls, by their names in variables and profiles.
const OTHER_SERVICES: [&str; 4] = ["Auto Scaling", "EC2", "EKS", "STS"];

/// The client for the prices of a region. `None` where no Price List API has them, or where calling it could send
/// credentials to AWS although the other services are called elsewhere.
pub(super) fn client(region: &str, config: &SdkConfig, metering: SharedInterceptor) -> Option<Arc<dyn PricingApi>> {
    let serving = serving_region(region)?;
    if !is_endpoint_chosen(&|service| endpoint_of(config, service), config.endpoint_url().is_some()) {
        tracing::debug!(
            region,
            "an endpoint is configured for another service and none for Pricing; not reading live prices"
        );
        return None;
    }
    let config = aws_sdk_pricing::config::Builder::from(config)
        .region(Region::from_static(serving))
        .interceptor(metering)
        .build();
    Some(Arc::new(Pricing(aws_sdk_pricing::Client::from_conf(config))))
}

/// The nearest region that serves the Price List API for this one. The partitions of the US government, the European
/// Sovereign Cloud and the isolated ones have none, and their credentials are not valid elsewhere.
fn serving_region(region: &str) -> Option<&'static str> {
    let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| region.starts_with(prefix));
    if is(&["us-gov-", "us-iso", "eu-iso", "eusc-"]) {
        None
    } else if is(&["cn-"]) {
        Some("cn-northwest-1")
    } else if is(&["ap-"]) {
        Some("ap-south-1")
    } else if is(&["eu-", "af-", "il-", "me-"]) {
        Some("eu-central-1")
    } else {
        Some("us-east-1")
    }
}

/// Whether Pricing may be called: at AWS, or at the endpoint that is configured for all services or for this one. If
/// only other services have endpoints of their own, as in tests or behind proxies, Pricing must not be called at AWS.
fn is_endpoint_chosen(endpoint_of: &dyn Fn(&str) -> Option<String>, has_common: bool) -> bool {
    has_common
        || endpoint_of("Pricing").is_some()
        || !OTHER_SERVICES.iter().any(|service| endpoint_of(service).is_some())
}

/// The endpoint that the environment or the profile sets for a service.
fn endpoint_of(config: &SdkConfig, service: &str) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id(service).env("AWS_ENDPOINT_URL").profile("endpoint_url");
    config.service_config()?.load_config(key.build().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_region_is_priced_by_an_api_of_its_own_partition_or_none() {
        for (region, serving) in [
            ("us-east-2", Some("us-east-1")),
            ("sa-east-1", Some("us-east-1")),
            ("eu-west-3", Some("eu-central-1")),
            ("ap-southeast-2", Some("ap-south-1")),
            ("cn-north-1", Some("cn-northwest-1")),
            ("us-gov-west-1", None),
            ("us-isob-east-1", None),
            ("eu-isoe-west-1", None),
            ("eusc-de-east-1", None),
        ] {
            assert_eq!(serving_region(region), serving, "{region}");
        }
    }

    #[test]
    fn prices_are_not_read_from_aws_where_other_services_are_called_elsewhere() {
        let set = |services: &'static [&'static str]| {
            move |service: &str| services.contains(&service).then(|| "http://127.0.0.1:1".to_owned())
        };
        assert!(is_endpoint_chosen(&set(&[]), false), "AWS itself");
        assert!(is_endpoint_chosen(&set(&["EC2"]), true), "one endpoint for all services");
        assert!(is_endpoint_chosen(&set(&["EC2", "Pricing"]), false), "an endpoint of its own");
        for other in OTHER_SERVICES {
            assert!(!is_endpoint_chosen(&|service| (service == other).then(String::new), false), "{other}");
        }
    }
}
