//! Headers and values in the form that recordings of Azure Resource Manager from 2024 on show.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::super::http_messages::{HttpResponse, Request};

/// The signed query of an operation's address. Addresses are 3 to 4.5 kB long.
const SIGNATURE_LENGTH: usize = 3_800;

/// A time of the world: 7 decimals and an offset, never `Z`.
pub(super) fn timestamp(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_millis(time).to_string();
    format!("{}4271+00:00", text.trim_end_matches('Z'))
}

pub(super) fn signature() -> String {
    format!("t=638600000000000000&c={}&s=_-&h=", "MIIH".repeat(SIGNATURE_LENGTH / 4))
}

/// The policies that a call is charged to, with what is left of them, and Resource Manager's own budget.
pub(super) fn with_budgets(
    request: &Request,
    response: HttpResponse,
    remaining: &BTreeMap<String, u64>,
) -> HttpResponse {
    const RESOURCE: &str = "x-ms-ratelimit-remaining-resource";
    let is_write = request.method != "GET";
    let response = match (request.method.as_str(), is_write) {
        (_, true) => response.header("x-ms-ratelimit-remaining-subscription-global-writes", 2_999),
        _ => response.header(
            "x-ms-ratelimit-remaining-subscription-global-reads",
            left("subscription-global-reads", 16_499, remaining),
        ),
    };
    if response.headers.iter().any(|(name, _)| name == RESOURCE) {
        return response;
    }
    let policies = policies(request)
        .iter()
        .map(|(policy, most)| format!("Microsoft.Compute/{policy};{}", left(policy, *most, remaining)));
    let policies: Vec<String> = policies.collect();
    if policies.is_empty() { response } else { response.header(RESOURCE, policies.join(",")) }
}

fn left(policy: &str, most: u64, remaining: &BTreeMap<String, u64>) -> u64 {
    remaining.get(policy).copied().unwrap_or(most)
}

fn policies(request: &Request) -> &'static [(&'static str, u64)] {
    let path = request.path.to_ascii_lowercase();
    match request.method.as_str() {
        "POST" if path.ends_with("/delete") => &[
            ("VMScaleSetActions3Min", 237),
            ("VMScaleSetActionsSubscriptionMaximum", 1_499),
            ("VmssQueuedVMOperations", 0),
        ],
        "PATCH" | "PUT" => &[("CreateVMScaleSetSubscriptionMaximum", 374), ("VmssQueuedVMOperations", 0)],
        "GET" if path.contains("/operations/") => &[("GetOperationResource", 44), ("GetOperation3Min", 14_999)],
        "GET" if path.ends_with("/virtualmachines") => &[("HighCostGetVMScaleSetSubscriptionMaximum", 899)],
        "GET" if path.contains("/virtualmachinescalesets") => {
            &[("GetVMScaleSet3Min", 1_299), ("GetVMScaleSetSubscriptionMaximum", 3_999)]
        }
        _ => &[],
    }
}
