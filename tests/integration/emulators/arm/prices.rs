//! The Azure Retail Prices API, at the address of Azure Resource Manager. It is public: a token would be a leak.

use serde_json::{Value, json};

use super::super::http_messages::{HttpResponse, Request};
use super::router::ArmApi;

/// Sizes with their price on demand and as spot capacity. No shipped table has these figures.
pub(crate) const PRICES: [(&str, f64, f64); 20] = [
    ("Standard_D2s_v3", 0.0971, 0.019_421),
    ("Standard_D4s_v3", 0.1942, 0.038_842),
    ("Standard_D8s_v3", 0.3884, 0.077_684),
    ("Standard_D2s_v5", 0.0975, 0.018_432),
    ("Standard_D4s_v5", 0.195, 0.036_864),
    ("Standard_D4ps_v5", 0.1555, 0.029_102),
    ("Standard_NC24ads_A100_v4", 3.6731, 1.322_41),
    ("Standard_E8-4ds_v5", 0.5761, 0.108_907),
    ("Standard_B1ls", 0.0053, 0.001_04),
    ("Standard_F72s_v2", 3.0451, 0.575_524),
    ("Standard_E2s_v3", 0.1271, 0.024_03),
    ("Standard_E4s_v3", 0.2521, 0.048_06),
    ("Standard_F4s_v2", 0.1701, 0.032_15),
    ("Standard_F8s_v2", 0.3391, 0.064_3),
    ("Standard_L8s_v3", 0.6981, 0.131_9),
    ("Standard_M64s", 6.6691, 1.260_5),
    ("Standard_NV6ads_A10_v5", 0.4541, 0.085_8),
    ("Standard_HB120rs_v3", 3.6001, 0.680_4),
    ("Standard_DS2_v2", 0.1461, 0.027_6),
    ("Standard_X99_v9", 12.3456, 2.345_678),
];

impl ArmApi {
    pub(super) fn retail_prices(&self, request: &Request) -> HttpResponse {
        if request.header("authorization").is_some() {
            return HttpResponse::new(500).body("a token was sent to a public API");
        }
        let filter = request.parameter("$filter").unwrap_or_default();
        let conditions: Vec<(String, String)> = filter
            .split(" and ")
            .filter_map(|part| part.split_once(" eq "))
            .map(|(field, value)| (field.trim().to_owned(), value.trim().trim_matches('\'').to_owned()))
            .collect();
        let holds = |item: &Value| {
            conditions.iter().all(|(field, value)| {
                let field = if field == "priceType" { "type" } else { field };
                item[field].as_str() == Some(value)
            })
        };
        let found: Vec<Value> = PRICES.iter().flat_map(|row| all_items(*row)).filter(holds).collect();
        let from = request.parameter("$skip").and_then(|skip| skip.parse().ok()).unwrap_or(0);
        let until = found.len().min(from + self.behavior().page);
        let query = request.query.split('&').filter(|pair| !pair.contains("skip=")).collect::<Vec<_>>().join("&");
        let next = (until < found.len()).then(|| format!("{}{}?{query}&$skip={until}", request.origin(), request.path));
        let page = &found[from..until];
        HttpResponse::json(
            200,
            &json!({
                "BillingCurrency": "USD",
                "CustomerEntityId": "Default",
                "CustomerEntityType": "Retail",
                "Items": page,
                "NextPageLink": next,
                "Count": page.len(),
            }),
        )
    }
}

/// All entries of the list for a size.
fn all_items((size, price, spot): (&str, f64, f64)) -> Vec<Value> {
    let name = size.trim_start_matches("Standard_").replace('_', " ");
    let series = format!("Virtual Machines {} Series", name.split(' ').next().unwrap_or_default());
    let item = |region: &str, product: &str, suffix: &str, kind: &str, price: f64| {
        json!({
            "currencyCode": "USD",
            "tierMinimumUnits": 0.0,
            "retailPrice": price,
            "unitPrice": price,
            "armRegionName": region,
            "location": "US West 2",
            "effectiveStartDate": "2026-01-01T00:00:00Z",
            "meterId": "000a794b-bdb0-58be-a0cd-0c3a0f222923",
            "meterName": format!("{name}{suffix}"),
            "productId": "DZH318Z0BQPS",
            "skuId": "DZH318Z0BQPS/00TG",
            "productName": product,
            "skuName": format!("{name}{suffix}"),
            "serviceName": "Virtual Machines",
            "serviceId": "DZH313Z7MMC8",
            "serviceFamily": "Compute",
            "unitOfMeasure": "1 Hour",
            "type": kind,
            "isPrimaryMeterRegion": true,
            "armSkuName": size,
        })
    };
    let windows = format!("{series} Windows");
    let here = "westus2";
    let mut reservation = item(here, &series, "", "Reservation", 5000.0);
    reservation["reservationTerm"] = "1 Year".into();
    let mut secondary = item(here, &series, "", "Consumption", 95.0);
    secondary["isPrimaryMeterRegion"] = false.into();
    let mut tier = item(here, &series, "", "Consumption", 94.0);
    tier["tierMinimumUnits"] = 100.0.into();
    vec![
        secondary,
        item(here, &windows, "", "Consumption", 99.0),
        item(here, &series, " Low Priority", "Consumption", 98.0),
        item(here, &series, "", "Consumption", price),
        item(here, &series, " Spot", "Consumption", spot),
        item(here, &windows, " Spot", "Consumption", 97.0),
        item(here, &format!("{series} CloudServices"), "", "Consumption", 93.0),
        item(here, &series, "", "DevTestConsumption", 96.0),
        reservation,
        tier,
        item("eastus", &series, "", "Consumption", 92.0),
    ]
}
