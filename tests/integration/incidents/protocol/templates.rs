//! Node templates on the wire.

use headcount::grpc::proto::NodeGroupTemplateNodeInfoRequest;
use k8s_pb::api::core::v1::Node;
use prost::Message;
use tonic::{Code, Request};

use crate::emulators::aws::{Launch, template_id};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::incidents::aws::{aws, group};
use crate::peers::headcount::{Client, refused};

/// Asks with a deadline of one second.
async fn ask(client: &mut Client, id: &str) -> Result<(prost::bytes::Bytes, prost::bytes::Bytes), tonic::Status> {
    let mut request = Request::new(NodeGroupTemplateNodeInfoRequest { id: id.to_owned() });
    request.set_timeout(std::time::Duration::from_secs(1));
    let response = client.stub().node_group_template_node_info(request).await?.into_inner();
    Ok((response.node_info, response.node_bytes))
}

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
    let client = &mut setup.client;
    for (group, reason) in [
        ("missing", "does not exist"),
        ("neither", "launch"),
        ("unknown", "x0.nano"),
        ("nowhere", "zone"),
        ("slow", "still being built; try again"),
    ] {
        let mut last = (Code::Ok, String::new());
        let refused = async |client: &mut Client| {
            last = refused(ask(client, group).await);
            last.1.contains(reason)
        };
        client.until("its template is refused for this reason", refused).await;
        let (code, message) = last;
        assert_eq!(code, Code::Unimplemented, "{group}: {message}");
        assert!(message.starts_with(&format!("node group {group}: no template: ")), "{message}");
    }
    let (code, _) = refused(ask(client, "nobody's").await);
    assert_eq!(code, Code::NotFound);
    for group in ["web", "image"] {
        // An OK response without a node would crash the autoscaler.
        if let Ok((old, new)) = ask(client, group).await {
            assert!(!old.is_empty() && !new.is_empty(), "{group}");
        }
    }
    setup.emulator.release();
    client.until("it is built", async |client| ask(client, "slow").await.is_ok()).await;
    client.until("the other groups were never affected", async |client| ask(client, "web").await.is_ok()).await;
}

#[tokio::test]
async fn both_template_fields() {
    let mixed = group("mixed", (0, 10, 0)).instance_types(&["m5.xlarge", "c5.large"]);
    let mut setup = Setup::open(aws([group("web", (0, 10, 0)), group("running", (0, 10, 2)), mixed])).await;
    for name in ["web", "running", "mixed"] {
        setup.client.until("it is built", async |client| ask(client, name).await.is_ok()).await;
        let (old, new) = ask(&mut setup.client, name).await.expect("built");
        assert!(!old.is_empty() && old == new, "1.33 and earlier read one field, 1.35 and later the other");
        let node = Node::decode(new).expect("a v1.Node");
        let metadata = node.metadata.expect("metadata");
        assert!(!metadata.labels.is_empty(), "1.31 and earlier write to the labels");
        assert!(metadata.name.is_some_and(|name| !name.is_empty()));
        let status = node.status.expect("a status");
        assert!(["cpu", "memory", "pods"].iter().all(|resource| status.allocatable.contains_key(*resource)));
    }
}
