//! `grpc.listen: unix:///…`: the form that the manifests use.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use tonic::Code;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ListServiceResponse, ServerReflectionRequest};

use crate::peers::headcount::{ConfigFile, Server, command, refused};

/// A folder with room for a socket, and a configuration that serves the demo on it.
fn configured(more: &str) -> (TempDir, PathBuf, ConfigFile) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("grpc.sock");
    let grpc = format!("grpc: {{listen: \"unix://{}\"{more}}}\n", path.display());
    (folder, path, ConfigFile::new(&(grpc + "sources: [{name: demo, simulated: {}}]\n")))
}

#[tokio::test]
async fn clients_are_served_over_a_private_socket_that_is_removed_at_the_end() {
    let (_folder, path, config) = configured("");
    let server = Server::on_configured_listener(&config);
    let found = fs::metadata(&path).expect("it exists");
    assert!(found.file_type().is_socket() && found.permissions().mode() & 0o7777 == 0o600);
    let mut client = server.client().await;
    client.until("the demo is served", async |client| !client.node_groups().await.is_empty()).await;
    let before = client.target("web").await;
    client.increase("web", 1).await.expect("there is room");
    assert_eq!(client.target("web").await, before + 1);
    assert_eq!(refused(client.increase("unknown", 1).await).0, Code::NotFound);

    // As grpcurl lists services.
    let mut reflection = ServerReflectionClient::new(server.endpoint().connect().await.expect("connects"));
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let responses = reflection.server_reflection_info(tokio_stream::once(request)).await.expect("a stream");
    let response = responses.into_inner().message().await.expect("a response").expect("one message");
    let Some(MessageResponse::ListServicesResponse(ListServiceResponse { service })) = response.message_response else {
        panic!("{response:?}");
    };
    assert!(service.iter().any(|service| service.name.ends_with("externalgrpc.CloudProvider")), "{service:?}");

    drop((client, reflection));
    assert_eq!(server.terminate().code(), Some(0));
    assert!(!path.exists(), "the socket is left behind");
}

#[tokio::test]
async fn a_socket_left_by_a_killed_process_is_replaced_and_a_live_one_is_refused() {
    let (_folder, path, config) = configured(", socketMode: \"0660\"");
    drop(Server::on_configured_listener(&config));
    assert!(path.exists(), "a killed process removes nothing");
    let server = Server::on_configured_listener(&config);
    assert_eq!(fs::metadata(&path).expect("it exists").permissions().mode() & 0o7777, 0o660);
    let second = command(&["serve", "--admin-listen", "127.0.0.1:0", "--config", &config.path()]).output();
    let second = second.expect("the binary runs");
    let stderr = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("another process listens on this socket"), "{stderr}");
    assert!(!server.client().await.node_groups().await.is_empty());
}

/// What docs/configuration.md shows for Python.
const PYTHON: &str = "
import sys, grpc
options = [('grpc.default_authority', 'localhost')]
with grpc.insecure_channel('unix://' + sys.argv[1], options=options) as channel:
    call = channel.unary_unary('/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/NodeGroups')
    print(len(call(b'', timeout=20)))
";

#[tokio::test]
async fn unix_socket_other_clients() {
    let page = include_str!("../../../docs/configuration.md");
    assert!(page.contains("('grpc.default_authority', 'localhost')"), "the page shows what this test runs");
    let has_grpc = Command::new("python3").args(["-c", "import grpc"]).output().is_ok_and(|run| run.status.success());
    if !has_grpc {
        eprintln!("skipped: python3 -m pip install grpcio");
        return;
    }
    let (_folder, path, config) = configured("");
    let _server = Server::on_configured_listener(&config);
    let output = Command::new("python3").args(["-c", PYTHON]).arg(&path).output().expect("python runs");
    let (bytes, problems) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let bytes: usize = bytes.trim().parse().unwrap_or_else(|_| panic!("{problems}"));
    assert!(bytes > 0, "the demo has groups");
}
