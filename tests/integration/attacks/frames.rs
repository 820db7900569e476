//! Floods of HTTP/2 frames that cost their sender next to nothing.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::peers::headcount::Server;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often each flood repeats its frame.
const TIMES: usize = 50_000;

const HEADERS: u8 = 0x1;
const PRIORITY: u8 = 0x2;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const WINDOW_UPDATE: u8 = 0x8;
const CONTINUATION: u8 = 0x9;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header that the decoder does not keep: a literal without indexing.
fn literal(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).expect("short");
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

/// A header of 4 KB that the decoder keeps, and a block that names it 16,000 times: 64 MB in 20 KB.
fn decompression_bomb() -> Vec<u8> {
    // 127 and, in seven bits at a time, 4000 - 127.
    let kept = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
    let named = [0xbe; 16_000];
    [frame(HEADERS, END_STREAM, 1, &kept), frame(CONTINUATION, END_HEADERS, 1, &named)].concat()
}

#[tokio::test]
async fn floods_of_frames_harm_nobody_else() {
    let server = Server::start(&["--demo"]);
    let mut well_behaved = server.client().await;
    let groups = well_behaved.node_groups().await.len();
    let header = literal("x-padding", "0123456789");
    let floods = [
        ("SETTINGS", Vec::new(), frame(SETTINGS, 0, 0, &[]).repeat(TIMES)),
        ("PING", Vec::new(), frame(PING, 0, 0, &[0; 8]).repeat(TIMES)),
        ("PRIORITY", Vec::new(), frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16]).repeat(TIMES)),
        ("WINDOW_UPDATE", Vec::new(), frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(TIMES)),
        (
            "CONTINUATION",
            frame(HEADERS, END_STREAM, 1, &header),
            frame(CONTINUATION, 0, 1, &header.repeat(10)).repeat(TIMES / 10),
        ),
        ("decompression", Vec::new(), decompression_bomb()),
    ];
    for (name, begin, flood) in floods {
        let address = server.grpc();
        let flooding = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).expect("connects");
            stream.set_write_timeout(Some(Duration::from_secs(5))).expect("set");
            // Nothing is read, and the server may close the connection or stop reading.
            let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &begin, &flood].concat();
            let _ended_by_the_server = stream.write_all(&bytes);
            stream
        });
        for _ in 0..50 {
            assert_eq!(well_behaved.node_groups().await.len(), groups, "{name}: on the connection that was open");
        }
        let stream = flooding.await.expect("no panic");
        assert_eq!(server.client().await.node_groups().await.len(), groups, "{name}: on a new connection");
        drop(stream);
        let peak = server.peak_memory();
        println!("{name}: at most {peak} MiB");
        assert!(peak < 200, "{name}: {peak} MiB");
    }
    assert!(server.lines_with("panic").is_empty());
}
