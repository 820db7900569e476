//! Node templates on the wire.

use std::time::Duration;

use k8s_pb::api::core::v1::Node;
use prost::Message;
use tonic::Code;

use crate::emulators::aws::{Launch, template_id};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::incidents::aws::{aws, group};
use crate::peers::headcount::refused;

#[tokio::test]
async fn template_never_empty() {
    let unknown = group("unknown", (0, 10, 0)).instance_types(&["x0.nano"]);
    let mut nowhere = group("nowhere", (0, 10, 0));
    nowhere.zones.clear();
    let names = ["missing", "neither", "image"];
    let aws = aws(names.map(|name| group(name, (0, 10, 0))).into_iter().chain([
        unknown,
        nowhere,
        group("slow", (0, 10, 0)),
        group("web", (0, 10, 0)),
    ]));
    aws.group_details("missing", |details| details.launch = Launch::MissingTemplate);
    aws.group_details("neither", |details| details.launch = Launch::Nothing);
    // The image has the size of the root volume if the launch template does not.
    aws.group_details("image", |details| details.image = "ami-missing".to_owned());
    aws.hold("POST", &format!("LaunchTemplateId={}", template_id("slow")), HoldPoint::BeforeEffect);
    let mut setup = Setup::open(aws).await;
    // The server responds before the deadline, whether or not there is a template.
    let caller = setup.server().untimed_client(Duration::from_secs(1)).await;
    let ask = async |group: &str| caller.clone().template(group).await;
    let client = &mut setup.client;
    for (group, reason) in [
        ("missing", "does not exist"),
        ("neither", "launch"),
        ("unknown", "x0.nano"),
        ("nowhere", "zone"),
        ("slow", "still being built; try again"),
    ] {
        let mut last = (Code::Ok, String::new());
        let refused = async |_: &mut _| {
            last = refused(ask(group).await);
            last.1.contains(reason)
        };
        client.until("its template is refused for this reason", refused).await;
        let (code, message) = last;
        assert_eq!(code, Code::Unimplemented, "{group}: {message}");
        assert!(message.starts_with(&format!("node group {group}: no template: ")), "{message}");
    }
    let (code, _) = refused(ask("nobody's").await);
    assert_eq!(code, Code::NotFound);
    for group in ["web", "image"] {
        // An OK response without a node would crash the autoscaler.
        if let Ok(template) = ask(group).await {
            assert!(!template.node_info.is_empty() && !template.node_bytes.is_empty(), "{group}");
        }
    }
    setup.emulator.release();
    client.until("it is built", async |_| ask("slow").await.is_ok()).await;
    client.until("the other groups were never affected", async |_| ask("web").await.is_ok()).await;
}

#[tokio::test]
async fn both_template_fields() {
    let mixed = group("mixed", (0, 10, 0)).instance_types(&["m5.xlarge", "c5.large"]);
    let mut setup = Setup::open(aws([group("web", (0, 10, 0)), group("running", (0, 10, 2)), mixed])).await;
    for name in ["web", "running", "mixed"] {
        setup.client.until("it is built", async |client| client.template(name).await.is_ok()).await;
        let template = setup.client.template(name).await.expect("built");
        let (old, new) = (template.node_info, template.node_bytes);
        assert!(!old.is_empty() && old == new, "1.33 and earlier read one field, 1.35 and later the other");
        let node = Node::decode(new).expect("a v1.Node");
        let metadata = node.metadata.expect("metadata");
        assert!(!metadata.labels.is_empty(), "1.31 and earlier write to the labels");
        assert!(metadata.name.is_some_and(|name| !name.is_empty()));
        let status = node.status.expect("a status");
        assert!(["cpu", "memory", "pods"].iter().all(|resource| status.allocatable.contains_key(*resource)));
    }
}
