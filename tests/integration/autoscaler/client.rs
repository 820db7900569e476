//! The Cluster Autoscaler's process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::cluster::free_address;
use super::process::Process;

/// How often the autoscaler looks at the cluster. Its default is 10 s.
pub(super) const SCAN_INTERVAL: &str = "2s";

/// Flags that make a scenario short; the defaults are minutes.
const QUICK: [&str; 5] = [
    "--scale-down-unneeded-time=6s",
    "--scale-down-delay-after-add=6s",
    "--scale-down-delay-after-failure=6s",
    "--scale-down-unready-time=20s",
    "--max-node-provision-time=25s",
];

/// A running Cluster Autoscaler that uses one Headcount.
pub(super) struct Autoscaler {
    process: Process,
}

impl Autoscaler {
    /// Starts it with these flags besides the usual ones.
    pub(super) fn start(binaries: &Path, folder: &Path, headcount: SocketAddr, flags: &[&str]) -> Self {
        let cloud_config = folder.join("cloud-config");
        std::fs::write(&cloud_config, format!("address: \"{headcount}\"\ngrpc_timeout: 5s\n")).expect("written");
        let mut command = Command::new(binaries.join("cluster-autoscaler"));
        command
            .arg("--cloud-provider=externalgrpc")
            .arg(format!("--cloud-config={}", cloud_config.display()))
            .arg(format!("--kubeconfig={}", folder.join("kubeconfig").display()))
            .arg(format!("--address={}", free_address()))
            .arg(format!("--scan-interval={SCAN_INTERVAL}"))
            .args(["--leader-elect=false", "--v=4", "--namespace=default", "--write-status-configmap=true"])
            .args(QUICK)
            .args(flags);
        Self { process: Process::start("cluster-autoscaler", folder, &mut command) }
    }

    /// The warnings and errors in its log that the provider caused: lines of level W or E from its cloud provider's files,
    /// and calls that it reports as failed.
    pub(super) fn provider_complaints(&self) -> Vec<String> {
        let is_complaint = |line: &String| {
            let severe = line.starts_with('W') || line.starts_with('E') || line.starts_with('F');
            severe && (line.contains("externalgrpc") || line.contains("cloud provider") || line.contains("rpc error"))
        };
        self.process.lines().into_iter().filter(is_complaint).collect()
    }

    /// Whether a line of its log contains this text.
    pub(super) fn has_logged(&self, part: &str) -> bool {
        self.process.has_logged(part)
    }
}
