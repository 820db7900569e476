//! What one response says about throttling budgets.
//!
//! Compute throttles by policy. Some policies apply to the whole subscription and some to one scale set. Every response
//! names the policies that the call was charged to and what they have left. Resource Manager has budgets of its own.
//! <https://learn.microsoft.com/azure/virtual-machines/compute-throttling-limits>,
//! <https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling>

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::clouds::azure::http::HttpResponse;
use crate::clouds::azure::http::{ErrorBody, is_throttling, retry_after};

/// Budgets of Resource Manager: the header, and the name that logs and metrics use.
const SUBSCRIPTION_BUDGETS: [(&str, &str); 6] = [
    ("x-ms-ratelimit-remaining-subscription-reads", "subscription-reads"),
    ("x-ms-ratelimit-remaining-subscription-writes", "subscription-writes"),
    ("x-ms-ratelimit-remaining-subscription-deletes", "subscription-deletes"),
    // Since 2024, many responses carry these alone.
    ("x-ms-ratelimit-remaining-subscription-global-reads", "subscription-global-reads"),
    ("x-ms-ratelimit-remaining-subscription-global-writes", "subscription-global-writes"),
    ("x-ms-ratelimit-remaining-subscription-global-deletes", "subscription-global-deletes"),
];

/// Accepted writes carry this policy with 0, because nothing is queued. It is not a budget that calls use up.
const QUEUED_OPERATIONS: &str = "VmssQueuedVMOperations";

/// The longest pause after a response that says that the service is unavailable. No budget is spent then, and a proxy or a
/// gateway may name any time.
const UNAVAILABLE_MAX: Duration = Duration::from_secs(60);

/// The kinds of calls that Azure is expected to keep separate budgets for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::clouds::azure) enum Bucket {
    /// LIST of scale sets.
    SetList,
    /// GET of a scale set.
    SetGet,
    /// LIST of the VMs of a uniform scale set.
    MachineList,
    /// LIST of VMs, filtered by scale set: flexible scale sets.
    FlexibleList,
    /// LIST of SKUs.
    Sizes,
    /// What belongs to other services: autoscale settings, and node pools of AKS.
    Other,
    /// GET of the state of an operation.
    Poll,
    /// PATCH of a scale set.
    Update,
    /// POST of a deletion.
    Delete,
}

impl fmt::Display for Bucket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::SetList => "scale set lists",
            Self::SetGet => "scale set reads",
            Self::MachineList => "VM lists",
            Self::FlexibleList => "flexible VM lists",
            Self::Sizes => "VM size lists",
            Self::Other => "calls of other services",
            Self::Poll => "operation polls",
            Self::Update => "capacity updates",
            Self::Delete => "deletions",
        })
    }
}

impl Bucket {
    /// Whether each scale set has a small budget of its own for these calls: its writes, and the read before each.
    pub(in crate::clouds::azure) fn is_budgeted_per_set(self) -> bool {
        self.is_write() || self == Self::SetGet
    }

    pub(in crate::clouds::azure) fn is_write(self) -> bool {
        matches!(self, Self::Update | Self::Delete)
    }

    /// Whether a read can wait where no write needs it. The list of scale sets cannot wait: everything is served from
    /// it.
    pub(in crate::clouds::azure) fn can_wait(self) -> bool {
        matches!(self, Self::SetGet | Self::MachineList | Self::FlexibleList | Self::Sizes | Self::Other)
    }
}

/// What one response says about budgets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::clouds::azure) struct ThrottleInfo {
    /// What is left, by policy.
    pub(in crate::clouds::azure) remaining: Vec<(String, u64)>,
    /// Set if the call was throttled, or if the service asks for a pause.
    pub(in crate::clouds::azure) pause: Option<Pause>,
}

/// Which calls must not be sent, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::clouds::azure) struct Pause {
    /// How long, if the response says so.
    pub(in crate::clouds::azure) wait: Option<Duration>,
    /// The policy, if the response names it.
    pub(in crate::clouds::azure) policy: Option<String>,
    /// Resource Manager itself throttled the call, so all calls in the subscription are affected.
    pub(in crate::clouds::azure) whole_subscription: bool,
    /// The service is unavailable, which says nothing about the calls for other scale sets.
    pub(in crate::clouds::azure) is_of_target: bool,
}

impl ThrottleInfo {
    /// Reads a response.
    pub(in crate::clouds::azure) fn read(response: &HttpResponse, now: SystemTime) -> Self {
        let status = response.status.as_u16();
        let mut remaining = Vec::new();
        for value in response.headers.get_all("x-ms-ratelimit-remaining-resource") {
            let entries = value.to_str().unwrap_or_default().split(',');
            remaining.extend(entries.filter_map(|entry| {
                let (policy, left) = entry.trim().rsplit_once(';')?;
                Some((short_name(policy), count(left)?))
            }));
        }
        if response.status.is_success() {
            remaining.retain(|(policy, left)| *left > 0 || policy != QUEUED_OPERATIONS);
        }
        for (header, name) in SUBSCRIPTION_BUDGETS {
            remaining.extend(response.header(header).and_then(count).map(|left| (name.to_owned(), left)));
        }
        let wait = retry_after(&response.headers, now);
        let error = (status >= 400).then(|| ErrorBody::read(&response.body)).flatten();
        let pause = if is_throttling(status, error.as_ref()) {
            Some(Pause::of_throttling(response, error.as_ref(), &remaining, wait))
        } else {
            let is_unavailable = status == 503 && wait.is_some();
            let wait = wait.map(|wait| wait.min(UNAVAILABLE_MAX));
            is_unavailable.then_some(Pause { wait, policy: None, whole_subscription: false, is_of_target: true })
        };
        Self { remaining, pause }
    }
}

impl Pause {
    /// What a throttled call says: the policy, if it names one, or that all calls are affected.
    fn of_throttling(
        response: &HttpResponse,
        error: Option<&ErrorBody>,
        remaining: &[(String, u64)],
        wait: Option<Duration>,
    ) -> Self {
        let mut named = error.into_iter().flat_map(ErrorBody::all).filter(|error| error.target.is_some());
        let policy = named.next_back().and_then(|error| error.target.as_deref()).map(short_name);
        let is_policy = |name: &str| !is_subscription(name) && name != QUEUED_OPERATIONS;
        let spent = || remaining.iter().find(|(name, left)| *left == 0 && is_policy(name));
        let policy = policy.or_else(|| spent().map(|(name, _)| name.clone()));
        let gateway = response.header("x-ms-failure-cause").is_some_and(|cause| cause.contains("gateway"));
        let code = error.and_then(|error| error.code.as_deref()).unwrap_or_default();
        let spent_all = remaining.iter().any(|(name, left)| *left == 0 && is_subscription(name));
        let whole_subscription = policy.is_none() && (gateway || spent_all || code.starts_with("SubscriptionRequests"));
        Self { wait, policy, whole_subscription, is_of_target: false }
    }
}

fn is_subscription(name: &str) -> bool {
    SUBSCRIPTION_BUDGETS.iter().any(|(_, known)| *known == name)
}

// Headers have "Microsoft.Compute/HighCostGetVMScaleSet3Min"; errors leave the provider out.
fn short_name(policy: &str) -> String {
    policy.rsplit('/').next().unwrap_or(policy).trim().to_owned()
}

// Azure can report a negative remainder.
fn count(text: &str) -> Option<u64> {
    text.trim().parse::<i64>().ok().map(|left| u64::try_from(left).unwrap_or(0))
}

/// Whether a policy has one budget per scale set. The names of those policies end in `Resource`.
pub(in crate::clouds::azure) fn is_per_set(policy: &str) -> bool {
    policy.ends_with("Resource")
}
