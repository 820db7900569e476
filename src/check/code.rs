//! The codes of findings. A code never changes its meaning and is never reused; `docs/check.md` has a section for each.

use std::fmt;

use serde::{Serialize, Serializer};

/// What was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(u16);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $title:literal;)*) => {
        impl Code {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Every code and what it is about, in order.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, $title)),*];
        }
    };
}

codes! {
    /// A probable mistake in the configuration.
    CONFIG = 101, "The configuration contains a probable mistake";
    /// One GPU label for two clouds.
    GPU_LABEL = 102, "Both clouds have GPU groups, and the Cluster Autoscaler knows one GPU label";
    /// A sign-in that a webhook should have prepared.
    WEBHOOK = 103, "A webhook did not inject the variables of the cloud identity";
    /// The Kubernetes API.
    KUBERNETES = 201, "The Kubernetes API can be read";
    /// Nodes of the cluster.
    FOREIGN_GROUP = 202, "The instances of the node group are nodes of this cluster";
    /// A source that can be listed.
    SOURCE = 301, "The source can be read";
    /// A source without groups.
    NO_GROUPS = 302, "The source has node groups";
    /// A permission that only `check` needs.
    ADVERSE_UNREAD = 303, "Settings that conflict with the Cluster Autoscaler can be read";
    /// A permission that only some features of serving need.
    PERMISSION = 304, "The optional calls of `headcount serve` are permitted";
    /// Permissions that only live prices need.
    PRICES = 305, "The price lists of the cloud can be read";
    /// A group that can be understood.
    GROUP = 401, "The node group can be read and understood";
    /// A group of the configuration.
    ABSENT = 402, "The node group in the configuration exists";
    /// A warning of the cloud's adapter.
    GROUP_WARNING = 403, "The settings of the node group fit the configuration";
    /// Something else that changes the group.
    ADVERSE = 404, "Nothing but the Cluster Autoscaler changes the size of the node group";
    /// A shared name.
    SHARED_NAME = 405, "The name of the node group is unique";
    /// Growth or removal withheld.
    WITHHELD = 406, "The node group can grow and shrink";
    /// A capacity beyond the bounds.
    OUT_OF_BOUNDS = 407, "The capacity is within the bounds";
    /// Instance types that differ.
    MIXED_TYPES = 408, "The instance types of the node group are alike";
    /// The template.
    TEMPLATE = 409, "The template of a new node can be built";
    /// Capacity without instances.
    UNFILLED = 410, "The capacity of the scale set counts only VMs that exist";
    /// GPUs that a driver publishes.
    GPUS_BY_DRIVER = 411, "Nodes with the GPU label have GPUs that the Cluster Autoscaler counts";
    /// Something that replaces instances.
    REPLACES = 412, "The cloud adds, replaces and removes no instances by itself";
    /// A zone that launches wait for.
    STAYS_IN_ZONE = 413, "A zone without capacity does not hold launches up";
    /// Who may change the group.
    OPERATED = 414, "Headcount may change the node group";
    /// Instances that stay.
    RETAINS = 415, "Instances that were deleted are gone";
    /// What keeps instances.
    UNPROTECTED = 416, "New instances are protected from scale-in";
    /// What the account allows.
    QUOTA = 417, "The quotas of the account leave room for the node group's maximum";
    /// Synchronous launches.
    LAUNCH = 418, "A node group with `launch: synchronous` can grow by LaunchInstances";
    /// Zones that are served as node groups.
    ZONES = 419, "A node group with `zones: separate` can be served by zone, and nothing moves its instances between zones";
    /// The provider.
    CA_PROVIDER = 501, "The Cluster Autoscaler uses external gRPC";
    /// The price expander.
    CA_PRICE = 502, "The expander does not rely on estimated prices";
    /// Balancing.
    CA_BALANCING = 503, "The Cluster Autoscaler treats equal node groups in different zones as alike";
    /// Flags without effect.
    CA_IGNORED = 504, "The flags of the Cluster Autoscaler have an effect";
    /// What is known about it.
    CA_KNOWN = 505, "The release and the flags of the Cluster Autoscaler are known";
    /// Whether it calls.
    CA_CALLS = 506, "The Cluster Autoscaler calls the running server";
    /// Options of groups.
    CA_OPTIONS = 507, "The Cluster Autoscaler gets the options of node groups";
    /// An option that CA misreads.
    ZERO_OR_MAX = 508, "No option keeps the Cluster Autoscaler from scaling node groups down";
    /// New instances that are listed at once.
    NEW_INSTANCES = 509, "The Cluster Autoscaler backs off node groups whose instances never register";
}

impl Code {
    /// Where it is explained.
    pub fn link(self) -> String {
        format!("docs/check.md#{}", self.to_string().to_lowercase())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("HC{}", self.0))
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_unique_and_has_a_section_in_the_page() {
        let page = include_str!("../../docs/check.md");
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} is not below {}", pair[0].0, pair[1].0);
        }
        for (code, title) in Code::ALL {
            assert!(
                page.contains(&format!("\n### {code}\n\n{title}.")),
                "docs/check.md has no section {code}: {title}"
            );
        }
    }
}
