//! What the long-lived tasks do.

/// What a task does. All of them are supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Lists a source.
    Source,
    /// Owns a node group.
    NodeGroup,
    /// Reads, polls or looks something up beside a node group's task.
    SideTask,
    /// Builds the node templates of a source.
    Templates,
    /// Says when the fleet is ready.
    Readiness,
    /// Learns from nodes.
    Learning,
    /// Watches the nodes of the cluster.
    NodeWatch,
    /// Watches the ResourceSlices of the cluster.
    ResourceSliceWatch,
    /// Writes Kubernetes Events.
    Events,
    /// Accepts connections on the gRPC port.
    GrpcPort,
    /// Serves one connection of the gRPC port.
    GrpcConnection,
    /// Reports to grpc.health.v1.
    HealthReporter,
    /// Reads the TLS files.
    TlsFiles,
    /// Accepts connections on the admin port, which serves the probes and the metrics.
    AdminPort,
    /// Serves one request of the admin port.
    AdminRequest,
    /// Reloads the configuration.
    Reload,
    /// Handles the signals that end the process.
    Signals,
    /// Fetches prices.
    Prices,
    /// Reads the quotas of a source.
    Quotas,
    /// Plays the demo's cloud.
    Demo,
}

impl TaskKind {
    /// All kinds.
    pub const ALL: [Self; 20] = [
        Self::Source,
        Self::NodeGroup,
        Self::SideTask,
        Self::Templates,
        Self::Readiness,
        Self::Learning,
        Self::NodeWatch,
        Self::ResourceSliceWatch,
        Self::Events,
        Self::GrpcPort,
        Self::GrpcConnection,
        Self::HealthReporter,
        Self::TlsFiles,
        Self::AdminPort,
        Self::AdminRequest,
        Self::Reload,
        Self::Signals,
        Self::Prices,
        Self::Quotas,
        Self::Demo,
    ];

    /// What logs, metrics and `/readyz` call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::NodeGroup => "node group",
            Self::SideTask => "side task",
            Self::Templates => "templates",
            Self::Readiness => "readiness",
            Self::Learning => "learning from nodes",
            Self::NodeWatch => "node watch",
            Self::ResourceSliceWatch => "ResourceSlice watch",
            Self::Events => "events",
            Self::GrpcPort => "gRPC port",
            Self::GrpcConnection => "gRPC connection",
            Self::HealthReporter => "health reporter",
            Self::TlsFiles => "TLS files",
            Self::AdminPort => "admin port",
            Self::AdminRequest => "admin request",
            Self::Reload => "reload",
            Self::Signals => "signals",
            Self::Prices => "prices",
            Self::Quotas => "quotas",
            Self::Demo => "demo",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: BTreeSet<_> = TaskKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), TaskKind::ALL.len());
    }
}
