//! Routes requests to their handlers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use headcount::clouds::simulated::{RESOURCE_GROUP, SUBSCRIPTION, Simulated};

use super::super::core::{EmulatorCore, lock};
use super::super::http_messages::{HandlerResult, HttpResponse, Request, decoded};
use super::super::http_server::RequestHandler;
use super::behavior::{Behavior, GroupDetails};
use super::errors::error;
use super::headers;
use super::operations::TrackedOperation;
use super::tokens::Issued;

/// The state of the emulator.
#[derive(Debug)]
pub(super) struct ArmApi {
    pub(super) core: EmulatorCore,
    pub(super) behavior: Mutex<Behavior>,
    pub(super) group_details: Mutex<BTreeMap<String, GroupDetails>>,
    /// The operations that can be followed, by ID.
    pub(super) tracked_operations: Mutex<BTreeMap<String, TrackedOperation>>,
    /// The issued tokens, oldest first.
    pub(super) issued: Mutex<Vec<Issued>>,
    numbers: AtomicU64,
}

impl ArmApi {
    pub(super) fn new(simulated: Arc<Simulated>) -> Self {
        Self {
            core: EmulatorCore::new(simulated),
            behavior: Mutex::default(),
            group_details: Mutex::default(),
            tracked_operations: Mutex::default(),
            issued: Mutex::default(),
            numbers: AtomicU64::new(1),
        }
    }

    pub(super) fn behavior(&self) -> Behavior {
        lock(&self.behavior).clone()
    }

    pub(super) fn group_details(&self, scale_set: &str) -> GroupDetails {
        lock(&self.group_details).get(scale_set).cloned().unwrap_or_default()
    }

    /// A new number.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    async fn compute(&self, request: &Request, path: &[&str]) -> HandlerResult {
        let written: Vec<String> = path.iter().map(|segment| decoded(segment)).collect();
        let lower: Vec<String> = written.iter().map(|segment| segment.to_ascii_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let name = |at: usize| written.get(at).map(String::as_str).unwrap_or_default();
        match (request.method.as_str(), lower.as_slice()) {
            (
                "GET",
                ["resourcegroups", _, "providers", "microsoft.containerservice", "managedclusters", _, "agentpools"],
            ) => Ok(self.list_agent_pools(request)),
            (_, ["resourcegroups", group, ..]) if !group.eq_ignore_ascii_case(RESOURCE_GROUP) => {
                let message = format!("Resource group '{}' could not be found.", name(1));
                Ok(error(404, "ResourceGroupNotFound", &message))
            }
            (method, ["resourcegroups", _, "providers", "microsoft.compute", rest @ ..]) => match (method, rest) {
                ("GET", ["virtualmachinescalesets"]) => self.list_scale_sets(request).await,
                ("GET", ["virtualmachines"]) => self.list_flexible_machines(request).await,
                ("DELETE", ["virtualmachines", _]) => self.delete_machine(request, name(5)).await,
                ("GET", ["virtualmachinescalesets", _]) => self.get_scale_set(name(5)).await,
                ("PATCH" | "PUT", ["virtualmachinescalesets", _]) => self.resize(request, name(5)).await,
                ("POST", ["virtualmachinescalesets", _, "delete"]) => self.delete(request, name(5)).await,
                ("GET", ["virtualmachinescalesets", _, "virtualmachines"]) => {
                    self.list_uniform_machines(request, name(5)).await
                }
                _ => Ok(nothing_there(request)),
            },
            ("GET", ["resourcegroups", _, "providers", "microsoft.insights", "autoscalesettings"]) => {
                Ok(self.list_autoscale_settings(request))
            }
            ("GET", ["providers", "microsoft.compute", "locations", _, "operations", _]) => {
                self.follow(request, name(5)).await
            }
            ("GET", ["providers", "microsoft.compute", "locations", _, "usages"]) => Ok(self.list_usages(request)),
            ("GET", ["providers", "microsoft.compute", "skus"]) => self.list_sizes(request).await,
            _ => Ok(nothing_there(request)),
        }
    }

    async fn route(&self, request: &Request) -> HandlerResult {
        let path: Vec<&str> = request.path.split('/').filter(|segment| !segment.is_empty()).collect();
        match path.as_slice() {
            [a, subscription, rest @ ..] if a.eq_ignore_ascii_case("subscriptions") => {
                if let Some(response) = self.reject_unauthorized(request) {
                    return Ok(response);
                }
                if request.parameter("api-version").is_none() {
                    let message = "The api-version query parameter (?api-version=) is required for all requests.";
                    return Ok(error(400, "MissingApiVersionParameter", message));
                }
                if !subscription.eq_ignore_ascii_case(SUBSCRIPTION) {
                    let message = format!("The subscription '{subscription}' could not be found.");
                    return Ok(error(404, "SubscriptionNotFound", &message));
                }
                self.compute(request, rest).await
            }
            ["api", "retail", "prices"] if request.method == "GET" => Ok(self.retail_prices(request)),
            [tenant, "oauth2", "v2.0", "token"] if request.method == "POST" => Ok(self.issue_token(request, tenant)),
            ["msi", "token"] if request.method == "GET" => Ok(self.app_service_token(request)),
            ["metadata", rest @ ..] if request.method == "GET" => Ok(self.metadata(request, rest)),
            _ => Ok(nothing_there(request)),
        }
    }
}

#[async_trait]
impl RequestHandler for ArmApi {
    fn core(&self) -> &EmulatorCore {
        &self.core
    }

    async fn response(&self, request: &Request) -> HandlerResult {
        let request_id = format!("00000000-0000-4000-9000-{:012x}", self.number());
        let remaining = self.behavior().remaining;
        let tagged = |response: HttpResponse| {
            headers::with_budgets(request, response, &remaining).header("x-ms-request-id", &request_id)
        };
        match self.route(request).await {
            Ok(response) => Ok(tagged(response)),
            Err(super::super::http_messages::Interruption::Response(response)) => Ok(tagged(response)),
            Err(silence) => Err(silence),
        }
    }
}

fn nothing_there(request: &Request) -> HttpResponse {
    let message = format!("No route for {} {}.", request.method, request.path);
    error(404, "InvalidResourceType", &message)
}
