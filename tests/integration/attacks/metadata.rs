//! A metadata service of EC2 that attacks: it is plain HTTP, and whoever answers on its address gives the credentials.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};

use super::memory::{at_rest, takes_little};
use crate::emulators::Emulator;
use crate::emulators::aws::Aws;
use crate::peers::headcount::{ConfigFile, Server};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEMETA";
const TOKEN: &str = "IQoJb3JpZ2luX2VjEXAMPLE//////////metadata+token==";
const ROLE: &str = "node-role";

/// What the service returns for the credentials of its role.
#[derive(Clone, Copy)]
enum Answer {
    Credentials,
    /// More than the process may ever hold.
    Endless,
}

/// A metadata service with one role.
fn mk_metadata_service(role: &'static str, answer: Answer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || respond(stream, role, answer));
        }
    });
    address
}

fn respond(mut stream: TcpStream, role: &str, answer: Answer) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let path = head.split_whitespace().nth(1)?;
    let ok = |body: &str| {
        let ttl = "x-aws-ec2-metadata-token-ttl-seconds: 21600";
        format!("HTTP/1.1 200 OK\r\n{ttl}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    };
    let response = if path == "/latest/api/token" {
        ok("a-token-of-the-metadata-service")
    } else if path.ends_with("/iam/security-credentials/") {
        ok(role)
    } else if path.contains("/iam/security-credentials/") {
        match answer {
            Answer::Credentials => ok(&format!(
                "{{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"ASIAEXAMPLE\",\"SecretAccessKey\":\"{SECRET}\",\
                 \"Token\":\"{TOKEN}\",\"LastUpdated\":\"2020-01-01T00:00:00Z\",\"Expiration\":\"2099-01-01T00:00:00Z\"}}"
            )),
            Answer::Endless => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").ok()?;
                let block = vec![b' '; 1 << 20];
                for _ in 0..1024 {
                    stream.write_all(&block).ok()?;
                }
                return None;
            }
        }
    } else {
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
    };
    stream.write_all(response.as_bytes()).ok()
}

fn mk_server(emulator: &Aws, metadata: SocketAddr) -> (Server, ConfigFile) {
    let config = ConfigFile::new(&format!(
        "sources: [{{name: here, aws: {{region: us-east-1, endpoint: \"{}\", nodeGroups: [\"0:5:web\"]}}}}]\n",
        emulator.url()
    ));
    let metadata = format!("http://{metadata}");
    let variables = [
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_EC2_METADATA_DISABLED", "false"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.as_str()),
        // Nothing listens there.
        ("HTTP_PROXY", "http://127.0.0.1:1"),
        ("http_proxy", "http://127.0.0.1:1"),
    ];
    let server = Server::in_environment(&["--config", &config.path(), "--log", "trace"], &variables);
    (server, config)
}

fn mk_emulator() -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 5, 1)])))
}

#[tokio::test]
async fn credentials_of_the_metadata_service_are_not_logged_and_not_sent_to_a_proxy() {
    let emulator = mk_emulator();
    let (server, _config) = mk_server(&emulator, mk_metadata_service(ROLE, Answer::Credentials));
    assert_eq!(server.client().await.target("web").await, 1, "signed in without the proxy");
    let mut texts = server.lines_with("");
    texts.extend(["/readyz", "/statusz?format=json", "/metrics"].map(|page| server.probe(page)));
    for secret in [SECRET, TOKEN, "a-token-of-the-metadata-service"] {
        let shown: Vec<_> = texts.iter().filter(|text| text.contains(secret)).collect();
        assert!(shown.is_empty(), "{shown:?}");
    }
}

#[test]
fn endless_credentials_take_little_memory() {
    let emulator = mk_emulator();
    let (server, config) = mk_server(&emulator, mk_metadata_service(ROLE, Answer::Endless));
    server.logged("source cannot be listed");
    takes_little("the metadata service", &server, at_rest(&config));
}

#[test]
fn a_role_with_the_name_of_a_path_is_an_error_and_no_panic() {
    let emulator = mk_emulator();
    let (server, _config) = mk_server(&emulator, mk_metadata_service("a b\u{1}/../?", Answer::Credentials));
    server.logged("source cannot be listed");
    assert!(server.lines_with("panicked").is_empty());
}
