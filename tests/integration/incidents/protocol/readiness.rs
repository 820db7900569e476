//! What the probes report about a source that cannot be read.

use crate::emulators::setup::Setup;
use crate::emulators::{Emulator as _, HttpResponse};
use crate::incidents::aws::{aws, group};
use crate::peers::headcount::eventually;

#[tokio::test]
async fn sticky_readiness() {
    let setup = Setup::open(aws([group("web", (0, 9, 3))])).await;
    let mut client = setup.client.clone();
    assert_eq!(client.node_groups().await.len(), 1);
    let probe = |path: &str| setup.server().probe(path);
    assert!(probe("/livez?max-age=15m").starts_with("HTTP/1.1 200"));
    let denied = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>account \
        123456789012</Message></Error></ErrorResponse>";
    setup.emulator.script("POST", "DescribeAutoScalingGroups", u32::MAX, HttpResponse::xml(403, denied.to_owned()));
    eventually("the source is denied", || probe("/readyz").contains("source here: denied, not read for")).await;
    eventually("no source is read any more", || probe("/livez?max-age=1s").starts_with("HTTP/1.1 503")).await;
    let ready = probe("/readyz");
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("source here: denied, not read for"), "{ready}");
    assert!(!ready.contains("123456789012"), "the probes show a text of the cloud to anyone: {ready}");
    assert!(probe("/livez").starts_with("HTTP/1.1 200"));
    assert_eq!(client.node_groups().await.len(), 1);
}
