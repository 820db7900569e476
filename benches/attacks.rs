//! How long a well-behaved client waits while others attack: `cargo bench --bench attacks`. The figures are in
//! docs/benchmarks.md.
//!
//! The server is the binary of the bench profile, in a process of its own, with TLS, 500 groups and 10,000 instances.
//! `HEADCOUNT_BENCH_SECONDS` sets how long each attack lasts; 10 s by default.

#![allow(dead_code, missing_docs, clippy::print_stdout, reason = "the modules are those of the tests")]

#[path = "../tests/integration/attacks/behaved.rs"]
mod behaved;
#[path = "../tests/integration/attacks/certificates.rs"]
mod certificates;
#[path = "../tests/integration/delivery.rs"]
mod delivery;
#[path = "../tests/integration/peers/headcount/mod.rs"]
mod headcount_process;
#[path = "../tests/integration/attacks/load.rs"]
mod load;

use std::sync::Arc;
use std::time::Duration;

use behaved::{behave, percentiles};
use certificates::{Authority, Validity, channel};
use headcount_process::{ConfigFile, Server};
use load::{Attack, Target};
use tokio::time::Instant;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure());
}

async fn measure() {
    let seconds = std::env::var("HEADCOUNT_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let authority = Authority::new("ca");
    let certificate = authority.server(Validity::Now);
    let config = ConfigFile::new(
        "grpc: {tls: {cert: tls.crt, key: tls.key, clientCa: ca.crt, allowedClients: [cluster-autoscaler]}}\n\
         refreshInterval: 1s\nsources: [{name: sim, simulated: {seed: 1, groups: 500, instances: 10000}}]\n",
    );
    let config = config.beside("tls.crt", &certificate.chain).beside("tls.key", &certificate.key);
    let config = config.beside("ca.crt", &authority.pem());
    let server = Server::start(&["--config", &config.path(), "--log", "error,headcount::cli=info"]);
    server.logged("\"ready\"");
    let certificate = authority.client("cluster-autoscaler", Vec::new());
    let connected = channel(server.grpc(), &authority, Some(&certificate)).await.expect("connects");
    let mut client = headcount::grpc::proto::cloud_provider_client::CloudProviderClient::new(connected.clone());
    let listed = client.node_groups(headcount::grpc::proto::NodeGroupsRequest {}).await.expect("served").into_inner();
    let target = Target {
        grpc: server.grpc(),
        admin: server.admin(),
        authority: Arc::new(authority),
        certificate,
        group: listed.node_groups[0].id.clone(),
    };
    println!(
        "| attack | responses | median ms | p99 ms | most ms | MiB at most |\n| --- | --- | --- | --- | --- | --- |"
    );
    for attack in Attack::ALL {
        let attackers = attack.start(&target);
        let until = Instant::now() + Duration::from_secs(seconds);
        let waits = behave(connected.clone(), target.group.clone(), until).await;
        drop(attackers);
        let (number, [median, p99, most]) = (waits.len(), percentiles(waits));
        println!("| {attack:?} | {number} | {median:.1} | {p99:.1} | {most:.1} | {} |", server.peak_memory());
    }
}
