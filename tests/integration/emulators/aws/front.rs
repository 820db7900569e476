//! Which request is about what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use headcount::clouds::simulated::{CallKind, Simulated, World};

use super::super::backstage::{Backstage, lock};
use super::super::exchange::{Instead, Outcome, Request};
use super::super::port::Front;
use super::errors::{self, error};
use super::habits::{Habits, Look};

/// Whose errors an answer speaks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    AutoScaling,
    Ec2,
    Eks,
}

/// What is behind the port.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) backstage: Backstage,
    pub(super) habits: Mutex<Habits>,
    pub(super) looks: Mutex<BTreeMap<String, Look>>,
}

impl Counter {
    pub(super) fn new(simulated: Arc<Simulated>) -> Self {
        Self { backstage: Backstage::new(simulated), habits: Mutex::default(), looks: Mutex::default() }
    }

    pub(super) fn habits(&self) -> Habits {
        lock(&self.habits).clone()
    }

    pub(super) fn look(&self, group: &str) -> Look {
        lock(&self.looks).get(group).cloned().unwrap_or_default()
    }

    pub(super) fn all_looks(&self) -> Vec<Look> {
        lock(&self.looks).values().cloned().collect()
    }

    /// Takes a call through all that can befall it.
    pub(super) async fn call<R>(
        &self,
        service: Service,
        kind: CallKind,
        group: Option<&str>,
        detail: String,
        act: impl FnOnce(&mut World, Duration) -> R,
    ) -> Result<R, Instead> {
        let busy = self.habits().busy;
        self.backstage.call(kind, group, detail, |mishap| errors::mishap(service, busy, mishap), act).await
    }
}

#[async_trait]
impl Front for Counter {
    fn backstage(&self) -> &Backstage {
        &self.backstage
    }

    async fn answer(&self, request: &Request) -> Outcome {
        let path: Vec<&str> = request.path.split('/').filter(|segment| !segment.is_empty()).collect();
        if let ["clusters", cluster, "node-groups", nodegroup] = path[..] {
            return self.describe_nodegroup(cluster, nodegroup).await;
        }
        match request.field("Action").unwrap_or_default().as_str() {
            "DescribeAutoScalingGroups" => self.describe_groups(request).await,
            "DescribeLaunchConfigurations" => self.describe_launch_configurations(request).await,
            "DescribeScalingActivities" => self.describe_activities(request).await,
            "DescribePolicies" => Ok(self.describe_policies()),
            "SetDesiredCapacity" => self.set_desired_capacity(request).await,
            "TerminateInstanceInAutoScalingGroup" => self.terminate(request).await,
            "DescribeImages" => self.describe_images(request).await,
            "DescribeInstanceTypes" => self.describe_types(request).await,
            "DescribeLaunchTemplateVersions" => self.describe_launch_template_versions(request).await,
            "GetInstanceTypesFromInstanceRequirements" => self.types_satisfying(request).await,
            other => Ok(error(400, "InvalidAction", &format!("The action {other} is not valid for this endpoint."))),
        }
    }
}
