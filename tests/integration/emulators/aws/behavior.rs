//! The behavior of the AWS emulator, and details of groups that the simulated cloud does not have.

use std::time::{Duration, SystemTime};

use headcount::clouds::simulated::Phase;

/// The behavior of the emulator.
#[derive(Clone, Debug)]
pub(crate) struct Behavior {
    /// The maximum number of records per page.
    pub(crate) page: usize,
    /// Whether TerminateInstanceInAutoScalingGroup accepts several instances.
    pub(crate) batch_terminate: bool,
    /// The error of a busy group.
    pub(crate) busy: Busy,
    /// How far AWS's clock is behind the local one. Its activities and its Date headers show it.
    pub(crate) clock_behind: Duration,
    /// The Date headers of the next responses, first to last.
    pub(crate) dates: Vec<SystemTime>,
    /// The only access key that it accepts; `None` for any.
    pub(crate) access_key: Option<String>,
    /// The external ID that every role asks for.
    pub(crate) external_id: Option<String>,
    /// The only token of a service account that it accepts; `None` for any.
    pub(crate) service_account_token: Option<String>,
    /// How long the credentials of a service account are valid.
    pub(crate) credential_life: Duration,
}

impl Default for Behavior {
    fn default() -> Self {
        Self {
            page: 100,
            batch_terminate: true,
            busy: Busy::ScalingActivityInProgress,
            clock_behind: Duration::ZERO,
            dates: Vec::new(),
            access_key: None,
            external_id: None,
            service_account_token: None,
            credential_life: Duration::from_secs(3600),
        }
    }
}

/// The error of a busy group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// HTTP 400.
    ScalingActivityInProgress,
    /// HTTP 500, although nothing was done.
    ResourceContention,
}

/// Details of a group that the simulated cloud does not have.
#[derive(Clone, Debug)]
pub(crate) struct GroupDetails {
    /// Overrides of a mixed instances policy. A group of several instance types, or of weighted
    /// instances, has one for each type if this is empty.
    pub(crate) overrides: Vec<Override>,
    /// The share of On-Demand Instances in its mixed instances policy, in percent; the others are Spot Instances.
    pub(crate) on_demand: Option<u32>,
    /// What it launches from.
    pub(crate) launch: Launch,
    /// The launch template's own requirements, in place of an instance type.
    pub(crate) requirements: Option<Requirements>,
    /// The machine image; it does not exist if it ends in `missing`.
    pub(crate) image: String,
    /// The image's name.
    pub(crate) image_name: String,
    /// The image's platform: `windows`, in lower case, or none.
    pub(crate) platform: Option<String>,
    /// The version of the launch template that the group names: `$Default` and `$Latest` are the last version.
    pub(crate) version: String,
    /// The AMI type of a managed node group in EKS.
    pub(crate) ami_type: String,
    /// The root volume.
    pub(crate) disk_gib: u32,
    /// The user data, not encoded.
    pub(crate) user_data: String,
    /// Network interfaces of kind `efa`.
    pub(crate) efa_interfaces: u32,
    /// Cores, and threads per core, of the launched instances.
    pub(crate) cpu_options: Option<(u32, u32)>,
    /// Suspended processes, besides `Launch` and `Terminate`, which follow the group's plan.
    pub(crate) suspended: Vec<String>,
    /// Names of scaling policies.
    pub(crate) policies: Vec<String>,
    /// Names of scheduled actions.
    pub(crate) scheduled: Vec<String>,
    /// Further elements of its description, as the API reference documents them.
    pub(crate) settings: String,
    /// Where zonal shifts are enabled for it, the zones that it is moved away from.
    pub(crate) shifted: Option<Vec<String>>,
    /// The status of its latest instance refresh.
    pub(crate) refresh: Option<String>,
    /// `DesiredCapacityType`
    pub(crate) capacity_type: Option<String>,
    /// `Delete in progress`, for instance.
    pub(crate) status: Option<String>,
    /// Whether it is shown without a desired capacity.
    pub(crate) undecodable: bool,
    /// Lifecycle states for phases in place of the usual ones, such as `Terminating:Wait`.
    pub(crate) lifecycles: Vec<(Phase, String)>,
    /// Further instances, by ID and lifecycle state, such as those of a warm pool.
    pub(crate) others: Vec<(String, String)>,
    /// Activities that the simulated cloud does not have.
    pub(crate) past: Vec<Past>,
    /// Whether failed launches are of Spot Instances.
    pub(crate) spot: bool,
}

impl Default for GroupDetails {
    fn default() -> Self {
        Self {
            overrides: Vec::new(),
            on_demand: None,
            launch: Launch::Template,
            requirements: None,
            image: "ami-0123456789abcdef0".to_owned(),
            image_name: "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-server".to_owned(),
            platform: None,
            version: "$Latest".to_owned(),
            ami_type: "AL2023_x86_64_STANDARD".to_owned(),
            disk_gib: 20,
            user_data: String::new(),
            efa_interfaces: 0,
            cpu_options: None,
            suspended: Vec::new(),
            policies: Vec::new(),
            scheduled: Vec::new(),
            settings: String::new(),
            shifted: None,
            refresh: None,
            capacity_type: None,
            status: None,
            undecodable: false,
            lifecycles: Vec::new(),
            others: Vec::new(),
            past: Vec::new(),
            spot: false,
        }
    }
}

impl GroupDetails {
    /// Why LaunchInstances does not take the group: the code and the message.
    pub(super) fn launch_obstacle(&self) -> Option<(&'static str, &'static str)> {
        if matches!(self.launch, Launch::Configuration | Launch::Nothing) {
            return Some(("ValidationError", "LaunchInstances needs a launch template."));
        }
        if self.settings.contains("<WarmPoolConfiguration>") {
            return Some(("UnsupportedOperation", "The group has a warm pool."));
        }
        let is_mixed = self.on_demand.is_some_and(|percent| (1..100).contains(&percent));
        is_mixed.then_some(("ValidationError", "The group has both On-Demand and Spot Instances."))
    }
}

/// What a group launches from; it has the name of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    Template,
    /// A launch template that does not exist any more.
    MissingTemplate,
    Configuration,
    /// Neither.
    Nothing,
}

/// An override of a mixed instances policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Override {
    pub(crate) instance_type: Option<String>,
    pub(crate) weight: Option<String>,
    pub(crate) requirements: Option<Requirements>,
}

/// The requirements of an instance type: minimum and maximum vCPUs, and minimum memory in MiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirements {
    pub(crate) cpus_min: u32,
    pub(crate) cpus_max: u32,
    pub(crate) memory_mib_min: u32,
}

/// An activity that the simulated cloud does not have.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    /// When it began, and ended if it has, by the local clock.
    pub(crate) at: SystemTime,
    pub(crate) description: String,
    /// `Failed`, for instance.
    pub(crate) status: String,
    pub(crate) message: String,
}

impl Past {
    /// Whether it is in progress. AWS lists those first.
    pub(super) fn is_in_progress(&self) -> bool {
        !["Successful", "Failed", "Cancelled"].contains(&self.status.as_str())
    }
}
