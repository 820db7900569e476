//! The real Headcount binary, configured for an emulator, and a client that calls it as the Cluster Autoscaler does.

use headcount::clouds::simulated::Group;

use super::Emulator;
use crate::peers::headcount::{Client, ConfigFile, Server};

/// An emulator, a Headcount process that uses it, and a client of that process.
pub(crate) struct Setup<F> {
    pub(crate) emulator: F,
    server: Option<Server>,
    pub(crate) client: Client,
    config: ConfigFile,
    has_own_listener: bool,
}

/// The configuration of Headcount.
#[derive(Clone, Debug)]
pub(crate) struct SetupOptions {
    /// `refreshInterval`
    pub(crate) refresh: String,
    /// `nodeGroups` of the source, `min:max:name`.
    pub(crate) node_groups: Vec<String>,
    /// `autoDiscovery` of the source.
    pub(crate) auto_discovery: Vec<String>,
    /// `grpc`, with a listener of its own.
    pub(crate) grpc: Option<String>,
    /// Further settings of the source, one per line.
    pub(crate) source: Vec<String>,
    /// Further sections of `headcount.yaml`.
    pub(crate) more: String,
    /// Further files in the same directory: names and contents.
    pub(crate) files: Vec<(String, String)>,
}

impl<F: Emulator> Setup<F> {
    /// Headcount serves every group of the simulated cloud by its name, within the group's own bounds.
    pub(crate) async fn open(emulator: F) -> Self {
        Self::with(emulator, |_| {}).await
    }

    /// The same with changed options.
    pub(crate) async fn with(emulator: F, change: impl FnOnce(&mut SetupOptions)) -> Self {
        let spec = |group: &Group| format!("{}:{}:{}", group.plan().min, group.plan().max, group.name());
        let mut options = SetupOptions {
            refresh: "1s".to_owned(),
            node_groups: emulator.simulated().world(|world, _| world.groups().map(spec).collect()),
            auto_discovery: Vec::new(),
            grpc: None,
            source: Vec::new(),
            more: String::new(),
            files: Vec::new(),
        };
        change(&mut options);
        let mut config = ConfigFile::new(&options.written(&emulator));
        for (name, text) in &options.files {
            config = config.beside(name, text);
        }
        let has_own_listener = options.grpc.is_some();
        let (server, client) = open(&config, has_own_listener).await;
        Self { emulator, server: Some(server), client, config, has_own_listener }
    }

    /// Kills Headcount (SIGKILL) and starts it again without any state.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.start().await;
    }

    /// Kills Headcount (SIGKILL).
    pub(crate) fn kill(&mut self) {
        drop(self.server.take());
    }

    /// Starts Headcount again without any state.
    pub(crate) async fn start(&mut self) {
        let (server, client) = open(&self.config, self.has_own_listener).await;
        (self.client, self.server) = (client, Some(server));
    }

    /// Replaces a file next to its configuration.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.config.path_of(name), text).expect("written");
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    /// The path of its configuration, for commands.
    pub(crate) fn config(&self) -> String {
        self.config.path()
    }
}

/// Starts Headcount. On a listener of its own, the client connects when it is first used: it may lack a certificate.
async fn open(config: &ConfigFile, has_own_listener: bool) -> (Server, Client) {
    if has_own_listener {
        let server = Server::on_configured_listener(config);
        let client = server.lazy_client();
        (server, client)
    } else {
        let server = Server::with_config(config);
        let client = server.client().await;
        (server, client)
    }
}

impl SetupOptions {
    fn written(&self, emulator: &impl Emulator) -> String {
        let mut lines = vec![format!("refreshInterval: {}", self.refresh), self.more.clone()];
        lines.extend(self.grpc.as_ref().map(|grpc| format!("grpc: {grpc}")));
        lines.push(format!("sources:\n  - name: here\n    {}:", emulator.cloud()));
        let list = |name: &str, items: &[String]| (!items.is_empty()).then(|| format!("{name}: {items:?}"));
        let groups = [list("nodeGroups", &self.node_groups), list("autoDiscovery", &self.auto_discovery)];
        let settings =
            emulator.settings().into_iter().chain(self.source.iter().cloned()).chain(groups.into_iter().flatten());
        lines.extend(settings.map(|line| format!("      {line}")));
        lines.join("\n") + "\n"
    }
}
