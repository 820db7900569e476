//! The Cluster Autoscaler's process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::BINARIES;
use super::in_tree_provider::InTreeProvider;
use super::process::Process;
use crate::emulators::Emulator;
use crate::peers::free_address;
use crate::peers::headcount::Server;

/// Flags that make a scenario short; the defaults are minutes.
const QUICK: [&str; 5] = [
    "--scale-down-unneeded-time=6s",
    "--scale-down-delay-after-add=6s",
    "--scale-down-delay-after-failure=6s",
    "--scale-down-unready-time=20s",
    "--max-node-provision-time=25s",
];

type Environment = Vec<(&'static str, String)>;

/// The provider that an autoscaler uses.
struct Provider<'a> {
    program: &'a str,
    name: &'static str,
    cloud_config: &'a str,
    environment: Environment,
}

/// Whether the autoscaler under test, if there is one, knows a flag.
pub(super) fn knows(flag: &str) -> bool {
    let Some(folder) = std::env::var_os(BINARIES) else { return false };
    let output = Command::new(Path::new(&folder).join("cluster-autoscaler")).arg("--help").output();
    let output = output.expect("the autoscaler's flags");
    let help = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&help).split_whitespace().any(|word| word == flag)
}

/// A running Cluster Autoscaler that uses one Headcount.
pub(super) struct Autoscaler {
    name: String,
    program: PathBuf,
    folder: PathBuf,
    flags: Vec<String>,
    environment: Environment,
    /// Where it serves its metrics.
    address: SocketAddr,
    process: Process,
}

impl Autoscaler {
    /// Starts one under this name, with this cloud-config and these flags besides the usual ones.
    pub(super) fn start(name: &str, binaries: &Path, folder: &Path, cloud_config: &str, flags: &[&str]) -> Self {
        let provider =
            Provider { program: "cluster-autoscaler", name: "externalgrpc", cloud_config, environment: Vec::new() };
        Self::with(name, binaries, folder, provider, flags)
    }

    /// Starts one with its own provider, for all groups of an emulator, within their own bounds.
    pub(super) fn in_tree(
        name: &str,
        binaries: &Path,
        folder: &Path,
        emulator: &impl Emulator,
        flags: &[&str],
    ) -> Self {
        let InTreeProvider { cloud_config, environment, nodes } = InTreeProvider::over(emulator, folder);
        let program = format!("in-tree-{}", emulator.cloud());
        let provider = Provider { program: &program, name: emulator.cloud(), cloud_config: &cloud_config, environment };
        let flags: Vec<&str> = flags.iter().copied().chain(nodes.iter().map(String::as_str)).collect();
        Self::with(name, binaries, folder, provider, &flags)
    }

    fn with(name: &str, binaries: &Path, folder: &Path, provider: Provider<'_>, flags: &[&str]) -> Self {
        let file = folder.join(format!("{name}.cloud-config"));
        std::fs::write(&file, provider.cloud_config).expect("written");
        let mut all = vec![
            format!("--cloud-provider={}", provider.name),
            format!("--cloud-config={}", file.display()),
            format!("--kubeconfig={}", folder.join("kubeconfig").display()),
        ];
        let usual = ["--leader-elect=false", "--v=4", "--namespace=default", "--write-status-configmap=true"];
        let address = free_address();
        all.push(format!("--address={address}"));
        all.extend(usual.iter().chain(&QUICK).chain(flags).map(|flag| (*flag).to_owned()));
        let program = binaries.join(provider.program);
        let environment = provider.environment;
        let process = run(name, &program, folder, &all, &environment);
        Self { name: name.to_owned(), program, folder: folder.to_owned(), flags: all, environment, address, process }
    }

    /// Kills it (SIGKILL).
    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills it (SIGKILL) and starts it again. Its log continues.
    pub(super) fn restart(&mut self) {
        self.kill();
        self.process = run(&self.name, &self.program, &self.folder, &self.flags, &self.environment);
    }

    /// The warnings and errors in its log that the provider caused: lines of level W or E from its cloud provider's
    /// files, and calls that it reports as failed.
    pub(super) fn provider_errors(&self) -> Vec<String> {
        let is_provider_error = |line: &String| {
            let severe = line.starts_with('W') || line.starts_with('E') || line.starts_with('F');
            severe && (line.contains("externalgrpc") || line.contains("cloud provider") || line.contains("rpc error"))
        };
        self.process.lines().into_iter().filter(is_provider_error).collect()
    }

    /// The mean duration of its loops.
    pub(super) fn mean_loop(&self) -> Duration {
        let page = Server::probe_at(self.address, "/metrics");
        let value = |part: &str| {
            let name = format!("cluster_autoscaler_function_duration_seconds_{part}{{function=\"main\"}} ");
            page.lines().find_map(|line| line.strip_prefix(&name)?.trim().parse::<f64>().ok()).expect("a metric")
        };
        Duration::from_secs_f64(value("sum") / value("count"))
    }

    /// How many lines of its log contain this text.
    pub(super) fn logged(&self, part: &str) -> usize {
        self.process.lines().iter().filter(|line| line.contains(part)).count()
    }

    /// Whether a line of its log contains this text.
    pub(super) fn has_logged(&self, part: &str) -> bool {
        self.process.has_logged(part)
    }
}

fn run(name: &str, program: &Path, folder: &Path, flags: &[String], environment: &Environment) -> Process {
    let mut command = Command::new(program);
    command.args(flags).envs(environment.iter().map(|(name, value)| (name, value)));
    Process::start(name, folder, &mut command)
}
