//! The call to AWS Price List.

use async_trait::async_trait;
use aws_sdk_pricing::operation::get_products::GetProductsOutput;
use aws_sdk_pricing::types::{Filter, FilterType};

use super::PAGE_RECORDS;
use crate::cloud::{CloudError, PriceExtent};
use crate::clouds::aws::sdk::errors::cloud_error;

/// The two price lists, which differ in product family and tenancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clouds::aws) enum Hardware {
    /// Virtual machines.
    Shared,
    /// `*.metal*`, which AWS sells as dedicated.
    Metal,
}

/// AWS Price List.
#[async_trait]
pub(in crate::clouds::aws) trait PricingApi: Send + Sync {
    /// One page of the on-demand prices of Linux instances in a region, each as JSON.
    async fn get_products(
        &self,
        region: &str,
        hardware: Hardware,
        extent: PriceExtent,
        token: Option<String>,
    ) -> Result<GetProductsOutput, CloudError>;
}

/// AWS Price List through the SDK.
pub(in crate::clouds::aws) struct Pricing(pub(in crate::clouds::aws) aws_sdk_pricing::Client);

#[async_trait]
impl PricingApi for Pricing {
    async fn get_products(
        &self,
        region: &str,
        hardware: Hardware,
        extent: PriceExtent,
        token: Option<String>,
    ) -> Result<GetProductsOutput, CloudError> {
        let (tenancy, product_family) = match hardware {
            Hardware::Shared => ("Shared", "Compute Instance"),
            Hardware::Metal => ("Dedicated", "Compute Instance (bare metal)"),
        };
        let filters = [
            ("regionCode", region),
            ("operatingSystem", "Linux"),
            ("preInstalledSw", "NA"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
            ("tenancy", tenancy),
            ("productFamily", product_family),
        ];
        let filter = |(field, value)| Filter::builder().r#type(FilterType::TermMatch).field(field).value(value).build();
        let filters = filters.into_iter().map(filter).collect::<Result<_, _>>();
        let filters = filters.map_err(|error| CloudError::refused("GetProducts", region, error.to_string()))?;
        let call = self.0.get_products().service_code("AmazonEC2").set_filters(Some(filters)).set_next_token(token);
        let call = call.max_results(if extent == PriceExtent::Sample { 1 } else { PAGE_RECORDS });
        call.send().await.map_err(|error| cloud_error("GetProducts", region, error))
    }
}
