//! Connections between the autoscaler and Headcount: a Unix socket, and certificates on both ends.

use super::super::fixture::Fixture;
use super::super::scenario::{Scenario, Transport};
use super::{MakeGroup, ONE_PER_NODE};
use crate::emulators::Emulator;
use crate::emulators::certificate_authority::CertificateAuthority;

on_both_clouds!(
    aws_is_served_over_a_unix_socket,
    azure_is_served_over_a_unix_socket,
    is_served_over_a_unix_socket,
    |group: MakeGroup| [group("web", (0, 10, 0))]
);

async fn is_served_over_a_unix_socket(name: &'static str, emulator: impl Emulator) {
    let scenario = Scenario::new(name).transport(Transport::UnixSocket);
    let Some(fixture) = Fixture::start(scenario, emulator).await else { return };
    fixture.create_pods(2, ONE_PER_NODE).await;
    fixture.until("two pods have nodes", async |fixture| fixture.scheduled().await == 2).await;
    fixture.delete_pods().await;
    fixture.until("the group is empty again", async |fixture| fixture.capacity("web") == 0).await;
    fixture.finish(&[]);
}

on_both_clouds!(
    aws_renews_certificates_under_mutual_tls,
    azure_renews_certificates_under_mutual_tls,
    renews_certificates_under_mutual_tls,
    |group: MakeGroup| [group("web", (0, 10, 0))]
);

/// First a new connection after Headcount's files were replaced, then a new authority on both ends. The autoscaler
/// reads its own files only when it starts.
async fn renews_certificates_under_mutual_tls(name: &'static str, emulator: impl Emulator) {
    let scenario = Scenario::new(name).transport(Transport::MutualTls);
    let Some(mut fixture) = Fixture::start(scenario, emulator).await else { return };
    fixture.create_pods(1, ONE_PER_NODE).await;
    fixture.until("the pod has a node", async |fixture| fixture.scheduled().await == 1).await;
    fixture.cut_connections();
    fixture.create_pods(1, ONE_PER_NODE).await;
    fixture.until("two pods have nodes", async |fixture| fixture.scheduled().await == 2).await;

    fixture.renew_certificates(&CertificateAuthority::new());
    fixture.setup.server().signal("HUP");
    fixture.setup.server().logged("TLS files reloaded");
    fixture.cut_connections();
    fixture.autoscaler.restart();
    fixture.create_pods(1, ONE_PER_NODE).await;
    fixture.until("three pods have nodes", async |fixture| fixture.scheduled().await == 3).await;
    fixture.delete_pods().await;
    fixture.until("the group is empty again", async |fixture| fixture.capacity("web") == 0).await;
    fixture.finish(&["error reading from server", "connection error", "EOF", "connection reset", "broken pipe"]);
}
