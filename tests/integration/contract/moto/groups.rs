//! Groups are found, listed and scaled.

use super::*;

#[tokio::test]
async fn groups_are_found_by_tag_and_by_name_and_scaled_by_the_node() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 2), &TAGS).await;
    moto.group("by-other-tag", "m5.large", (1, 5, 1), &[("team", "data")]).await;
    moto.group("by-name", "m5.large", (0, 20, 0), &[]).await;
    moto.group("nobody-asked", "m5.large", (0, 10, 1), &[("team", "web")]).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let mut client = server.client().await;

    let groups = client.node_groups().await.into_iter().map(|group| (group.id, group.min_size, group.max_size));
    let found = [("by-name", 0, 10), ("by-other-tag", 1, 5), ("by-tag", 0, 10)];
    let found = found.map(|(id, min, max)| (id.to_owned(), min, max));
    assert_eq!(groups.collect::<BTreeSet<_>>(), BTreeSet::from(found));

    client.increase("by-tag", 3).await.expect("2 → 5");
    assert_eq!(client.target("by-tag").await, 5);
    client.until("five run", async |client| client.nodes_in("by-tag", 1).await.len() == 5).await;
    assert_eq!(moto.view("by-tag").await.0, 5);

    let victim = client.nodes_in("by-tag", 1).await[2].clone();
    assert_eq!(client.group_of(&victim).await.as_deref(), Some("by-tag"));
    client.delete("by-tag", &[&victim]).await.expect("deleted");
    assert_eq!(client.target("by-tag").await, 4);
    client.delete("by-tag", &[&victim]).await.expect("a repeated deletion is a success");
    assert_only_these_are_gone(&moto, &mut client, std::slice::from_ref(&victim)).await;
    assert_eq!(client.target("by-tag").await, 4);
}

async fn assert_only_these_are_gone(moto: &Moto, client: &mut Client, victims: &[String]) {
    client
        .until("they are gone", async |client| {
            let (nodes, running) = (client.nodes("by-tag").await, client.nodes_in("by-tag", 1).await);
            nodes.len() == running.len() && victims.iter().all(|victim| !running.contains(victim))
        })
        .await;
    let (desired, left) = moto.view("by-tag").await;
    assert_eq!(desired, i32::try_from(left.len()).expect("few"));
    assert!(left.iter().all(|id| !victims.iter().any(|victim| victim.ends_with(id))), "{left:?} {victims:?}");
}

#[tokio::test]
async fn concurrent_scale_ups_and_deletes_over_the_wire_are_exact() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 40, 2), &TAGS).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let mut client = server.client().await;

    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let mut client = client.clone();
        calls.spawn(async move { client.increase("by-tag", 1).await });
    }
    let outcomes = calls.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 38);
    for outcome in outcomes.into_iter().filter(Result::is_err) {
        let (code, message) = refused(outcome);
        assert_eq!(code, Code::FailedPrecondition);
        assert!(message.contains("above its maximum of 40"), "{message}");
    }
    assert_eq!((client.target("by-tag").await, moto.view("by-tag").await.0), (40, 40));

    client.until("forty run", async |client| client.nodes_in("by-tag", 1).await.len() == 40).await;
    let victims: Vec<String> = client.nodes_in("by-tag", 1).await.into_iter().take(30).collect();
    let mut calls = JoinSet::new();
    for victim in victims.clone() {
        let mut client = client.clone();
        calls.spawn(async move { (client.delete("by-tag", &[&victim]).await, victim) });
    }
    // Under concurrent calls moto returns an HTTP 500 now and then, which leaves the outcome unknown.
    for (outcome, victim) in calls.join_all().await {
        if let Err(status) = outcome {
            assert_eq!(status.code(), Code::Unavailable, "{status:?}");
            client
                .until("its outcome is settled", async |client| client.delete("by-tag", &[&victim]).await.is_ok())
                .await;
        }
    }
    assert_eq!(client.target("by-tag").await, 10);
    assert_only_these_are_gone(&moto, &mut client, &victims).await;
    assert_eq!(client.target("by-tag").await, 10);
}

#[tokio::test]
async fn groups_are_listed_with_no_server_running() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 2), &TAGS).await;
    let config = config(&moto, "");
    let listed = json(&["groups", "--config", &config.path(), "-o", "json"]);
    let group = &listed[0];
    let keys: BTreeSet<&str> = group.as_object().expect("an object").keys().map(String::as_str).collect();
    let documented = "id source min max target desired live creating deleting failed ageSeconds";
    assert_eq!(keys, documented.split(' ').collect());
    assert_eq!((&group["id"], &group["source"]), (&Value::from("by-tag"), &Value::from("us")));
    for (key, value) in [("min", 0), ("max", 10), ("target", 2), ("desired", 2), ("live", 2), ("failed", 0)] {
        assert_eq!(group[key], value, "{key}");
    }
    let table = command(&["groups", "--config", &config.path()]).output().expect("runs");
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(table.starts_with("ID "), "{table}");
    assert!(table.contains("by-tag   us "), "{table}");

    let in_tree = command(&["groups", "--cloud-provider=aws", "--nodes=0:10:by-tag", "-o", "json"])
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL", moto.url())
        .output()
        .expect("runs");
    let in_tree: Value = serde_json::from_slice(&in_tree.stdout).expect("JSON");
    assert_eq!((&in_tree[0]["id"], &in_tree[0]["source"]), (&Value::from("by-tag"), &Value::from("aws")));
}
