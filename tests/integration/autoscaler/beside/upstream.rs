//! Upstream's server over an emulator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use super::super::in_tree_provider::InTreeProvider;
use super::super::process::Process;
use super::UPSTREAM;
use crate::emulators::arm::Arm;
use crate::emulators::aws::Aws;
use crate::emulators::certificate_authority::CertificateAuthority;
use crate::emulators::{Emulator, Request};
use crate::peers::free_address;

/// A running server of upstream's.
pub(in super::super) struct Upstream {
    process: Process,
    address: SocketAddr,
}

/// An emulator that upstream's server can use too.
pub(super) trait Shared: Emulator + Sized {
    fn open(plans: Vec<GroupPlan>) -> Self;

    /// A group whose nodes have two CPUs.
    fn group(name: &str) -> GroupPlan;

    /// The failure of a launch without capacity.
    fn shortage() -> &'static str;

    /// Whether a request grows this group.
    fn grows(request: &Request, group: &str) -> bool;
}

impl Shared for Aws {
    fn open(plans: Vec<GroupPlan>) -> Self {
        Self::start(Arc::new(Simulated::with_groups(1, plans)))
    }

    fn group(name: &str) -> GroupPlan {
        GroupPlan::aws(name)
    }

    fn shortage() -> &'static str {
        "InsufficientInstanceCapacity"
    }

    fn grows(request: &Request, group: &str) -> bool {
        let is_growth = matches!(request.field("Action").as_deref(), Some("SetDesiredCapacity" | "LaunchInstances"));
        is_growth && request.field("AutoScalingGroupName").as_deref() == Some(group)
    }
}

impl Shared for Arm {
    fn open(plans: Vec<GroupPlan>) -> Self {
        Self::start(Arc::new(Simulated::with_groups(2, plans))).with_secure_port(&CertificateAuthority::new())
    }

    fn group(name: &str) -> GroupPlan {
        GroupPlan::azure(name).instance_types(&["Standard_D2s_v5"])
    }

    fn shortage() -> &'static str {
        "AllocationFailed"
    }

    fn grows(request: &Request, group: &str) -> bool {
        matches!(request.method.as_str(), "PATCH" | "PUT") && request.path.ends_with(&format!("/{group}"))
    }
}

/// The folder of upstream's servers.
pub(super) fn servers() -> Option<PathBuf> {
    let folder = std::env::var_os(UPSTREAM).map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: tests/autoscaler/beside builds upstream's server and runs this");
    }
    folder
}

impl Upstream {
    /// Starts it with all groups of the emulator, within their own bounds.
    pub(in super::super) fn start(emulator: &impl Emulator, folder: &Path) -> Self {
        let servers = servers().expect("built");
        let cloud = emulator.cloud();
        let config = folder.join("upstream.config");
        let address = free_address();
        let mut command = Command::new(servers.join(format!("upstream-{cloud}")));
        command.env_clear().args(["--v=2", &format!("--address={address}"), &format!("--cloud-provider={cloud}")]);
        command.arg(format!("--cloud-config={}", config.display()));
        let provider = InTreeProvider::over(emulator, folder);
        command.args(provider.nodes).envs(provider.environment);
        std::fs::write(&config, provider.cloud_config).expect("written");
        Self { process: Process::start("upstream", folder, &mut command), address }
    }

    pub(in super::super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn process_id(&self) -> u32 {
        self.process.id()
    }
}
