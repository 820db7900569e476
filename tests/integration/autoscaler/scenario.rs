//! How a scenario differs from the usual one.

use std::time::Duration;

use serde_json::Value;

use crate::emulators::setup::SetupOptions;

/// The interval between two loops of the autoscaler. Its default is 10 s.
const SCAN_INTERVAL: &str = "2s";

/// What a scenario has besides a cloud.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Flags of the autoscaler besides the usual ones.
    pub(super) flags: Vec<&'static str>,
    pub(super) scan_interval: &'static str,
    /// `refreshInterval` of Headcount.
    pub(super) refresh: &'static str,
    /// Whether upstream's server takes Headcount's place.
    pub(super) upstream: bool,
    /// Groups whose instances never register as nodes.
    pub(super) silent: Vec<&'static str>,
    /// A group whose zones Headcount serves as node groups.
    pub(super) by_zones: Option<&'static str>,
    /// The devices that a driver publishes for each node of a group: the group, and `spec` of the ResourceSlice
    /// without the node.
    pub(super) published: Option<(&'static str, Value)>,
    /// Whether the autoscaler's own provider takes Headcount's place.
    pub(super) in_tree: bool,
    /// How long nodes take to show their devices (GPUs).
    pub(super) devices_after: Duration,
    /// Memory that the nodes have less than their template says, in KiB.
    pub(super) missing_memory: u64,
    /// Further sections of `headcount.yaml`.
    pub(super) headcount: String,
    /// `grpc` of `headcount.yaml`, for a scenario in plaintext.
    pub(super) grpc: Option<&'static str>,
    pub(super) transport: Transport,
    /// Whether Headcount may call the API server, with the rights of deploy/kubernetes-rbac.yaml.
    pub(super) kubernetes: Option<&'static str>,
}

/// How the autoscaler reaches Headcount.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// In plaintext, through a relay.
    Plaintext,
    /// With a certificate on both ends, through a relay.
    MutualTls,
    UnixSocket,
}

impl Scenario {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            flags: Vec::new(),
            scan_interval: SCAN_INTERVAL,
            refresh: "1s",
            upstream: false,
            by_zones: None,
            published: None,
            in_tree: false,
            silent: Vec::new(),
            devices_after: Duration::ZERO,
            missing_memory: 0,
            headcount: String::new(),
            grpc: None,
            transport: Transport::Plaintext,
            kubernetes: None,
        }
    }

    /// With these flags of the autoscaler.
    pub(super) fn flags(mut self, flags: &[&'static str]) -> Self {
        self.flags.extend(flags);
        self
    }

    /// With this interval between the autoscaler's loops.
    pub(super) fn scan_interval(mut self, interval: &'static str) -> Self {
        self.scan_interval = interval;
        self
    }

    /// With this `refreshInterval` of Headcount.
    pub(super) fn refresh(mut self, interval: &'static str) -> Self {
        self.refresh = interval;
        self
    }

    /// Instances of this group never register as nodes.
    pub(super) fn silent(mut self, group: &'static str) -> Self {
        self.silent.push(group);
        self
    }

    /// Headcount serves each zone of this group as a node group.
    pub(super) fn by_zones(mut self, group: &'static str) -> Self {
        self.by_zones = Some(group);
        self.headcount(&format!("groups: [{{match: {group}, zones: separate}}]\n"))
    }

    /// A driver publishes these devices for each node of this group.
    pub(super) fn published(mut self, group: &'static str, spec: Value) -> Self {
        self.published = Some((group, spec));
        self
    }

    /// With the autoscaler's own provider instead of Headcount.
    pub(super) fn in_tree(mut self) -> Self {
        self.in_tree = true;
        self
    }

    /// Nodes show their devices (GPUs) only this long after they register.
    pub(super) fn devices_after(mut self, delay: Duration) -> Self {
        self.devices_after = delay;
        self
    }

    /// Nodes have this much less memory than their template says, in KiB.
    pub(super) fn missing_memory(mut self, kib: u64) -> Self {
        self.missing_memory = kib;
        self
    }

    /// With these further sections of `headcount.yaml`.
    pub(super) fn headcount(mut self, sections: &str) -> Self {
        self.headcount.push_str(sections);
        self
    }

    /// With this `grpc` of `headcount.yaml`, in plaintext.
    pub(super) fn grpc(mut self, settings: &'static str) -> Self {
        self.grpc = Some(settings);
        self
    }

    /// The autoscaler reaches Headcount in this way.
    pub(super) fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Headcount may call the API server, and uses it for this: settings of `kubernetes:` in `headcount.yaml`.
    pub(super) fn kubernetes(mut self, settings: &'static str) -> Self {
        self.kubernetes = Some(settings);
        self
    }

    /// The resulting part of Headcount's configuration.
    pub(super) fn configure(&self, options: &mut SetupOptions, kubeconfig: &str) {
        options.more.push_str(&self.headcount);
        options.refresh = self.refresh.to_owned();
        options.grpc = self.grpc.map(str::to_owned);
        if let Some(settings) = self.kubernetes {
            options.more.push_str(&format!("\nkubernetes: {{kubeconfig: {kubeconfig:?}{settings}}}\n"));
        }
    }
}
