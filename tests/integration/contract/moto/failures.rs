//! Bad input, and an AWS that does not respond.

use super::*;

#[tokio::test]
async fn bad_input_is_refused_with_a_reason_and_changes_nothing() {
    let Some(moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 2), &TAGS).await;
    moto.group("by-name", "m5.large", (0, 10, 1), &[]).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let mut client = server.client().await;
    let own = client.nodes_in("by-tag", 1).await[0].clone();
    let other = client.nodes_in("by-name", 1).await[0].clone();
    let before = moto.view("by-tag").await;

    let many = vec![own.as_str(); 10_000];
    let outcomes = [
        (client.increase("unknown", 1).await, Code::NotFound, "unknown"),
        (client.increase("", 1).await, Code::InvalidArgument, "id is empty"),
        (client.increase("by-tag", 0).await, Code::InvalidArgument, "send a positive delta"),
        (client.increase("by-tag", -3).await, Code::InvalidArgument, "send a positive delta"),
        (client.increase("by-tag", 9).await, Code::FailedPrecondition, "above its maximum of 10"),
        (client.decrease("by-tag", 0).await, Code::InvalidArgument, "send a negative delta"),
        (client.decrease("by-tag", 2).await, Code::InvalidArgument, "send a negative delta"),
        (client.delete("by-tag", &[]).await, Code::InvalidArgument, "names no node"),
        (client.delete("by-tag", &[&own, &other]).await, Code::InvalidArgument, "belongs to node group by-name"),
        (client.delete("by-tag", &[&own, ""]).await, Code::InvalidArgument, "without a provider ID"),
        (client.delete("by-tag", &[&own, "azure:///x"]).await, Code::InvalidArgument, "not of the form"),
        (client.delete("by-tag", &many).await, Code::InvalidArgument, "names 10000 nodes"),
        (client.delete("unknown", &[&own]).await, Code::NotFound, "unknown"),
    ];
    for (outcome, code, part) in outcomes {
        let (refused_with, message) = refused(outcome);
        assert_eq!(refused_with, code, "{message}");
        assert!(message.contains(part), "{message}");
    }
    send_garbage(server.grpc());
    assert_eq!(client.group_of("").await, None);
    assert_eq!(client.group_of("eks-hybrid:///us-west-2/my-cluster/my-node-1").await, None);
    client.decrease("by-tag", -2).await.expect("nothing to take back is a success");
    assert_eq!(moto.view("by-tag").await, before);
    assert_eq!(client.target("by-tag").await, 2);
}

/// Sends bytes that are not HTTP/2. The server closes the connection and keeps running.
fn send_garbage(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let garbage: Vec<u8> = (0..4096_u32).map(|number| u8::try_from(number * 7919 % 251).expect("small")).collect();
    let _closed_meanwhile = stream.write_all(&garbage);
    let _reset_or_closed = stream.read_to_end(&mut Vec::new());
}

#[tokio::test]
async fn while_aws_is_down_reads_continue_and_writes_are_unavailable_in_time() {
    let Some(mut moto) = Moto::start().await else { return };
    moto.group("by-tag", "m5.large", (0, 10, 2), &TAGS).await;
    let config = config(&moto, "");
    let server = Server::with_config(&config);
    let (mut reader, mut client) = (server.client().await, server.untimed_client(AUTOSCALER_TIMEOUT).await);
    assert_eq!(reader.target("by-tag").await, 2);
    moto.stop();
    server.logged("cannot be listed");
    for _ in 0..3 {
        reader.refresh().await.expect("fresh enough");
        assert_eq!((reader.node_groups().await.len(), reader.target("by-tag").await), (1, 2));
        // The response is the server's, and not the end of the caller's time.
        let (code, message) = refused_in_time(async || client.increase("by-tag", 1).await).await;
        assert_eq!(code, Code::Unavailable, "{message}");
    }
    assert_eq!(reader.target("by-tag").await, 2);
}
