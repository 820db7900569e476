//! An AWS in memory for the unit tests. It keeps groups, records calls and returns the failures that a test asks for.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use aws_sdk_autoscaling::operation::describe_policies::DescribePoliciesOutput;
use aws_sdk_autoscaling::operation::describe_scaling_activities::DescribeScalingActivitiesOutput;
use aws_sdk_autoscaling::types::builders::AutoScalingGroupBuilder;
use aws_sdk_autoscaling::types::{Activity, AutoScalingGroup, InstanceRefresh, LaunchConfiguration, ScalingPolicy};
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

use super::api::{AutoScalingApi, Ec2Api, EksApi, GroupQuery, GroupsPage, Hardware, PricingApi, TemplateKey};
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
    pub(in crate::clouds::aws) policies: Vec<ScalingPolicy>,
    /// The latest instance refresh, by group.
    pub(in crate::clouds::aws) refreshes: HashMap<String, InstanceRefresh>,
    /// Instance types EC2 knows.
    pub(in crate::clouds::aws) types: Vec<String>,
    /// The products of the price list, and the spot prices.
    pub(in crate::clouds::aws) products: Vec<String>,
    pub(in crate::clouds::aws) spot_prices: Vec<SpotPrice>,
    /// Items per page.
    pub(in crate::clouds::aws) page: usize,
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
        answer: impl FnOnce(&mut State) -> R,
    ) -> Result<R, CloudError> {
        self.state(|state| {
            state.calls.push(format!("{operation} {subject}"));
            let failure = [format!("{operation} {subject}"), operation.to_owned()]
                .iter()
                .find_map(|call| state.failures.get_mut(call).and_then(VecDeque::pop_front));
            match failure {
                None => Ok(answer(state)),
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
impl AutoScalingApi for Fake {
    async fn describe_auto_scaling_groups(
        &self,
        query: &GroupQuery,
        token: Option<String>,
    ) -> Result<GroupsPage, CloudError> {
        let subject = match query {
            GroupQuery::One(_) => "1 names".to_owned(),
            GroupQuery::Named(names) => {
                assert!((1..=100).contains(&names.len()), "AWS takes 1 to 100 names");
                format!("{} names", names.len())
            }
            GroupQuery::Filtered(filters) => {
                assert!(!filters.is_empty(), "no filters describe every group");
                filters.iter().filter_map(|filter| filter.name()).collect::<Vec<_>>().join(",")
            }
        };
        let passes = |group: &AutoScalingGroup| match query {
            GroupQuery::One(name) => group.auto_scaling_group_name() == Some(name),
            GroupQuery::Named(names) => {
                group.auto_scaling_group_name().is_some_and(|name| names.iter().any(|one| one == name))
            }
            GroupQuery::Filtered(filters) => filters.iter().all(|filter| {
                let name = filter.name().unwrap_or_default();
                group.tags().iter().any(|tag| match name.strip_prefix("tag:") {
                    Some(key) => tag.key() == Some(key) && filter.values().iter().any(|one| tag.value() == Some(one)),
                    None => filter.values().iter().any(|key| tag.key() == Some(key)),
                })
            }),
        };
        self.call("DescribeAutoScalingGroups", &subject, |state| {
            let found: Vec<_> = state.groups.iter().filter(|group| passes(group)).cloned().collect();
            let (groups, next_token) = page(&found, token, state.page);
            GroupsPage { groups, next_token, bytes: 0 }
        })
    }

    async fn describe_launch_configuration(&self, name: &str) -> Result<Option<LaunchConfiguration>, CloudError> {
        self.call("DescribeLaunchConfigurations", name, |state| state.configurations.get(name).cloned())
    }

    async fn describe_scaling_activities(
        &self,
        group: &str,
        token: Option<String>,
    ) -> Result<DescribeScalingActivitiesOutput, CloudError> {
        self.call("DescribeScalingActivities", group, |state| {
            let (activities, next) = page(&state.activities, token, state.page);
            DescribeScalingActivitiesOutput::builder().set_activities(Some(activities)).set_next_token(next).build()
        })
    }

    async fn describe_instance_refresh(&self, group: &str) -> Result<Option<InstanceRefresh>, CloudError> {
        self.call("DescribeInstanceRefreshes", group, |state| state.refreshes.get(group).cloned())
    }

    async fn describe_policies(&self, token: Option<String>) -> Result<DescribePoliciesOutput, CloudError> {
        self.call("DescribePolicies", "all", |state| {
            let (policies, next) = page(&state.policies, token, state.page);
            let output = DescribePoliciesOutput::builder().set_scaling_policies(Some(policies));
            output.set_next_token(next).build()
        })
    }

    async fn set_desired_capacity(&self, group: &str, units: i32) -> Result<(), CloudError> {
        self.call("SetDesiredCapacity", &format!("{group}={units}"), |_| ())
    }

    async fn terminate_instance(&self, instance: &str) -> Result<(), CloudError> {
        self.call("TerminateInstance", instance, |_| ())
    }

    async fn terminate_instances(&self, group: &str, instances: &[String]) -> Result<Vec<Activity>, CloudError> {
        let subject = format!("{group}: {}", instances.join(","));
        let activity = |instance: &String| {
            let description = format!("Terminating EC2 instance: {instance}");
            Activity::builder().activity_id("a").description(description).build()
        };
        self.call("TerminateInstances", &subject, |_| instances.iter().map(activity).collect())
    }
}

#[async_trait]
impl Ec2Api for Fake {
    async fn describe_image(&self, id: &str) -> Result<Option<Image>, CloudError> {
        self.call("DescribeImages", id, |state| state.images.get(id).cloned())
    }

    async fn describe_instance_types(
        &self,
        names: &[String],
        token: Option<String>,
    ) -> Result<DescribeInstanceTypesOutput, CloudError> {
        assert!(names.len() <= 100, "AWS takes 100 names");
        let known = |state: &State, name: &String| state.types.contains(name);
        let unknown: Vec<_> =
            self.state(|state| names.iter().filter(|name| !known(state, name)).cloned().collect::<Vec<_>>());
        let answer = self.call("DescribeInstanceTypes", &names.join(","), |state| {
            let asked = if names.is_empty() { state.types.clone() } else { names.to_vec() };
            let (names, next) = page(&asked, token, state.page);
            let info = |name: &String| {
                InstanceTypeInfo::builder()
                    .instance_type(InstanceType::from(name.as_str()))
                    .v_cpu_info(VCpuInfo::builder().default_v_cpus(2).build())
                    .memory_info(MemoryInfo::builder().size_in_mib(8192).build())
                    .build()
            };
            let infos = names.iter().map(info).collect();
            DescribeInstanceTypesOutput::builder().set_instance_types(Some(infos)).set_next_token(next).build()
        })?;
        if unknown.is_empty() {
            return Ok(answer);
        }
        let message = format!("The following supplied instance types do not exist: [{}]", unknown.join(", "));
        Err(fault("DescribeInstanceTypes", "types", "InvalidInstanceType", &message, 400))
    }

    async fn describe_launch_templates(
        &self,
        ids: &[String],
        token: Option<String>,
    ) -> Result<DescribeLaunchTemplatesOutput, CloudError> {
        assert!((1..=200).contains(&ids.len()), "AWS takes 1 to 200 IDs");
        let number = |state: &State, id: &String, version: &str| {
            state.templates.get(&format!("{id}@{version}")).and_then(|described| described.version_number)
        };
        let (described, missing) = self.call("DescribeLaunchTemplates", &ids.join(","), |state| {
            let exists = |id: &&String| state.templates.keys().any(|key| key.split('@').next() == Some(id.as_str()));
            let missing = ids.iter().find(|id| !exists(id)).cloned();
            let template = |id: &String| {
                LaunchTemplate::builder()
                    .launch_template_id(id)
                    .set_default_version_number(number(state, id, "$Default"))
                    .set_latest_version_number(number(state, id, "$Latest"))
                    .build()
            };
            let shown = ids.iter().filter(|id| !state.hidden_templates.contains(*id)).map(template);
            let (templates, next) = page(&shown.collect::<Vec<_>>(), token, state.page);
            let output = DescribeLaunchTemplatesOutput::builder().set_launch_templates(Some(templates));
            (output.set_next_token(next).build(), missing)
        })?;
        let Some(missing) = missing else { return Ok(described) };
        let message = format!("The specified launch template, with template ID {missing}, does not exist.");
        Err(fault("DescribeLaunchTemplates", &missing, "InvalidLaunchTemplateId.NotFound", &message, 400))
    }

    async fn describe_launch_template_version(
        &self,
        template: &TemplateKey,
        version: &str,
    ) -> Result<Option<LaunchTemplateVersion>, CloudError> {
        let key = format!("{}@{version}", template.as_str());
        self.call("DescribeLaunchTemplateVersions", &key, |state| state.templates.get(&key).cloned())
    }

    async fn get_instance_types_from_instance_requirements(
        &self,
        architectures: &[ArchitectureType],
        virtualization: &[VirtualizationType],
        requirements: &InstanceRequirementsRequest,
        token: Option<String>,
    ) -> Result<GetInstanceTypesFromInstanceRequirementsOutput, CloudError> {
        assert_eq!(virtualization, [VirtualizationType::Hvm]);
        self.call("GetInstanceTypesFromInstanceRequirements", "requirements", |state| {
            state.requirements.push((architectures.to_vec(), requirements.clone()));
            let (names, next) = page(&state.types, token, state.page);
            let info = |name: &String| InstanceTypeInfoFromInstanceRequirements::builder().instance_type(name).build();
            let infos = names.iter().map(info).collect();
            let output = GetInstanceTypesFromInstanceRequirementsOutput::builder();
            output.set_instance_types(Some(infos)).set_next_token(next).build()
        })
    }

    async fn describe_spot_price_history(
        &self,
        _at: SystemTime,
        _extent: PriceExtent,
        token: Option<String>,
    ) -> Result<DescribeSpotPriceHistoryOutput, CloudError> {
        self.call("DescribeSpotPriceHistory", "all", |state| {
            let (prices, next) = page(&state.spot_prices, token, state.page);
            let next = Some(next.unwrap_or_default());
            DescribeSpotPriceHistoryOutput::builder().set_spot_price_history(Some(prices)).set_next_token(next).build()
        })
    }
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
