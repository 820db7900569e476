//! The real binary, as a user runs it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use headcount::grpc::proto::cloud_provider_client::CloudProviderClient;
use headcount::grpc::proto::*;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// How long a program under test may take for any step.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command line of the real binary, in an environment without anything of this machine's.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headcount"));
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

/// The arguments of a server on ports of its own choice.
const SERVE: [&str; 7] = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json"];

/// A configuration file and its folder.
pub(crate) struct ConfigFile {
    folder: TempDir,
}

impl ConfigFile {
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("headcount.yaml"), text).expect("written");
        Self { folder }
    }

    /// Another file beside it.
    pub(crate) fn beside(self, name: &str, text: &str) -> Self {
        std::fs::write(self.folder.path().join(name), text).expect("written");
        self
    }

    pub(crate) fn path(&self) -> String {
        self.file().display().to_string()
    }

    /// The folder of the file.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a file beside it is.
    pub(crate) fn path_of(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn file(&self) -> PathBuf {
        Path::new(self.folder.path()).join("headcount.yaml")
    }
}

/// A running server.
pub(crate) struct Server {
    process: Child,
    grpc: String,
    admin: SocketAddr,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

impl Log {
    /// Waits for a line that contains this text.
    fn line_with(&self, part: &str) -> String {
        let lines = self.lines.lock().expect("not poisoned");
        let found = |lines: &Vec<String>| lines.iter().find(|line| line.contains(part)).cloned();
        let (lines, _) = self.grown.wait_timeout_while(lines, PATIENCE, |lines| found(lines).is_none()).expect("waits");
        found(&lines).unwrap_or_else(|| panic!("no line with {part:?} in:\n{}", lines.join("\n")))
    }
}

impl Server {
    /// Starts `serve` with these arguments, on ports of its own choice.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::in_environment(arguments, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn in_environment(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut serve = command(&SERVE);
        serve.args(arguments).envs(variables.iter().copied());
        Self::run(serve)
    }

    /// The same, after this command of a shell: `ulimit -n 64`.
    pub(crate) fn limited(limit: &str, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{limit}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_headcount")]);
        Self::run(shell.args(SERVE).args(arguments).stdin(Stdio::null()))
    }

    fn run(mut serve: impl std::borrow::BorrowMut<Command>) -> Self {
        let mut process = serve.borrow_mut().stderr(Stdio::piped()).spawn().expect("the binary runs");
        let log = Arc::new(Log::default());
        let (stderr, writer) = (process.stderr.take().expect("piped"), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                writer.lines.lock().expect("not poisoned").push(line);
                writer.grown.notify_all();
            }
        });
        let serving: serde_json::Value = serde_json::from_str(&log.line_with("\"serving\"")).expect("a JSON line");
        let address = |name: &str| serving[name].as_str().expect("an address").to_owned();
        Self { process, grpc: address("grpc"), admin: address("admin").parse().expect("an address"), log }
    }

    /// The same, on the listener of the configuration file.
    pub(crate) fn on_configured_listener(config: &ConfigFile) -> Self {
        Self::run(command(&[
            "serve",
            "--admin-listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "--config",
            &config.path(),
        ]))
    }

    /// The same, with a configuration file.
    pub(crate) fn with_config(config: &ConfigFile) -> Self {
        Self::start(&["--config", &config.path()])
    }

    /// Where a client connects.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let uri = if self.grpc.starts_with("unix:") { self.grpc.clone() } else { format!("http://{}", self.grpc) };
        Endpoint::from_shared(uri).expect("an address")
    }

    /// A connected client.
    pub(crate) async fn client(&self) -> Client {
        let channel = self.endpoint().connect().await.expect("connects");
        Client { stub: CloudProviderClient::new(channel) }
    }

    /// A client that connects when it is first used.
    pub(crate) fn lazy_client(&self) -> Client {
        Client { stub: CloudProviderClient::new(self.endpoint().connect_lazy()) }
    }

    /// A client of a server whose log is not read. It may still be starting.
    pub(crate) async fn client_at(address: SocketAddr) -> Client {
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
        let connecting = async {
            loop {
                match endpoint.connect().await {
                    Ok(channel) => return Client { stub: CloudProviderClient::new(channel) },
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, connecting).await.expect("connects")
    }

    /// Its process ID.
    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.grpc.parse().expect("an address and a port")
    }

    /// Where it listens, as its log says.
    pub(crate) fn listener(&self) -> &str {
        &self.grpc
    }

    /// The admin port's response: status line, headers and body.
    pub(crate) fn probe(&self, path: &str) -> String {
        self.probe_with(path, "")
    }

    /// The same, with these header lines in the request.
    pub(crate) fn probe_with(&self, path: &str, headers: &str) -> String {
        Self::ask(self.admin, path, "headcount", headers)
    }

    /// The same, with this host in the request.
    pub(crate) fn probe_as(&self, path: &str, host: &str) -> String {
        Self::ask(self.admin, path, host, "")
    }

    /// The response of an admin port.
    pub(crate) fn probe_at(address: SocketAddr, path: &str) -> String {
        Self::ask(address, path, "headcount", "")
    }

    /// The same; `None` while nothing listens.
    pub(crate) fn try_probe_at(address: SocketAddr, path: &str) -> Option<String> {
        TcpStream::connect(address).is_ok().then(|| Self::probe_at(address, path))
    }

    fn ask(address: SocketAddr, path: &str, host: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("connects");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n").expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }

    /// Waits for a line of its log that contains this text.
    pub(crate) fn logged(&self, part: &str) -> String {
        self.log.line_with(part)
    }

    /// The lines of its log so far that hold this.
    pub(crate) fn lines_with(&self, part: &str) -> Vec<String> {
        let lines = self.log.lines.lock().expect("not poisoned");
        lines.iter().filter(|line| line.contains(part)).cloned().collect()
    }

    /// Where its admin port listens.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The most memory it has had, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.process, name);
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        Self::terminate_process(&mut self.process)
    }

    /// Sends SIGTERM to a process and waits for its end.
    pub(crate) fn terminate_process(process: &mut Child) -> ExitStatus {
        signal(process, "TERM");
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = process.try_wait().expect("it can be waited for") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _killed = process.kill();
        panic!("it does not end");
    }
}

fn signal(process: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The Cluster Autoscaler's end of the protocol, with its default deadline of 5 s.
#[derive(Clone)]
pub(crate) struct Client {
    stub: CloudProviderClient<Channel>,
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(Duration::from_secs(5));
    request
}

impl Client {
    pub(crate) fn stub(&mut self) -> &mut CloudProviderClient<Channel> {
        &mut self.stub
    }

    pub(crate) async fn node_groups(&mut self) -> Vec<NodeGroup> {
        let answer = self.stub.node_groups(timed(NodeGroupsRequest {})).await;
        answer.expect("NodeGroups never fails").into_inner().node_groups
    }

    pub(crate) async fn refresh(&mut self) -> Result<(), Status> {
        self.stub.refresh(timed(RefreshRequest {})).await.map(|_| ())
    }

    pub(crate) async fn target(&mut self, id: &str) -> i32 {
        let answer = self.stub.node_group_target_size(timed(NodeGroupTargetSizeRequest { id: id.into() })).await;
        answer.expect("served").into_inner().target_size
    }

    pub(crate) async fn nodes(&mut self, id: &str) -> Vec<Instance> {
        let answer = self.stub.node_group_nodes(timed(NodeGroupNodesRequest { id: id.into() })).await;
        answer.expect("served").into_inner().instances
    }

    /// The IDs of the nodes in this state: 1 running, 2 creating, 3 deleting.
    pub(crate) async fn nodes_in(&mut self, id: &str, state: i32) -> Vec<String> {
        let in_state =
            |instance: &Instance| instance.status.as_ref().is_some_and(|status| status.instance_state == state);
        self.nodes(id).await.into_iter().filter(in_state).map(|instance| instance.id).collect()
    }

    pub(crate) async fn increase(&mut self, id: &str, delta: i32) -> Result<(), Status> {
        let request = NodeGroupIncreaseSizeRequest { id: id.into(), delta };
        self.stub.node_group_increase_size(timed(request)).await.map(|_| ())
    }

    pub(crate) async fn decrease(&mut self, id: &str, delta: i32) -> Result<(), Status> {
        let request = NodeGroupDecreaseTargetSizeRequest { id: id.into(), delta };
        self.stub.node_group_decrease_target_size(timed(request)).await.map(|_| ())
    }

    pub(crate) async fn delete(&mut self, id: &str, nodes: &[&str]) -> Result<(), Status> {
        let node = |provider_id: &&str| ExternalGrpcNode {
            provider_id: (*provider_id).to_owned(),
            name: (*provider_id).to_owned(),
            ..Default::default()
        };
        let request = NodeGroupDeleteNodesRequest { id: id.into(), nodes: nodes.iter().map(node).collect() };
        self.stub.node_group_delete_nodes(timed(request)).await.map(|_| ())
    }

    pub(crate) async fn group_of(&mut self, provider_id: &str) -> Option<String> {
        let node = ExternalGrpcNode { provider_id: provider_id.into(), ..Default::default() };
        let answer = self.stub.node_group_for_node(timed(NodeGroupForNodeRequest { node: Some(node) })).await;
        answer.expect("answered").into_inner().node_group.map(|group| group.id)
    }

    pub(crate) async fn template(&mut self, id: &str) -> Result<NodeGroupTemplateNodeInfoResponse, Status> {
        let request = timed(NodeGroupTemplateNodeInfoRequest { id: id.into() });
        self.stub.node_group_template_node_info(request).await.map(tonic::Response::into_inner)
    }

    /// Refreshes, as the autoscaler does before each loop, until something holds.
    pub(crate) async fn until(&mut self, what: &str, holds: impl AsyncFnMut(&mut Self) -> bool) {
        self.until_within(PATIENCE, what, holds).await;
    }

    /// The same for what takes longer by its nature.
    pub(crate) async fn until_within(
        &mut self,
        limit: Duration,
        what: &str,
        mut holds: impl AsyncFnMut(&mut Self) -> bool,
    ) {
        let wait = async {
            while !holds(self).await {
                self.refresh().await.expect("refreshed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(limit, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
    }
}

/// Waits until something holds, without calling Headcount.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// The status code and the message of a refused call.
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, Status>) -> (Code, String) {
    let status = outcome.expect_err("refused");
    (status.code(), status.message().to_owned())
}
