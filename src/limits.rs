//! How much is read of what others send, and for how long: one table for every reader of foreign bytes.
//!
//! `docs/limits.md` shows the table, and a test compares the two. Another test fails where a file reads without a
//! row.

mod body;
mod file;

use std::time::Duration;

pub use body::{BodyError, read_beginning, read_body};
pub use file::{read_file, too_large};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The limits of one kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What is read, for people.
    pub what: &'static str,
    /// The most bytes.
    pub bytes: usize,
    /// The longest that reading may take; `None` where the call that it is a part of has a limit, or where it is a file on
    /// this machine.
    pub time: Option<Duration>,
    /// The file that reads it.
    pub reader: &'static str,
}

impl Limit {
    /// The time to read it in.
    pub const fn time(&self) -> Duration {
        match self.time {
            Some(time) => time,
            None => Duration::MAX,
        }
    }
}

macro_rules! time {
    (_) => {
        None
    };
    ($seconds:literal) => {
        Some(Duration::from_secs($seconds))
    };
}

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident = $what:literal, $bytes:expr, $seconds:tt s, $reader:literal;)*) => {
        $(
            $(#[$doc])*
            pub const $name: Limit =
                Limit { what: $what, bytes: $bytes, time: time!($seconds), reader: $reader };
        )*
        /// Every row, by the name of its constant.
        pub const TABLE: &[(&str, Limit)] = &[$((stringify!($name), $name)),*];
    };
}

table! {
    /// Names have a few hundred bytes; options a few more.
    CALL = "a call that names a group or nothing", 64 * KIB, 10 s, "src/grpc/message.rs";
    /// Kubernetes stores objects of up to 1.5 MiB, and annotations of up to 256 KiB.
    CALL_WITH_NODE = "a call with one node", 2 * MIB, 10 s, "src/grpc/message.rs";
    /// CA 1.34 sends the pod twice.
    CALL_WITH_POD = "a call with one pod", 4 * MIB, 10 s, "src/grpc/message.rs";
    /// 5,000 nodes with 1.6 KiB of labels and annotations each. CA names a few dozen nodes in one call.
    CALL_WITH_NODES = "`NodeGroupDeleteNodes`", 8 * MIB, 10 s, "src/grpc/message.rs";
    /// Probes and scrapers send a few hundred bytes.
    ADMIN_REQUEST = "the head of a request on the admin port", 16 * KIB, 2 s, "src/admin/connections.rs";
    /// A certificate chain has some 10 KiB.
    TLS_FILE = "a file of `grpc.tls`", MIB, _ s, "src/grpc/tls/files.rs";
    /// A configuration or a table of every instance type is far smaller: a longer file was named by mistake.
    CONFIG_FILE = "headcount.yaml, cloud-config, a table", MIB, _ s, "src/config/error.rs";
    /// A Deployment has some 10 KiB.
    MANIFEST = "a manifest of the Cluster Autoscaler", MIB, _ s, "src/cli/manifest.rs";
    /// No token, certificate or kubeconfig is nearly as long.
    CLUSTER_FILE = "a service account, a kubeconfig and its files", MIB, _ s, "src/kubernetes/cluster_config.rs";
    /// Credentials are a few KiB; a plugin calls the cloud for them.
    PLUGIN_OUTPUT = "what an exec plugin prints", MIB, 30 s, "src/kubernetes/exec.rs";
    /// A page of 250 nodes with 40 KiB each has 10 MiB.
    KUBERNETES_RESPONSE = "a response of the Kubernetes API", 12 * MIB, 20 s, "src/kubernetes/transport.rs";
    /// One node: Kubernetes stores objects of up to 1.5 MiB.
    WATCH_LINE = "one line of a watch", 4 * MIB, _ s, "src/kubernetes/watch_lines.rs";
    /// 64 pages of 250 nodes. Only the few values that Headcount uses are kept of a page.
    NODE_LIST = "all pages of a list of nodes", 768 * MIB, 60 s, "src/kubernetes/client.rs";
    /// A page of 100 groups of 1,000 instances each has 45 MB.
    AWS_RESPONSE = "a response of AWS", 48 * MIB, _ s, "src/clouds/aws/sdk/http.rs";
    /// Enough for any reason.
    AWS_ERROR = "an error of AWS", 64 * KIB, _ s, "src/clouds/aws/sdk/http.rs";
    /// 100 products have 500 kB.
    AWS_PRICES = "a page of the Price List API", 16 * MIB, _ s, "src/clouds/aws/sdk/http.rs";
    /// Credentials have some KiB.
    AWS_SIGN_IN = "STS, the metadata service, container credentials and SSO", MIB, _ s, "src/clouds/aws/sdk/http.rs";
    /// Tokens and shared files have some KiB.
    AWS_FILE = "a token file or a shared file of AWS", MIB, 10 s, "src/clouds/aws/sdk/shared_files.rs";
    /// AWS stores 16 KiB, and more than that is hardly shell or YAML.
    USER_DATA = "user data, decompressed", 512 * KIB, _ s, "src/clouds/aws/launch/user_data/decode.rs";
    /// The unfiltered list of sizes of a subscription has 20 MiB.
    AZURE_RESPONSE = "a response of Azure", 24 * MIB, _ s, "src/clouds/azure/http/transport.rs";
    /// Enough for any reason.
    AZURE_ERROR = "an error of Azure", 64 * KIB, _ s, "src/clouds/azure/http/transport.rs";
    /// A page of 1,000 prices has 700 kB.
    AZURE_PRICES = "a page of Azure's retail prices", 8 * MIB, 30 s, "src/clouds/azure/retail_prices.rs";
    /// Tokens have a few KiB.
    AZURE_SIGN_IN = "the sign-in service and the metadata service of Azure", MIB, 10 s, "src/clouds/azure/http/transport.rs";
    /// Tokens and certificates have a few KiB.
    AZURE_FILE = "a token file or a certificate for Azure", MIB, 10 s, "src/clouds/azure/auth/credential_file.rs";
    /// The status of thousands of groups.
    SERVER_STATUS = "the status of a running server", 32 * MIB, 10 s, "src/cli/server.rs";
    /// Recordings take 15 MiB of a server's memory, compressed. What does not fit is left out by whole groups.
    RECORDING = "a recording, from a file or a running server", 32 * MIB, 10 s, "src/cli/replay.rs";
    /// Some hundred calls with the headers of their responses.
    VERIFY_REPORT = "a report of `headcount verify`", 16 * MIB, _ s, "src/verify/report.rs";
}
