//! The Price List API (JSON 1.1) and DescribeSpotPriceHistory.

use serde_json::{Value, json};

use super::super::http_messages::{HttpResponse, Request};
use super::errors::ec2_error;
use super::router::AwsApi;
use super::xml::{ec2_answer, items, text};

/// What the header `x-amz-target` of a GetProducts request is.
pub(super) const GET_PRODUCTS: &str = "AWSPriceListService.GetProducts";
const REGION: &str = "us-east-1";

/// Types with their price on demand, and as spot capacity in the zones a and b. No shipped table has these figures.
pub(crate) const PRICES: [(&str, &str, &str, &str); 20] = [
    ("m5.large", "0.0971000000", "0.034100", "0.031200"),
    ("m5.xlarge", "0.1931000000", "0.068300", "0.070100"),
    ("m5.2xlarge", "0.3851000000", "0.141000", "0.139900"),
    ("m5a.large", "0.0871000000", "0.030200", "0.029800"),
    ("c5.large", "0.0861000000", "0.033300", "0.035500"),
    ("c5d.large", "0.0971100000", "0.036600", "0.036500"),
    ("m5d.large", "0.1141000000", "0.039900", "0.041000"),
    ("r5.large", "0.1271000000", "0.044400", "0.045500"),
    ("g4dn.xlarge", "0.5271000000", "0.210100", "0.199900"),
    ("m99.large", "0.3331000000", "0.111100", "0.122200"),
    ("g5.12xlarge", "5.6731000000", "2.345600", "2.456700"),
    ("inf2.xlarge", "0.7591000000", "0.257800", "0.268900"),
    ("p4d.24xlarge", "32.7731000000", "9.876500", "10.987600"),
    ("m6g.large", "0.0781000000", "0.027700", "0.026600"),
    ("t3.nano", "0.0053000000", "0.001700", "0.001600"),
    ("t4g.nano", "0.0043000000", "0.001300", "0.001400"),
    ("m5.metal", "4.6091000000", "1.654300", "1.543200"),
    ("i3.metal", "4.9931000000", "1.765400", "1.876500"),
    ("x2gd.large", "0.1681000000", "0.060600", "0.059500"),
    ("u-6tb1.112xlarge", "54.6001000000", "18.181800", "17.171700"),
];

impl AwsApi {
    /// Products that pass all filters. Beside the Linux instances on demand there are Windows, other software, unused
    /// reservations, dedicated tenancy and other regions, as in the real list.
    pub(super) fn get_products(&self, request: &Request) -> HttpResponse {
        let query = request.json();
        let filters = query["Filters"].as_array().cloned().unwrap_or_default();
        let products = PRICES.iter().flat_map(|row| products(row.0, row.1));
        let passes = |product: &Value| {
            filters.iter().all(|filter| {
                let (field, value) = (filter["Field"].as_str().unwrap_or_default(), &filter["Value"]);
                let product = &product["product"];
                let own = if field == "productFamily" { &product[field] } else { &product["attributes"][field] };
                filter["Type"] == "TERM_MATCH" && own == value
            })
        };
        let found: Vec<String> = products.filter(passes).map(|product| product.to_string()).collect();
        let from: usize = query["NextToken"].as_str().and_then(|token| token.parse().ok()).unwrap_or(0);
        let most = query["MaxResults"].as_u64().and_then(|most| usize::try_from(most).ok()).unwrap_or(100);
        let until = found.len().min(from + most.min(self.behavior().page));
        let mut body = json!({"FormatVersion": "aws_v1", "PriceList": found[from..until]});
        if until < found.len() {
            body["NextToken"] = until.to_string().into();
        }
        HttpResponse::json(200, &body).header("content-type", "application/x-amz-json-1.1")
    }

    /// The newest prices at the requested time, and the previous ones if these end at that time.
    pub(super) fn describe_spot_prices(&self, request: &Request) -> HttpResponse {
        if request.field("StartTime").is_none() {
            return ec2_error(400, "InvalidParameterValue", "The emulator has current prices only; send a StartTime.");
        }
        let wanted = request.fields("ProductDescription");
        let item = |type_name: &str, os: &str, zone: &str, price: &str, since: &str| {
            (
                os.to_owned(),
                [
                    text("instanceType", type_name),
                    text("productDescription", os),
                    text("spotPrice", price),
                    text("timestamp", since),
                    text("availabilityZone", format!("{REGION}{zone}")),
                ]
                .concat(),
            )
        };
        let (old, new) = ("2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z");
        let all = PRICES.iter().flat_map(|(name, _, in_a, in_b)| {
            [
                item(name, "Linux/UNIX", "a", in_a, new),
                item(name, "Linux/UNIX", "a", "7.770000", old),
                item(name, "Windows", "a", "9.990000", new),
                item(name, "Linux/UNIX", "b", in_b, new),
            ]
        });
        let all = all.filter(|(os, _)| wanted.is_empty() || wanted.contains(os)).map(|(_, item)| item).collect();
        let (page, next) = self.page(request, "MaxResults", 1000, all);
        // The last page has an empty token.
        let result = items("spotPriceHistorySet", page) + &text("nextToken", next.unwrap_or_default());
        HttpResponse::xml(200, ec2_answer("DescribeSpotPriceHistory", result))
    }
}

/// All products of a type.
fn products(name: &str, price: &str) -> Vec<Value> {
    let is_metal = name.contains("metal");
    let (family, tenancy) =
        if is_metal { ("Compute Instance (bare metal)", "Dedicated") } else { ("Compute Instance", "Shared") };
    let product = |region: &str, os: &str, software: &str, capacity: &str, tenancy: &str, price: &str| {
        json!({
            "product": {
                "productFamily": family,
                "attributes": {
                    "instanceType": name,
                    "regionCode": region,
                    "operatingSystem": os,
                    "preInstalledSw": software,
                    "capacitystatus": capacity,
                    "marketoption": "OnDemand",
                    "tenancy": tenancy,
                    "servicecode": "AmazonEC2",
                },
                "sku": "2223B6PCG6QAUYY6",
            },
            "serviceCode": "AmazonEC2",
            "terms": {
                "OnDemand": {"2223B6PCG6QAUYY6.JRTCKXETXF": {
                    "priceDimensions": {"2223B6PCG6QAUYY6.JRTCKXETXF.6YS6EN2CT7": {
                        "unit": "Hrs", "endRange": "Inf", "beginRange": "0", "appliesTo": [],
                        "pricePerUnit": {"USD": price},
                    }},
                    "offerTermCode": "JRTCKXETXF", "effectiveDate": "2026-11-01T00:00:00Z", "termAttributes": {},
                }},
                "Reserved": {"2223B6PCG6QAUYY6.38NPMPTW36": {
                    "priceDimensions": {"2223B6PCG6QAUYY6.38NPMPTW36.2TG2D8R56U": {
                        "unit": "Quantity", "pricePerUnit": {"USD": "1234"},
                    }},
                }},
            },
            "version": "20261101000000",
            "publicationDate": "2026-11-01T00:00:00Z",
        })
    };
    vec![
        product(REGION, "Linux", "NA", "Used", tenancy, price),
        product(REGION, "Windows", "NA", "Used", tenancy, "77.0000000000"),
        product(REGION, "Linux", "SQL Std", "Used", tenancy, "78.0000000000"),
        product(REGION, "Linux", "NA", "UnusedCapacityReservation", tenancy, "79.0000000000"),
        product(REGION, "Linux", "NA", "Used", if is_metal { "Host" } else { "Dedicated" }, "80.0000000000"),
        product("us-west-2", "Linux", "NA", "Used", tenancy, "81.0000000000"),
    ]
}
