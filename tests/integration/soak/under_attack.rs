//! Attacks with well-behaved callers: every call gets a response, and the memory stays within its limit.

use std::sync::Arc;

use tonic::transport::Channel;

use super::*;
use crate::attacks::behaved::{behave, percentiles};
use crate::attacks::certificates::{Authority, Validity, channel, groups};
use crate::attacks::load::{Attack, Target};

/// The process needs less memory than this under any attack.
const RESIDENT_MIB_MAX: u64 = 200;
/// Callers during the attacks: one Cluster Autoscaler has one connection; two replicas may overlap.
const CALLERS: usize = 2;
/// How often the progress of a long run is printed.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// A server with TLS and 500 groups, its callers, and a connection that calls as the Cluster Autoscaler does.
struct Scene {
    server: Server,
    target: Target,
    connected: Channel,
    _config: ConfigFile,
}

impl Scene {
    async fn open() -> (Self, Vec<Caller>) {
        let authority = Authority::new("ca");
        let certificate = authority.server(Validity::Now);
        let config = ConfigFile::new(&format!(
            "grpc: {{tls: {{cert: tls.crt, key: tls.key, clientCa: ca.crt, allowedClients: [cluster-autoscaler]}}}}\n\
             refreshInterval: 1s\nsources: [{{name: sim, simulated: {{seed: 1, groups: {}, instances: {}}}}}]\n",
            CLOUD.groups, CLOUD.instances
        ));
        let config = config.beside("tls.crt", &certificate.chain).beside("tls.key", &certificate.key);
        let config = config.beside("ca.crt", &authority.pem());
        let server = Server::start(&["--config", &config.path(), "--log", "error,headcount::cli=info"]);
        server.logged("\"ready\"");
        let certificate = authority.client("cluster-autoscaler", Vec::new());
        let connect = async || channel(server.grpc(), &authority, Some(&certificate)).await.expect("connects");
        let connected = connect().await;
        // It is ready once it has waited for the groups of the first listing, as long as that may take.
        let serves_all = async || groups(&connected).await.is_ok_and(|number| number == 500);
        until("all groups are served", PATIENCE, serves_all).await;
        let callers = Caller::over(vec![connect().await; CALLERS]).await;
        let group = callers[0].group();
        let (grpc, admin) = (server.grpc(), server.admin());
        let target = Target { grpc, admin, authority: Arc::new(authority), certificate, group };
        (Self { server, target, connected, _config: config }, callers)
    }

    /// Probes until then, as the kubelet does.
    async fn probe(&self, end: Instant, what: &str) {
        while Instant::now() < end {
            let admin = self.server.admin();
            // The kubelet gives up after three attempts: a connection that stays silent on a busy machine makes room
            // for others.
            let probe = move || (0..3).find_map(|_| Server::try_probe_at(admin, "/livez"));
            let probed = tokio::task::spawn_blocking(probe).await.expect("no panic").unwrap_or_default();
            assert!(probed.starts_with("HTTP/1.1 200"), "{what}: {probed}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// A new client can connect, too. It connects again if its connection was closed to make room before its first
    /// call.
    async fn lets_in(&self, what: &str) {
        let Target { grpc, authority, certificate, .. } = &self.target;
        let gets_in = async || match channel(*grpc, authority, Some(certificate)).await {
            Ok(starting) => groups(&starting).await.is_ok_and(|number| number == 500),
            Err(_) => false,
        };
        until(&format!("a new client is served during {what}"), PATIENCE, gets_in).await;
    }

    /// Works for this long, and measures how long each response takes.
    async fn endure(&self, what: &str, callers: Vec<Caller>, length: Duration) -> (Vec<Caller>, Vec<Duration>) {
        let end = Instant::now() + length;
        let measuring = behave(self.connected.clone(), self.target.group.clone(), end);
        let (callers, waits, ()) = tokio::join!(load(callers, length), measuring, self.probe(end, what));
        self.lets_in(what).await;
        let footprint = Footprint::of(self.server.process_id());
        println!("{what}: {}; {footprint:?}", shown(&waits));
        assert!(footprint.resident_mib < RESIDENT_MIB_MAX, "{what}: {footprint:?}");
        (callers, waits)
    }

    /// What holds after all attacks.
    fn is_unharmed(&self, callers: &[Caller]) {
        println!("{:?}; at most {} MiB", work_of(callers), self.server.peak_memory());
        assert!(self.server.peak_memory() < RESIDENT_MIB_MAX);
        let panics = self.server.lines_with("panicked");
        assert!(panics.is_empty(), "{panics:#?}");
    }
}

fn shown(waits: &[Duration]) -> String {
    let [median, p99, most] = percentiles(waits.to_vec());
    format!("{} responses, median {median:.1} ms, p99 {p99:.1} ms, most {most:.1} ms", waits.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attack_costs_a_response_or_the_memory() {
    let (scene, mut callers) = Scene::open().await;
    let each = duration() / u32::try_from(Attack::ALL.len()).expect("few");
    for attack in Attack::ALL {
        let attackers = attack.start(&scene.target);
        (callers, _) = scene.endure(&format!("{attack:?}"), callers, each).await;
        drop(attackers);
    }
    scene.is_unharmed(&callers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_attacks_at_once_cost_no_response_and_little_memory() {
    let (scene, mut callers) = Scene::open().await;
    let attackers = Attack::start_all(&scene.target);
    let (end, mut waits) = (Instant::now() + duration(), Vec::new());
    while Instant::now() < end {
        let length = REPORT_EVERY.min(end.saturating_duration_since(Instant::now()));
        let (back, more) = scene.endure("everything at once", callers, length).await;
        callers = back;
        waits.extend(more);
    }
    drop(attackers);
    println!("in all: {}", shown(&waits));
    scene.is_unharmed(&callers);
}
