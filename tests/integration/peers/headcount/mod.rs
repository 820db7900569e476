//! The real binary, as a user runs it.

mod client;
mod config_file;
mod connection;
mod recordings;
mod server;

use std::ffi::OsString;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tonic::{Code, Status};

pub(crate) use client::Client;
pub(crate) use config_file::ConfigFile;
pub(crate) use connection::Connection;
pub(crate) use server::Server;

/// The Cluster Autoscaler's default timeout, for callers who wait for a response that the cloud prevents.
pub(crate) const AUTOSCALER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long anything may take. The longest step takes half a minute on an idle machine, because Headcount waits as long
/// for reads that may lag.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The real binary: the one that cargo built with the tests, or the one that HEADCOUNT_BINARY names, such as a release
/// build for a measurement.
pub(crate) fn binary() -> OsString {
    std::env::var_os("HEADCOUNT_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_headcount").into())
}

/// A command line of the real binary, with an environment that has nothing from this machine.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(arguments)
        .env_clear()
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::null());
    command
}

/// Runs the real binary to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary runs")
}

/// Waits until a condition holds, without calling Headcount.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// How often a call is repeated that a busy server had no time for.
const REPEATS: usize = 10;

/// The status code and the message of a call for which the server sends nothing to the cloud, because of what it reads.
/// A busy server may have no time left to say so before the call's deadline; then the call is repeated.
pub(crate) async fn refused_in_time<T: std::fmt::Debug>(
    mut call: impl AsyncFnMut() -> Result<T, Status>,
) -> (Code, String) {
    for _ in 0..REPEATS {
        let (code, message) = refused(call().await);
        if code != Code::DeadlineExceeded {
            return (code, message);
        }
    }
    refused(call().await)
}

/// The status code and the message of a refused call.
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, Status>) -> (Code, String) {
    let status = outcome.expect_err("refused");
    (status.code(), status.message().to_owned())
}
