//! Which groups are listed, how long that takes, and with whose credentials.

use std::time::Duration;

use tonic::Code;

use super::{FOREVER, aws, desired_written, group};
use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::emulators::{Emulator, HoldPoint};
use crate::peers::headcount::{Client, ConfigFile, Server, eventually, refused};

const TAG: &str = "k8s.io/cluster-autoscaler/enabled";

/// Groups that are discovered by a tag with this value.
fn tagged(names: &[&str]) -> Aws {
    let tagged = |name: &&str| {
        let mut plan = group(name, (0, 10, 2));
        plan.tags.insert(TAG.to_owned(), "true".to_owned());
        plan
    };
    aws(names.iter().map(tagged))
}

async fn served(client: &mut Client) -> Vec<String> {
    let mut ids: Vec<String> = client.node_groups().await.into_iter().map(|group| group.id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn asg_tag_removed() {
    for refresh in ["1s", super::SELDOM] {
        let setup = Setup::with(tagged(&["changed", "kept", "removed"]), |options| {
            options.refresh = refresh.to_owned();
            options.node_groups.clear();
            options.auto_discovery = vec![format!("asg:tag={TAG}=true")];
        });
        let mut setup = setup.await;
        let (client, simulated) = (&mut setup.client, setup.emulator.simulated());
        assert_eq!(served(client).await, ["changed", "kept", "removed"]);
        simulated
            .replan("changed", |plan| drop(plan.tags.insert(TAG.to_owned(), "false".to_owned())))
            .expect("it exists");
        simulated.replan("removed", |plan| drop(plan.tags.remove(TAG))).expect("it exists");
        if refresh == super::SELDOM {
            // Not listed again yet. The read for the write shows it.
            for name in ["changed", "removed"] {
                let (code, _) = refused(client.increase(name, 1).await);
                assert_eq!(code, Code::NotFound);
            }
        }
        client.until("they are gone", async |client| served(client).await == ["kept"]).await;
        client.increase("kept", 1).await.expect("it is still served");
        let written = ["changed", "kept", "removed"].map(|name| desired_written(&setup.emulator, name));
        assert_eq!(written, [vec![], vec![3], vec![]]);
    }
}

#[tokio::test]
async fn asg_slow_pages() {
    const PAGES: usize = 11;
    let name = |number: usize| format!("web-{number:02}");
    let aws = aws((0..PAGES).map(|number| group(&name(number), (0, 20, 2))));
    aws.behavior(|behavior| behavior.page = 1);
    // One page takes longer than a read with a waiting caller may take.
    aws.hold("POST", "NextToken=5", HoldPoint::BeforeResponse);
    let mut setup = Setup::open(aws).await;
    let asked_for = |aws: &Aws, page: &str| aws.requests_with("POST", page).len();
    let asked = |aws: &Aws| asked_for(aws, "NextToken=5");
    let passes = async |aws: &Aws, time: Duration| {
        let since = aws.simulated().elapsed();
        eventually("time passes", || aws.simulated().elapsed() > since + time).await;
    };
    let aws = &setup.emulator;
    eventually("the page is requested", || asked(aws) == 1).await;
    passes(aws, Duration::from_secs(11)).await;
    assert_eq!(asked(aws), 1, "neither abandoned nor requested again");
    aws.release();
    setup.server().logged("\"ready\"");
    assert_eq!(served(&mut setup.client).await.len(), PAGES);
    setup.server().logged("a listing takes longer than the refresh interval; groups are read less often");

    // Listings take longer than their interval.
    aws.hold("POST", "NextToken=5", HoldPoint::BeforeEffect);
    let before = asked(aws);
    eventually("a listing is in its middle", || asked(aws) > before).await;
    passes(aws, Duration::from_secs(2)).await;
    for number in [0, PAGES - 1] {
        aws.simulated().set_desired_externally(&name(number), 5).expect("it exists");
    }
    let (now, next) = (asked(aws), asked_for(aws, "NextToken=6"));
    aws.hold("POST", "NextToken=6", HoldPoint::BeforeEffect);
    // If a hold is replaced before the held request notices its release, the request stays held.
    eventually("its next page is requested", || asked_for(aws, "NextToken=6") > next).await;
    aws.hold("POST", "NextToken=5", HoldPoint::BeforeEffect);
    eventually("the next listing is in its middle", || asked(aws) > now).await;
    // Its first pages are published. The last page of the listing before it had the new size too.
    let client = &mut setup.client;
    client.until("the first page is published", async |client| client.target(&name(0)).await == 5).await;
    assert_eq!(client.target(&name(PAGES - 1)).await, 5);
    assert_eq!(asked(&setup.emulator), now + 1, "the listing has not finished meanwhile");
    let ready = setup.server().probe("/readyz");
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("here: slow, a listing takes "), "{ready}");
    setup.client.refresh().await.expect("nothing is older than 2 min");
}

#[tokio::test]
async fn asg_credentials_rotated() {
    let file = |key: &str| format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n");
    let accept = |aws: &Aws, key: &str| aws.behavior(|behavior| behavior.access_key = Some(key.to_owned()));
    let aws = aws([group("web", (0, 10, 2)).delete_time(FOREVER..=FOREVER)]);
    accept(&aws, "AKIAFIRST");
    let settings: String = aws.settings().iter().map(|line| format!("      {line}\n")).collect();
    let config = ConfigFile::new(&format!(
        "refreshInterval: 1s\nsources:\n  - name: here\n    aws:\n{settings}      nodeGroups: [\"0:10:web\"]\n"
    ));
    let config = config.beside("credentials", &file("AKIAFIRST"));
    let path = config.path_of("credentials");
    let variables =
        [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", ""), ("AWS_SHARED_CREDENTIALS_FILE", path.as_str())];
    let server = Server::in_environment(&["--config", &config.path()], &variables);
    let mut client = server.client().await;
    assert_eq!(client.target("web").await, 2);

    // The old keys are refused before the file has the new ones.
    accept(&aws, "AKIASECOND");
    server.logged("source cannot be listed; serving the last readings");
    std::fs::write(&path, file("AKIASECOND")).expect("written");
    client.until("accepted", async |client| client.increase("web", 1).await.is_ok()).await;
    assert_eq!(desired_written(&aws, "web").last(), Some(&3));

    // The file has the new keys before the old ones are refused.
    std::fs::write(&path, file("AKIATHIRD0")).expect("written");
    server.logged("the shared AWS files have changed; loading the credentials again");
    accept(&aws, "AKIATHIRD0");
    client.until("accepted", async |client| client.increase("web", 1).await.is_ok()).await;
    assert_eq!(client.target("web").await, 4);
}
