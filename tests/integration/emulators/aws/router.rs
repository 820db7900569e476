//! Routes requests to their handlers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use headcount::clouds::simulated::{CallKind, Simulated, World};

use super::super::core::{EmulatorCore, lock};
use super::super::http_messages::{HandlerResult, Interruption, Request};
use super::super::http_server::RequestHandler;
use super::behavior::{Behavior, GroupDetails};
use super::errors::{self, error};
use super::prices::GET_PRODUCTS;
use super::service_accounts::IssuedKey;

/// The service whose error format a response has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    AutoScaling,
    Ec2,
    Eks,
}

/// The state of the emulator.
#[derive(Debug)]
pub(super) struct AwsApi {
    pub(super) core: EmulatorCore,
    pub(super) behavior: Mutex<Behavior>,
    pub(super) group_details: Mutex<BTreeMap<String, GroupDetails>>,
    /// The keys that service accounts got.
    pub(super) issued: Mutex<Vec<IssuedKey>>,
    /// The data of all versions of each launch template, by name.
    pub(super) template_versions: Mutex<BTreeMap<String, Vec<String>>>,
}

impl AwsApi {
    pub(super) fn new(simulated: Arc<Simulated>) -> Self {
        Self {
            core: EmulatorCore::new(simulated),
            behavior: Mutex::default(),
            group_details: Mutex::default(),
            issued: Mutex::default(),
            template_versions: Mutex::default(),
        }
    }

    pub(super) fn behavior(&self) -> Behavior {
        lock(&self.behavior).clone()
    }

    /// The date of the next response, if it is not AWS's time.
    fn next_date(&self) -> Option<SystemTime> {
        let dates = &mut lock(&self.behavior).dates;
        (!dates.is_empty()).then(|| dates.remove(0))
    }

    /// A time of the world by AWS's clock.
    pub(super) fn timestamp(&self, at: Duration) -> String {
        humantime::format_rfc3339_millis(self.core.time(at) - self.behavior().clock_behind).to_string()
    }

    pub(super) fn group_details(&self, group: &str) -> GroupDetails {
        lock(&self.group_details).get(group).cloned().unwrap_or_default()
    }

    pub(super) fn all_group_details(&self) -> Vec<GroupDetails> {
        lock(&self.group_details).values().cloned().collect()
    }

    /// Makes a call with its delays and faults.
    pub(super) async fn call<R>(
        &self,
        service: Service,
        kind: CallKind,
        group: Option<&str>,
        detail: String,
        act: impl FnOnce(&mut World, Duration) -> R,
    ) -> Result<R, Interruption> {
        let busy = self.behavior().busy;
        self.core.call(kind, group, detail, |call_fault| errors::call_fault(service, busy, call_fault), act).await
    }
}

#[async_trait]
impl RequestHandler for AwsApi {
    fn core(&self) -> &EmulatorCore {
        &self.core
    }

    async fn response(&self, request: &Request) -> HandlerResult {
        let Behavior { access_key, clock_behind, .. } = self.behavior();
        let signed_by = request.header("authorization").unwrap_or_default();
        if access_key.is_some_and(|key| !signed_by.contains(&format!("Credential={key}/"))) {
            let message = "The security token included in the request is invalid.";
            return Ok(error(403, "InvalidClientTokenId", message));
        }
        if self.has_expired(signed_by) {
            let message = "The security token included in the request is expired";
            return Ok(error(403, "ExpiredToken", message));
        }
        let response = self.answer_to(request).await?;
        if let Some(date) = self.next_date() {
            return Ok(response.header("date", http_date(date)));
        }
        if clock_behind.is_zero() {
            return Ok(response);
        }
        Ok(response.header("date", http_date(SystemTime::now() - clock_behind)))
    }
}

/// A time as a Date header shows it.
fn http_date(time: SystemTime) -> String {
    let time = aws_smithy_types::DateTime::from(time);
    time.fmt(aws_smithy_types::date_time::Format::HttpDate).expect("a time of this century")
}

impl AwsApi {
    async fn answer_to(&self, request: &Request) -> HandlerResult {
        let path: Vec<&str> = request.path.split('/').filter(|segment| !segment.is_empty()).collect();
        if let ["clusters", cluster, "node-groups", nodegroup] = path[..] {
            return self.describe_nodegroup(cluster, nodegroup).await;
        }
        if request.path.starts_with("/managedresources/") {
            return Ok(self.managed_resource(request));
        }
        if let ["v1", "credentials"] = path[..] {
            return Ok(self.pod_identity(request));
        }
        if request.header("x-amz-target") == Some(GET_PRODUCTS) {
            return Ok(self.get_products(request));
        }
        match request.field("Action").unwrap_or_default().as_str() {
            "DescribeAutoScalingGroups" => self.describe_groups(request).await,
            "DescribeLaunchConfigurations" => self.describe_launch_configurations(request).await,
            "DescribeScalingActivities" => self.describe_activities(request).await,
            "DescribeInstanceRefreshes" => Ok(self.describe_instance_refreshes(request)),
            "DescribePolicies" => Ok(self.describe_policies()),
            "DescribeScheduledActions" => Ok(self.describe_scheduled_actions(request)),
            "SetDesiredCapacity" => self.set_desired_capacity(request).await,
            "LaunchInstances" => self.launch_instances(request).await,
            "TerminateInstanceInAutoScalingGroup" => self.terminate(request).await,
            "AssumeRole" => Ok(self.assume_role(request)),
            "AssumeRoleWithWebIdentity" => Ok(self.assume_role_with_web_identity(request)),
            "GetCallerIdentity" => Ok(self.caller_identity(request)),
            "DescribeAvailabilityZones" => Ok(self.describe_zones()),
            "DescribeImages" => self.describe_images(request).await,
            "DescribeInstanceTypes" => self.describe_types(request).await,
            "DescribeSpotPriceHistory" => Ok(self.describe_spot_prices(request)),
            "DescribeLaunchTemplateVersions" => self.describe_launch_template_versions(request).await,
            "DescribeLaunchTemplates" => self.describe_launch_templates(request).await,
            "GetInstanceTypesFromInstanceRequirements" => self.types_satisfying(request).await,
            other => Ok(error(400, "InvalidAction", &format!("The action {other} is not valid for this endpoint."))),
        }
    }
}
