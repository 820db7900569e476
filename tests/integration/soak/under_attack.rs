//! All attacks, one after another, with well-behaved callers: every call gets a response, and the memory stays within its limit.

use std::sync::Arc;

use super::*;
use crate::attacks::behaved::{behave, percentiles};
use crate::attacks::certificates::{Authority, Validity, channel, groups};
use crate::attacks::load::{Attack, Target};

/// The process needs less memory than this under any attack.
const RESIDENT_MIB_MAX: u64 = 200;
/// Callers during the attacks: one Cluster Autoscaler has one connection; two replicas may overlap.
const CALLERS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attack_costs_a_response_or_the_memory() {
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
    assert_eq!(groups(&connected).await.expect("served"), 500);
    let mut callers = Caller::over(vec![connect().await; CALLERS]).await;
    let target = Target {
        grpc: server.grpc(),
        admin: server.admin(),
        authority: Arc::new(authority),
        certificate: certificate.clone(),
        group: callers[0].group(),
    };
    let each = duration() / u32::try_from(Attack::ALL.len()).expect("few");
    for attack in Attack::ALL {
        let end = Instant::now() + each;
        let attackers = attack.start(&target);
        let working = load(callers, each);
        let probing = async {
            while Instant::now() < end {
                let admin = server.admin();
                // The kubelet gives up after three attempts: a connection that stays silent on a busy machine makes room for others.
                let probe = move || (0..3).find_map(|_| Server::try_probe_at(admin, "/livez"));
                let probed = tokio::task::spawn_blocking(probe).await.expect("no panic").unwrap_or_default();
                assert!(probed.starts_with("HTTP/1.1 200"), "{attack:?}: {probed}");
                sleep(Duration::from_millis(200)).await;
            }
        };
        let (back, waits, ()) = tokio::join!(working, behave(connected.clone(), target.group.clone(), end), probing);
        callers = back;
        // A new client can connect, too. It connects again if its connection was closed to make room before its first call.
        let gets_in = async || match channel(target.grpc, &target.authority, Some(&certificate)).await {
            Ok(starting) => groups(&starting).await.is_ok_and(|number| number == 500),
            Err(_) => false,
        };
        until(&format!("a new client is served during {attack:?}"), PATIENCE, gets_in).await;
        let (number, [median, p99, most]) = (waits.len(), percentiles(waits));
        let footprint = Footprint::of(server.process_id());
        println!(
            "{attack:?}: {number} responses, median {median:.1} ms, p99 {p99:.1} ms, most {most:.1} ms; {footprint:?}"
        );
        assert!(footprint.resident_mib < RESIDENT_MIB_MAX, "{attack:?}: {footprint:?}");
        drop(attackers);
    }
    println!("{:?}; at most {} MiB", work_of(&callers), server.peak_memory());
    assert!(server.peak_memory() < RESIDENT_MIB_MAX);
    let panics = server.lines_with("panicked");
    assert!(panics.is_empty(), "{panics:#?}");
}
