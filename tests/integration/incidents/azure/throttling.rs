//! Too many calls.

use serde_json::json;
use tonic::Code;

use super::{arm, capacities_written, pool};
use crate::faces::arm as face;
use crate::faces::scene::Scene;
use crate::faces::{Answer, Face};
use crate::peers::headcount::{ConfigFile, Server, refused};

#[tokio::test]
async fn vmss_throttled_at_start() {
    let arm = arm([pool("pool", (3, 300, 200))]);
    let throttled = face::error(429, "TooManyRequests", "too many").header("retry-after", 120);
    arm.script("GET", "virtualMachineScaleSets", 1_000, throttled);
    let config = ConfigFile::new(&format!(
        "sources:\n  - name: eu\n    azure:\n{}\n      nodeGroups: [\"3:300:pool\"]\n",
        arm.settings().iter().map(|line| format!("      {line}")).collect::<Vec<_>>().join("\n")
    ));
    let server = Server::with_config(&config);
    server.logged("cannot be listed");
    let mut client = server.client().await;
    let (code, message) = refused(client.increase("pool", 1).await);
    assert_eq!(code, Code::Unavailable, "{message}");
    assert!(capacities_written(&arm, "pool").is_empty());
    assert_eq!(arm.requests().len(), 1, "no call on that bucket before Retry-After");
}

#[tokio::test]
async fn vmss_429_retry_after() {
    let mut scene = Scene::open(arm([pool("pool", (0, 10, 2))])).await;
    assert_eq!(scene.client.target("pool").await, 2);
    let throttled = Answer::json(429, &json!({"error": {"code": "TooManyRequests", "message": "slow down"}}));
    scene.face.script("GET", "", 1_000, throttled.header("retry-after", 120));
    scene.server().logged("cannot be listed");
    let shown = scene.server().logged("\"calls\":\"lists of scale sets\"");
    assert!(shown.contains("azure asks for a pause") && shown.contains("\"seconds\":120"), "{shown}");
    assert!(shown.contains("LowCostGetVMScaleSetSubscriptionMaximum: 2399"), "what remains is shown: {shown}");
    scene.face.forget_requests();
    for _ in 0..3 {
        scene.client.refresh().await.expect("what was read last is fresh enough");
        assert_eq!(scene.client.target("pool").await, 2, "warm data is served");
    }
    let (code, message) = refused(scene.client.increase("pool", 1).await);
    assert_eq!(code, Code::Unavailable, "{message}");
    let listings = scene.face.requests();
    let listings = listings.iter().filter(|request| request.path.to_lowercase().ends_with("virtualmachinescalesets"));
    assert_eq!(listings.count(), 0, "no call on that bucket before Retry-After");
}
