//! Attacks on the admin port.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::memory::takes_little;
use crate::peers::headcount::{ConfigFile, PATIENCE, Server};

#[test]
fn silent_clients_do_not_lock_the_probes_out() {
    let server = Server::start(&["--demo"]);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(server.admin()).expect("connects"));
    }
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    for stream in &mut silent {
        let _closed_already = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost:");
    }
    for _ in 0..10 {
        silent.push(TcpStream::connect(server.admin()).expect("connects"));
        assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    }
}

#[test]
fn an_endless_head_is_refused() {
    let server = Server::start(&["--demo"]);
    let rest = server.peak_memory();
    let mut stream = TcpStream::connect(server.admin()).expect("connects");
    let line = format!("x: {}\r\n", "y".repeat(1000));
    let _ended_by_the_server = stream.write_all(format!("GET /livez HTTP/1.1\r\n{}", line.repeat(1000)).as_bytes());
    assert!(server.probe("/livez").starts_with("HTTP/1.1 200"));
    takes_little("an endless head", &server, rest);
}

#[test]
fn nothing_but_the_pages_is_served() {
    let server = Server::start(&["--demo"]);
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(server.admin()).expect("connects");
        stream
            .write_all(format!("{request} HTTP/1.1\r\nHost: headcount\r\nContent-Length: 0\r\n\r\n").as_bytes())
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer.lines().next().unwrap_or_default().to_owned()
    };
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
        for page in ["/livez", "/readyz", "/metrics", "/statusz"] {
            assert_eq!(ask(&format!("{method} {page}")), "HTTP/1.1 405 Method Not Allowed", "{method} {page}");
        }
    }
    for path in
        ["/", "/../../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/metrics/../../etc/passwd", "/debug/pprof"]
    {
        assert_eq!(ask(&format!("GET {path}")), "HTTP/1.1 404 Not Found", "{path}");
    }
}

#[test]
fn a_flood_of_metrics_and_pages_takes_little_memory() {
    let config = ConfigFile::new("sources: [{name: demo, simulated: {groups: 500, instances: 2000}}]\n");
    let server = Server::with_config(&config);
    assert!(
        server.probe("/metrics").starts_with("HTTP/1.1 200") && server.probe("/statusz").starts_with("HTTP/1.1 200")
    );
    let before = server.peak_memory();
    let ask = |path: &str, accept: &str| {
        let mut stream = TcpStream::connect(server.admin()).expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
        let _closed_to_make_room = stream.write_all(request.as_bytes());
        stream
    };
    // On a busy machine, a connection that is new and silent for a while may be closed to make room, or its page
    // refused.
    let responds = |path: &str| {
        let (admin, began) = (server.admin(), Instant::now());
        let is_served = || Server::try_probe_at(admin, path).is_some_and(|page| page.starts_with("HTTP/1.1 200"));
        while !is_served() {
            assert!(began.elapsed() < PATIENCE, "no response for {path}");
        }
    };
    let mut unread = Vec::new();
    for _ in 0..100 {
        for (path, accept) in [
            ("/metrics", "text/plain"),
            ("/metrics", "application/openmetrics-text"),
            ("/statusz", "text/html"),
            ("/statusz", "application/json"),
        ] {
            unread.push(ask(path, accept));
        }
        responds("/livez");
    }
    responds("/metrics");
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("it runs").count();
    takes_little(&format!("a flood of pages ({threads} threads)"), &server, before);
    assert!(threads < 40, "{threads} threads");
}
