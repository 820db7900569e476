//! How the AWS emulator behaves, and what the simulated cloud does not know of its groups.

use std::time::Duration;

use headcount::clouds::simulated::Phase;

/// How the emulator behaves.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// Records of a page at most, whatever a request asks for.
    pub(crate) page: usize,
    /// Whether TerminateInstanceInAutoScalingGroup takes several instances.
    pub(crate) batch_terminate: bool,
    /// How a group says that it is busy.
    pub(crate) busy: Busy,
}

impl Default for Habits {
    fn default() -> Self {
        Self { page: 100, batch_terminate: true, busy: Busy::ScalingActivityInProgress }
    }
}

/// How a group says that it is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// HTTP 400.
    ScalingActivityInProgress,
    /// HTTP 500, and yet nothing was done.
    ResourceContention,
}

/// What the simulated cloud does not know of a group.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Overrides of a mixed instances policy. A group of several instance types, or of weighted
    /// instances, has one for each type if this is empty.
    pub(crate) overrides: Vec<Override>,
    /// What it launches from.
    pub(crate) launch: Launch,
    /// The launch template's own requirements, in place of an instance type.
    pub(crate) requirements: Option<Requirements>,
    /// The machine image; one that is not there where it ends in `missing`.
    pub(crate) image: String,
    /// The image's name.
    pub(crate) image_name: String,
    /// What EKS calls the kind of image of a managed node group.
    pub(crate) ami_type: String,
    /// The root volume.
    pub(crate) disk_gib: u32,
    /// What machines are started with, as it was written.
    pub(crate) user_data: String,
    /// Network interfaces of kind `efa`.
    pub(crate) efa_interfaces: u32,
    /// Cores, and threads of each, that machines are launched with.
    pub(crate) cpu_options: Option<(u32, u32)>,
    /// Suspended processes. `Launch` and `Terminate` are when the group's plan withholds growth and removal.
    pub(crate) suspended: Vec<String>,
    /// Names of scaling policies.
    pub(crate) policies: Vec<String>,
    /// `DesiredCapacityType`
    pub(crate) capacity_type: Option<String>,
    /// `Delete in progress`, for instance.
    pub(crate) status: Option<String>,
    /// It is shown without a desired capacity.
    pub(crate) undecodable: bool,
    /// Other lifecycle states than the usual for a phase, such as `Terminating:Wait`.
    pub(crate) lifecycles: Vec<(Phase, String)>,
    /// Further instances, by ID and lifecycle state, such as those of a warm pool.
    pub(crate) others: Vec<(String, String)>,
    /// Activities from before the world began.
    pub(crate) past: Vec<Past>,
    /// Failed launches are of Spot Instances.
    pub(crate) spot: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            overrides: Vec::new(),
            launch: Launch::Template,
            requirements: None,
            image: "ami-0123456789abcdef0".to_owned(),
            image_name: "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-server".to_owned(),
            ami_type: "AL2023_x86_64_STANDARD".to_owned(),
            disk_gib: 20,
            user_data: String::new(),
            efa_interfaces: 0,
            cpu_options: None,
            suspended: Vec::new(),
            policies: Vec::new(),
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

/// What a group launches from; it is called as the group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    Template,
    /// A launch template that is not there any more.
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

/// What an instance type must have: processors from, to, and MiB of memory from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirements {
    pub(crate) cpus_min: u32,
    pub(crate) cpus_max: u32,
    pub(crate) memory_mib_min: u32,
}

/// An activity from before the world began.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) ago: Duration,
    pub(crate) description: String,
    /// `Failed`, for instance.
    pub(crate) status: String,
    pub(crate) message: String,
}
