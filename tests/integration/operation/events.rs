//! Kubernetes Events about Headcount's own pod.

use serde_json::Value;

use crate::emulators::kubernetes::ApiServer;
use crate::peers::headcount::{ConfigFile, Server, eventually};

const POD: [(&str, &str); 2] = [("POD_NAME", "headcount-0"), ("POD_NAMESPACE", "autoscaling")];

fn events(api: &ApiServer) -> Vec<Value> {
    let requests = api.requests();
    let events = requests.iter().filter(|request| request.path == "/api/v1/namespaces/autoscaling/events");
    events.map(|request| serde_json::from_str(&request.body).expect("JSON")).collect()
}

#[tokio::test]
async fn failed_launches_and_refused_writes_become_events_ten_a_minute_at_most() {
    let api = ApiServer::plain();
    let text = "kubernetes: {kubeconfig: kubeconfig, events: true}\nsources: [{name: demo, simulated: {}}]\n";
    let config = ConfigFile::new(text).beside("kubeconfig", &api.kubeconfig_text());
    let server = Server::in_environment(&["--config", &config.path()], &POD);
    let mut client = server.client().await;
    client.node_groups().await;
    client.increase("no-capacity", 1).await.expect("accepted; it fails later");
    let has = |reason: &str| events(&api).iter().any(|event| event["reason"] == reason);
    eventually("the failed launch is an Event", || has("LaunchFailed")).await;
    for _ in 0..20 {
        assert!(client.increase("web", 1000).await.is_err());
    }
    eventually("the refused writes are Events", || events(&api).len() == 10).await;
    client.node_groups().await;
    let found = events(&api);
    assert_eq!(found.len(), 10, "{found:#?}");
    let launch = found.iter().find(|event| event["reason"] == "LaunchFailed").expect("an Event");
    assert_eq!(
        (&launch["involvedObject"]["kind"], &launch["involvedObject"]["name"]),
        (&"Pod".into(), &"headcount-0".into())
    );
    assert!(launch["message"].as_str().is_some_and(|text| text.contains("no-capacity: InsufficientInstanceCapacity")));
    assert!(has("WriteFailed"));
}
