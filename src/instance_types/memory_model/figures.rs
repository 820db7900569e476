//! The shipped figures of the memory model: what each generation of kernels keeps, and what is missing on each instance
//! type that was observed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::Kernel;

const MEMORY: &str = include_str!("../../../instance-types/memory.yaml");

static SHIPPED: LazyLock<Figures> = LazyLock::new(|| {
    Figures::parse(MEMORY).unwrap_or_else(|error| {
        // A test parses it, so this is not reached. Without figures, each type is estimated by its class.
        tracing::error!(%error, "the memory figures in the binary cannot be read; memory is estimated more carefully");
        Figures::default()
    })
});

/// The figures of all kernels and of all observed types.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// What a kernel and its image keep.
    pub kernels: BTreeMap<Kernel, Figure>,
    /// What is missing on an EC2 instance type before a kernel starts.
    pub aws: BTreeMap<String, Figure>,
    /// The same for Azure VM sizes, in lower case.
    pub azure: BTreeMap<String, Figure>,
}

/// One figure, and the observations behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// In MiB. For a type, the most that any of its hosts kept. It can be below zero by some MiB, because it also holds
    /// what the kernel sizes by the machine.
    pub mib: i64,
    /// How many nodes showed it.
    pub nodes: u32,
    /// Whether nodes on both kinds of hosts were seen, for the families that run on two.
    #[serde(default)]
    pub both_hosts: bool,
}

impl Figures {
    /// The figures in the binary.
    pub fn shipped() -> &'static Self {
        &SHIPPED
    }

    /// Reads the table.
    pub(super) fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        serde_saphyr::from_str(text)
    }

    /// What a kernel and its image keep, in KiB.
    pub(super) fn kernel_kib(&self, kernel: Kernel) -> i64 {
        /// What the most careful of the kernels keeps that were measured on many types.
        const UNKNOWN_MIB: i64 = 96;
        self.kernels.get(&kernel).map_or(UNKNOWN_MIB, |figure| figure.mib) * 1024
    }
}
