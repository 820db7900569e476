//! The status page in headless Chromium (`tests/status_page/run`), after something has happened in the demo.

use std::path::Path;

use super::statusz::status;
use super::tools::run;
use crate::peers::headcount::{Server, eventually};

#[tokio::test]
async fn the_status_page_is_readable_on_phones_and_desktops_light_and_dark() {
    let has_chromium = ["chromium", "chromium-browser", "google-chrome"].iter().any(|name| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(name).exists())
    });
    if !has_chromium {
        eprintln!("skipped: Chromium is not installed");
        return;
    }
    let server = Server::start(&["--demo"]);
    let mut client = server.client().await;
    client.node_groups().await;
    client.increase("no-capacity", 2).await.expect("accepted; it fails later");
    client.increase("web", 3).await.expect("there is room");
    assert!(client.increase("gpu", 9).await.is_err());
    let failed = || {
        let status = status(&server);
        let groups = status["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().any(|group| group["id"] == "no-capacity" && group["failures"][0]["code"].is_string())
    };
    eventually("the launch fails", failed).await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (script, picture) = (root.join("tests/status_page/run"), root.join("docs/statusz.png"));
    let (script, admin, picture) =
        (script.display().to_string(), server.admin().to_string(), picture.display().to_string());
    let mut arguments = vec![script.as_str(), "--admin", &admin];
    if std::env::var_os("HEADCOUNT_WRITE_DOCS").is_some() {
        arguments.extend(["--screenshot", &picture]);
    }
    let Some(output) = run("python3", &arguments, "") else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
