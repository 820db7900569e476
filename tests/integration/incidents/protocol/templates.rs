//! Node templates on the wire.

use std::time::Duration;

use k8s_pb::api::core::v1::Node;
use prost::Message;
use tonic::Code;

use crate::emulators::aws::{Launch, template_id};
use crate::emulators::kubernetes::{ApiServer, mk_node};
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::incidents::aws::{aws, group};
use crate::peers::headcount::{Client, eventually, refused};

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

#[tokio::test]
async fn learned_templates_at_start() {
    let api = ApiServer::plain();
    let setup = Setup::with(aws([group("web", (0, 10, 1)).instance_types(&["m5.large"])]), |options| {
        options.more = "learn: {kubernetes: true, kubeconfig: kubeconfig}".to_owned();
        options.files.push(("kubeconfig".to_owned(), api.kubeconfig_text()));
    });
    let mut setup = setup.await;
    let before = setup.client.template("web").await.expect("built").node_bytes;
    let id = setup.client.nodes("web").await[0].id.clone();
    api.set_nodes([mk_node("one", &id, 7_000_000)]);
    // It learns at the start, and every minute.
    setup.restart().await;
    let is_saved = || api.config_map("kube-system", "headcount-learned").is_some();
    eventually("what the node has is saved", is_saved).await;
    let new = async |client: &mut Client| client.template("web").await.expect("built").node_bytes != before;
    setup.client.until("what the node has is in the template", new).await;
    let learned = setup.client.template("web").await.expect("built").node_bytes;

    setup.client.delete("web", &[&id]).await.expect("deleted");
    setup.client.until("it is gone", async |client| client.nodes("web").await.is_empty()).await;
    api.set_nodes([]);
    api.hold_config_maps(true);
    setup.restart().await;
    assert_eq!(setup.client.target("web").await, 0, "everything else is served at once");
    let mut hurried = setup.client.clone().with_timeout(Duration::from_secs(1));
    hurried.template("web").await.expect_err("a template without the figures");
    api.hold_config_maps(false);
    assert_eq!(setup.client.template("web").await.expect("built").node_bytes, learned);
}
