//! Replays "From an alert to its cause" of docs/operations.md on the demo.

use serde_json::Value;

use super::metrics::{body, value};
use super::statusz::status;
use crate::peers::headcount::{ConfigFile, Server, eventually, run};

const ALERT: &str = "headcount_node_group_launch_failures_total{node_group=\"no-capacity\"}";
const CODE: &str = "headcount_instance_launch_failures_total{node_group=\"no-capacity\",class=\"out_of_resources\",\
                    reason=\"InsufficientInstanceCapacity\"}";

#[tokio::test]
async fn the_cause_of_an_alert_is_found_with_the_commands_of_the_page() {
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    client.node_groups().await;
    assert_eq!(value(&body(&server.probe("/metrics")), ALERT), Some(0.0), "the alert needs it at zero");
    client.increase("no-capacity", 1).await.expect("accepted; it fails later");
    eventually("the alert fires", || value(&body(&server.probe("/metrics")), ALERT) == Some(1.0)).await;
    assert_eq!(value(&body(&server.probe("/metrics")), CODE), Some(1.0));

    let status = status(&server);
    let groups = status["groups"].as_array().expect("groups");
    let group = groups.iter().find(|group| group["id"] == "no-capacity").expect("the group");
    assert_eq!(group["failures"][0]["code"], "InsufficientInstanceCapacity");
    assert!(group["failures"][0]["message"].as_str().is_some_and(|message| !message.is_empty()));
    let decision = &status["decisions"][0];
    assert_eq!((&decision["group"], &decision["action"]), (&"no-capacity".into(), &"increase by 1".into()));

    let line: Value = serde_json::from_str(&server.logged("setting the capacity of the node group")).expect("JSON");
    assert_eq!(line["span"]["request_id"], decision["requestId"], "{line:#}");

    let config = ConfigFile::new("sources: [{name: demo, simulated: {}}]\n");
    let url = format!("http://{}", server.admin());
    // On a busy machine, a connection to the admin port may be closed because it stays silent for 2 s. The test then
    // tries again.
    let is_read = |output: &std::process::Output| !String::from_utf8_lossy(&output.stderr).contains("cannot be read");
    let mut outputs = (0..5).map(|_| run(&["compare", "--config", &config.path(), "--server", &url, "-o", "json"]));
    let output = outputs.find(is_read).expect("the server responds");
    let compared: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = compared["groups"].as_array().expect("groups");
    let row = rows.iter().find(|row| row["id"] == "no-capacity").expect("the group");
    assert_eq!(row["headcountTarget"], 1, "{compared:#}");
    let differences = row["differences"].as_array().expect("a list");
    let names_it =
        |difference: &Value| difference.as_str().is_some_and(|text| text.contains("InsufficientInstanceCapacity"));
    assert!(differences.iter().any(names_it), "{row:#}");
}
