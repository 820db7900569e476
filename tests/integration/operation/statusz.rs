//! `/statusz` of the real binary.

use serde_json::Value;

use super::metrics::body;
use crate::peers::headcount::{ConfigFile, Server};

/// The status as JSON.
pub(super) fn status(server: &Server) -> Value {
    serde_json::from_str(&body(&server.probe("/statusz?format=json"))).expect("JSON")
}

#[tokio::test]
async fn the_document_shows_sources_groups_and_the_decisions_with_their_reasons() {
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    client.node_groups().await;
    client.increase("web", 2).await.expect("there is room");
    assert!(client.increase("web", 1000).await.is_err());
    let status = status(&server);
    assert_eq!((&status["schema"], &status["ready"], &status["standby"]), (&1.into(), &true.into(), &false.into()));
    assert_eq!(status["readOnly"], false);
    assert!(status["autoscaler"]["lastCall"].is_string(), "{status:#}");
    assert_eq!(status["sources"][0]["name"], "demo");
    assert!(status["sources"][0]["ageSeconds"].is_u64());
    let groups = status["groups"].as_array().expect("groups");
    let web = groups.iter().find(|group| group["id"] == "web").expect("web");
    let target = u64::try_from(client.target("web").await).expect("a size");
    assert_eq!(web["target"], target);
    assert_eq!((&web["operations"][0]["kind"], &web["creating"]), (&"increase".into(), &2.into()), "{web:#}");
    let decisions = status["decisions"].as_array().expect("decisions");
    let shown: Vec<_> = decisions.iter().map(|decision| (&decision["action"], &decision["result"])).collect();
    assert_eq!(shown, [(&"increase by 1000".into(), &"refused".into()), (&"increase by 2".into(), &"ok".into())]);
    assert!(decisions[0]["reason"].as_str().is_some_and(|reason| reason.contains("above its maximum")), "{status:#}");
    assert!(decisions[0]["requestId"].is_string());
}

#[tokio::test]
async fn accept_decides_between_json_and_a_page_without_a_script() {
    let server = Server::start(&["--demo"]);
    server.client().await.node_groups().await;
    let json = server.probe_with("/statusz", "Accept: application/json\r\n");
    assert!(json.contains("content-type: application/json"), "{json}");
    let page = server.probe_with("/statusz", "Accept: text/html,*/*\r\n");
    assert!(
        page.contains("content-type: text/html") && page.contains("content-security-policy: default-src 'none'"),
        "{page}"
    );
    assert!(!page.contains("<script") && page.contains("<th scope=\"row\">web"));
}

#[tokio::test]
async fn a_page_of_another_site_gets_no_status_unless_it_is_public() {
    let source = "sources: [{name: demo, simulated: {}}]\n";
    let server = Server::with_config(&ConfigFile::new(source));
    assert!(server.probe_as("/statusz", "localhost").starts_with("HTTP/1.1 200"), "a caller on this host");
    let rebound = server.probe_as("/statusz", "evil.example");
    assert!(rebound.starts_with("HTTP/1.1 403") && rebound.contains("port-forward"), "{rebound}");
    assert!(server.probe_as("/metrics", "evil.example").starts_with("HTTP/1.1 200"), "metrics are for scrapers");
    let everywhere = format!("admin: {{statusz: everywhere}}\n{source}");
    let server = Server::with_config(&ConfigFile::new(&everywhere));
    assert!(server.probe_as("/statusz", "evil.example").starts_with("HTTP/1.1 200"));
}
