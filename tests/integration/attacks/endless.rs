//! Services that send without an end. Of each, no more is read than the table of limits allows, and nothing waits for
//! the rest.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use headcount::clouds::simulated::{GroupPlan, Simulated};
use serde_json::json;

use super::memory::{at_rest, is_little, takes_little};
use crate::emulators::aws::Aws;
use crate::emulators::{Emulator, HttpResponse};
use crate::peers::headcount::{ConfigFile, Server, command};
use crate::peers::process::Finished;
use crate::sign_in::Office;

/// The most that a service sends in one response.
const BYTES_MAX: u64 = 2 << 30;
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";

/// What a service responds.
enum Response {
    Whole(String),
    /// This, and then the letter `x` without an end.
    Begun(&'static str),
}

/// What a service responds to a path.
type Respond = fn(&str) -> Response;

/// A service on plain HTTP.
fn serve(respond: Respond) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, respond));
        }
    });
    address
}

fn answer(mut stream: TcpStream, respond: Respond) -> Option<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    stream.write_all(HEAD.as_bytes()).ok()?;
    match respond(head.split_whitespace().nth(1)?) {
        Response::Whole(body) => stream.write_all(body.as_bytes()).ok(),
        Response::Begun(beginning) => {
            stream.write_all(beginning.as_bytes()).ok()?;
            let (block, mut sent) = (vec![b'x'; 1 << 20], 0);
            while sent < BYTES_MAX {
                stream.write_all(&block).ok()?;
                sent += block.len() as u64;
            }
            Some(())
        }
    }
}

fn mk_aws() -> Aws {
    Aws::start(Arc::new(Simulated::with_groups(1, [GroupPlan::aws("web").sized(0, 5, 1)])))
}

fn aws_config(emulator: &Aws) -> ConfigFile {
    ConfigFile::new(&format!(
        "refreshInterval: 1s\n\
         sources: [{{name: here, aws: {{region: us-east-1, endpoint: \"{}\", nodeGroups: [\"0:5:web\"]}}}}]\n",
        emulator.url()
    ))
    .beside("token", "a.web.identity")
}

#[test]
fn sts_and_agents_that_return_two_gib_are_given_up() {
    let (emulator, service) = (mk_aws(), serve(|_| Response::Begun("<AssumeRoleWithWebIdentityResponse>")));
    let config = aws_config(&emulator);
    let (rest, url, token) = (at_rest(&config), format!("http://{service}/"), config.path_of("token"));
    let sts = [
        ("AWS_ENDPOINT_URL_STS", url.as_str()),
        ("AWS_ROLE_ARN", "arn:aws:iam::000000000000:role/headcount"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
    ];
    let agent =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token)];
    for (what, variables) in [("STS", &sts[..]), ("the agent for containers", &agent)] {
        let mut all = vec![("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
        all.extend(variables);
        let server = Server::in_environment(&["--config", &config.path()], &all);
        server.logged("source cannot be listed");
        assert!(server.probe("/livez").starts_with("HTTP/1.1 200"), "{what}");
        takes_little(what, &server, rest);
        assert_eq!(server.terminate().code(), Some(0), "{what}");
    }
}

#[test]
fn a_sign_in_service_that_returns_too_much_is_given_up_by_the_server_and_by_check() {
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "secret-of-the-file"});
    let healthy = Office::open();
    let server = healthy.serve(principal.clone(), &[]);
    server.logged("\"ready\"");
    let rest = server.peak_memory();
    let office = Office::open();
    let endless = HttpResponse::new(200).body("x".repeat(100 << 20));
    office.arm.script("POST", "/oauth2/v2.0/token", 10_000, endless);
    let server = office.serve(principal.clone(), &[]);
    let line = server.logged("source cannot be listed");
    assert!(line.contains("no token"), "{line}");
    takes_little("the sign-in service", &server, rest);
    drop(server);
    let finished = Finished::of(office.command(&["check", "--config", &office.write_config(principal)]));
    assert!(finished.output.contains("no token"), "{}", finished.output);
    is_little("check", finished.peak_mib, rest);
}

#[test]
fn the_body_of_an_error_of_azure_is_read_to_64_kib() {
    let principal = json!({"tenantId": "tenant-1", "aadClientId": "client-1", "aadClientSecret": "secret-of-the-file"});
    let office = Office::open();
    let server = office.start(&["--config", &office.write_config(principal)], &[]);
    server.logged("\"ready\"");
    let rest = server.peak_memory();
    let error = json!({"error": {"code": "InternalServerError", "message": "x".repeat(60 << 20)}});
    office.arm.script("GET", "/virtualMachineScaleSets", 10_000, HttpResponse::json(500, &error));
    let line = server.logged("source cannot be listed");
    assert!(line.contains("500") && line.len() < 2000, "{line}");
    takes_little("an error of Azure", &server, rest);
}

#[test]
fn the_body_of_an_error_of_aws_is_read_to_64_kib() {
    let emulator = mk_aws();
    let config = aws_config(&emulator);
    let server = Server::with_config(&config);
    server.logged("\"ready\"");
    let rest = server.peak_memory();
    let error = format!("<ErrorResponse><Error><Code>Throttling</Code><Message>{}", "x".repeat(60 << 20));
    emulator.script("POST", "DescribeAutoScalingGroups", 10_000, HttpResponse::xml(500, error));
    let line = server.logged("source cannot be listed");
    assert!(line.len() < 2000, "{line}");
    takes_little("an error of AWS", &server, rest);
}

/// A kubeconfig for a service on plain HTTP.
fn kubeconfig(address: SocketAddr) -> String {
    json!({
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "test", "user": {}}],
    })
    .to_string()
}

#[test]
fn a_line_of_a_watch_without_an_end_is_given_up() {
    let service = serve(|path| match path.contains("watch=true") {
        true => Response::Begun(r#"{"type":"ADDED","object":{"metadata":{"name":""#),
        false => Response::Whole(r#"{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[]}"#.to_owned()),
    });
    let config =
        ConfigFile::new("learn: {kubernetes: true, kubeconfig: kubeconfig}\nsources: [{name: demo, simulated: {}}]\n");
    let rest = at_rest(&ConfigFile::new("sources: [{name: demo, simulated: {}}]\n"));
    let config = config.beside("kubeconfig", &kubeconfig(service));
    let server = Server::with_config(&config);
    let line = server.logged("nodes cannot be watched");
    assert!(line.contains("a line of the watch has more than 4 MiB"), "{line}");
    takes_little("a watch", &server, rest);
}

/// A page after which there is another one. It has one node.
fn page(padding: usize) -> String {
    format!(
        r#"{{"kind":"NodeList","metadata":{{"resourceVersion":"1","continue":"more"}},"items":[{{"metadata":{{"name":"n"}}}}],
           "padding":"{}"}}"#,
        "x".repeat(padding)
    )
}

#[test]
fn compare_gives_up_pages_without_an_end() {
    let emulator = mk_aws();
    let attacks: [(&str, Respond, &str); 3] = [
        ("pages without an end", |_| Response::Whole(page(0)), "list nodes"),
        ("pages of 11 MiB without an end", |_| Response::Whole(page(11 << 20)), "list nodes"),
        (
            "a page without an end",
            |_| Response::Begun(r#"{"kind":"NodeList","padding":""#),
            "longer than 12582912 bytes",
        ),
    ];
    let config = aws_config(&emulator);
    let compare =
        |config: &ConfigFile| Finished::of(command(&["compare", "--config", &config.path(), "--timeout", "60s"]));
    let rest = compare(&config).peak_mib;
    for (what, respond, note) in attacks {
        let text = format!(
            "kubernetes: {{kubeconfig: kubeconfig}}\nlearn: {{kubernetes: true}}\n{}",
            std::fs::read_to_string(config.path()).expect("a file")
        );
        let config = ConfigFile::new(&text).beside("kubeconfig", &kubeconfig(serve(respond)));
        let finished = compare(&config);
        assert!(finished.output.contains(note), "{what}: {}", finished.output);
        is_little(what, finished.peak_mib, rest);
    }
}
