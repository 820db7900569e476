//! An AWS in memory for the unit tests. It keeps groups, records calls and returns the failures that a test asks for.

mod auto_scaling;
mod ec2;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_sdk_autoscaling::operation::describe_policies::DescribePoliciesOutput;
use aws_sdk_autoscaling::operation::describe_scaling_activities::DescribeScalingActivitiesOutput;
use aws_sdk_autoscaling::operation::describe_scheduled_actions::DescribeScheduledActionsOutput;
use aws_sdk_autoscaling::operation::launch_instances::LaunchInstancesOutput;
use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
use aws_sdk_autoscaling::types::{
    Activity, AutoScalingGroup, InstanceRefresh, LaunchConfiguration, ScalingPolicy, ScheduledUpdateGroupAction,
};
use aws_sdk_ec2::operation::describe_instance_types::DescribeInstanceTypesOutput;
use aws_sdk_ec2::operation::describe_launch_templates::DescribeLaunchTemplatesOutput;
use aws_sdk_ec2::operation::describe_spot_price_history::DescribeSpotPriceHistoryOutput;
use aws_sdk_ec2::operation::get_instance_types_from_instance_requirements::GetInstanceTypesFromInstanceRequirementsOutput;
use aws_sdk_ec2::types::{
    ArchitectureType, Image, InstanceRequirementsRequest, InstanceType, InstanceTypeInfo,
    InstanceTypeInfoFromInstanceRequirements, LaunchTemplate, LaunchTemplateVersion, MemoryInfo, SpotPrice, VCpuInfo,
    VirtualizationType,
};
use aws_sdk_eks::types::Nodegroup;
use aws_sdk_pricing::operation::get_products::GetProductsOutput;

use super::api::{
    AutoScalingApi, Ec2Api, EksApi, GroupQuery, GroupsPage, Hardware, PricingApi, TemplateKey, ZonalShiftApi,
};
use super::errors::{FailedCall, classify};
use super::identity::StsApi;
use crate::cloud::{CloudError, PriceExtent};

/// The fake's groups and other resources, and the calls it received.
#[derive(Default)]
pub(in crate::clouds::aws) struct State {
    pub(in crate::clouds::aws) groups: Vec<AutoScalingGroup>,
    pub(in crate::clouds::aws) configurations: HashMap<String, LaunchConfiguration>,
    /// By `name@version`.
    pub(in crate::clouds::aws) templates: HashMap<String, LaunchTemplateVersion>,
    /// IDs of launch templates that DescribeLaunchTemplates leaves out.
    pub(in crate::clouds::aws) hidden_templates: HashSet<String>,
    pub(in crate::clouds::aws) images: HashMap<String, Image>,
    pub(in crate::clouds::aws) nodegroups: HashMap<String, Nodegroup>,
    pub(in crate::clouds::aws) activities: Vec<Activity>,
    /// How many empty pages come before the activities.
    pub(in crate::clouds::aws) empty_pages: usize,
    pub(in crate::clouds::aws) policies: Vec<ScalingPolicy>,
    pub(in crate::clouds::aws) scheduled: Vec<ScheduledUpdateGroupAction>,
    /// The latest instance refresh, by group.
    pub(in crate::clouds::aws) refreshes: HashMap<String, InstanceRefresh>,
    /// The IDs of the zones that zonal shifts move a group away from, by its ARN.
    pub(in crate::clouds::aws) shifted: HashMap<String, Vec<String>>,
    /// What LaunchInstances returns.
    pub(in crate::clouds::aws) launched: Option<LaunchInstancesOutput>,
    /// Instance types EC2 knows.
    pub(in crate::clouds::aws) types: Vec<String>,
    /// The products of the price list, and the spot prices.
    pub(in crate::clouds::aws) products: Vec<String>,
    pub(in crate::clouds::aws) spot_prices: Vec<SpotPrice>,
    /// Whether DescribeAutoScalingGroups returns every group, whichever it is asked for.
    pub(in crate::clouds::aws) ignores_queries: bool,
    /// Items per page.
    pub(in crate::clouds::aws) page: usize,
    /// How long a termination takes.
    pub(in crate::clouds::aws) latency: Duration,
    /// Every call, in order, as `Operation subject`.
    pub(in crate::clouds::aws) calls: Vec<String>,
    /// The failures of the next calls, by operation, or operation and subject: code, message, status.
    pub(in crate::clouds::aws) failures: HashMap<String, VecDeque<(&'static str, &'static str, u16)>>,
    /// The architectures and requirements that GetInstanceTypesFromInstanceRequirements received.
    pub(in crate::clouds::aws) requirements: Vec<(Vec<ArchitectureType>, InstanceRequirementsRequest)>,
}

/// A handle on the fake.
#[derive(Clone, Default)]
pub(in crate::clouds::aws) struct Fake(pub(in crate::clouds::aws) Arc<Mutex<State>>);

impl Fake {
    /// An AWS with these groups.
    pub(in crate::clouds::aws) fn with(groups: Vec<AutoScalingGroup>) -> Self {
        Self(Arc::new(Mutex::new(State { groups, page: 100, ..State::default() })))
    }

    /// Reads or changes the state.
    pub(in crate::clouds::aws) fn state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the next call fail.
    pub(in crate::clouds::aws) fn fail(&self, call: &str, code: &'static str, message: &'static str, status: u16) {
        self.state(|state| state.failures.entry(call.to_owned()).or_default().push_back((code, message, status)));
    }

    /// The calls of one operation, by subject.
    pub(in crate::clouds::aws) fn calls(&self, operation: &str) -> Vec<String> {
        let of =
            |call: &String| call.split_once(' ').filter(|(name, _)| *name == operation).map(|(_, on)| on.to_owned());
        self.state(|state| state.calls.iter().filter_map(of).collect())
    }

    fn call<R>(
        &self,
        operation: &'static str,
        subject: &str,
        response: impl FnOnce(&mut State) -> R,
    ) -> Result<R, CloudError> {
        self.state(|state| {
            state.calls.push(format!("{operation} {subject}"));
            let failure = [format!("{operation} {subject}"), operation.to_owned()]
                .iter()
                .find_map(|call| state.failures.get_mut(call).and_then(VecDeque::pop_front));
            match failure {
                None => Ok(response(state)),
                Some((code, message, status)) => Err(fault(operation, subject, code, message, status)),
            }
        })
    }
}

fn fault(operation: &'static str, subject: &str, code: &str, message: &str, status: u16) -> CloudError {
    let code = Some(code.to_owned()).filter(|code| !code.is_empty());
    let call = FailedCall { code, message: message.to_owned(), status: Some(status), ..FailedCall::default() };
    classify(operation, subject, call, None)
}

fn page<T: Clone>(all: &[T], token: Option<String>, size: usize) -> (Vec<T>, Option<String>) {
    let start = token.map_or(0, |token| token.parse::<usize>().expect("a token of ours"));
    let end = all.len().min(start + size);
    (all[start..end].to_vec(), (end < all.len()).then(|| end.to_string()))
}

#[async_trait]
impl PricingApi for Fake {
    async fn get_products(
        &self,
        region: &str,
        hardware: Hardware,
        _extent: PriceExtent,
        token: Option<String>,
    ) -> Result<GetProductsOutput, CloudError> {
        self.call("GetProducts", region, |state| {
            let of = |product: &&String| product.contains("metal") == (hardware == Hardware::Metal);
            let products: Vec<String> = state.products.iter().filter(of).cloned().collect();
            let (products, next) = page(&products, token, state.page);
            GetProductsOutput::builder().set_price_list(Some(products)).set_next_token(next).build()
        })
    }
}

#[async_trait]
impl EksApi for Fake {
    async fn describe_nodegroup(&self, cluster: &str, nodegroup: &str) -> Result<Option<Nodegroup>, CloudError> {
        let key = format!("{cluster}/{nodegroup}");
        self.call("DescribeNodegroup", &key, |state| state.nodegroups.get(&key).cloned())
    }
}

#[async_trait]
impl ZonalShiftApi for Fake {
    async fn shifted_zones(&self, arn: &str) -> Result<Vec<String>, CloudError> {
        self.call("GetManagedResource", arn, |state| state.shifted.get(arn).cloned().unwrap_or_default())
    }
}

#[async_trait]
impl StsApi for Fake {
    async fn caller(&self) -> Result<Option<String>, CloudError> {
        self.call("GetCallerIdentity", "", |_| Some("arn:aws:iam::123456789012:user/headcount".to_owned()))
    }
}

/// A group in one zone of this size.
pub(in crate::clouds::aws) fn sized_group(min: i32, desired: i32, max: i32) -> AutoScalingGroupBuilder {
    AutoScalingGroup::builder()
        .auto_scaling_group_name("asg")
        .min_size(min)
        .desired_capacity(desired)
        .max_size(max)
        .availability_zones("us-east-1a")
}
