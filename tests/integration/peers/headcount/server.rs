//! A running server and its log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use super::{Client, ConfigFile, Connection, PATIENCE, binary, command, eventually, recordings};

/// The arguments of a server on free ports.
const SERVE: [&str; 7] = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json"];

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
    /// There is a new line, or there will be no more.
    grown: Condvar,
    ended: AtomicBool,
}

impl Log {
    /// Waits for a line that contains this text, as long as the process writes lines.
    fn line_with(&self, part: &str) -> String {
        let lines = self.lines.lock().expect("not poisoned");
        let found = |lines: &Vec<String>| lines.iter().find(|line| line.contains(part)).cloned();
        let waits = |lines: &mut Vec<String>| found(lines).is_none() && !self.ended.load(Ordering::Relaxed);
        let (lines, _) = self.grown.wait_timeout_while(lines, PATIENCE, waits).expect("waits");
        found(&lines).unwrap_or_else(|| panic!("no line with {part:?} in:\n{}", lines.join("\n")))
    }
}

impl Server {
    /// Starts `serve` with these arguments, on free ports.
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
        shell.args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]).arg(binary());
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
            // Under the lock, so that nobody begins to wait between its check and this.
            let _lines = writer.lines.lock().expect("not poisoned");
            writer.ended.store(true, Ordering::Relaxed);
            writer.grown.notify_all();
        });
        let serving: serde_json::Value = serde_json::from_str(&log.line_with("\"serving\"")).expect("a JSON line");
        let address = |name: &str| serving[name].as_str().expect("an address").to_owned();
        Self { process, grpc: address("grpc"), admin: address("admin").parse().expect("an address"), log }
    }

    /// The demo's server, with its admin port on this address.
    pub(crate) fn with_admin(address: &str) -> Self {
        let addresses = ["--listen", "127.0.0.1:0", "--admin-listen", address];
        Self::run(command(&["serve", "--demo", "--log-format", "json"]).args(addresses))
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
        Client::new(Connection::Channel(channel))
    }

    /// A connected client whose calls have this timeout, and which leaves it to the server to end them.
    pub(crate) async fn untimed_client(&self, timeout: Duration) -> Client {
        let connection = Connection::untimed(self.grpc()).await.expect("connects");
        Client::new(connection).with_timeout(timeout)
    }

    /// A client that connects when it is first used.
    pub(crate) fn lazy_client(&self) -> Client {
        Client::new(Connection::Channel(self.endpoint().connect_lazy()))
    }

    /// A client of a server whose log is not read. It may still be starting.
    pub(crate) async fn client_at(address: SocketAddr) -> Client {
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
        let connecting = async {
            loop {
                match endpoint.connect().await {
                    Ok(channel) => return Client::new(Connection::Channel(channel)),
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

    /// The same; `None` while nothing listens, and if the connection is closed to make room for others.
    pub(crate) fn try_probe_at(address: SocketAddr, path: &str) -> Option<String> {
        Self::try_ask(address, path, "headcount", "").ok()
    }

    fn ask(address: SocketAddr, path: &str, host: &str, headers: &str) -> String {
        Self::try_ask(address, path, host, headers).expect("a response")
    }

    fn try_ask(address: SocketAddr, path: &str, host: &str, headers: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        // In one piece: the server gives a head two seconds.
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes())?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    }

    /// Waits for a line of its log that contains this text.
    pub(crate) fn logged(&self, part: &str) -> String {
        self.log.line_with(part)
    }

    /// The lines of its log so far that contain this text.
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

    /// Sends SIGSTOP, and waits until each thread has stopped: on a busy machine, some run on for a while.
    pub(crate) async fn stand_still(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.process_id());
        let is_stopped = |stat: &str| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'));
        eventually("every thread has stopped", || {
            let threads = std::fs::read_dir(&tasks).expect("it runs").map_while(Result::ok);
            let mut stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
            stats.all(|stat| is_stopped(&stat))
        })
        .await;
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        recordings::check(self.admin);
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
        // Every test of the real binary replays what it recorded. A test that has failed already says why.
        let is_checked = !std::thread::panicking() && matches!(self.process.try_wait(), Ok(None));
        let checked = std::panic::catch_unwind(|| is_checked.then(|| recordings::check(self.admin)));
        let _ended_already = self.process.kill();
        let _reaped = self.process.wait();
        if let Err(difference) = checked {
            std::panic::resume_unwind(difference);
        }
    }
}
