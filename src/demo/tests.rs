//! The script and the page, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::service::Routes;

use super::stage::Stage;
use super::{Demo, page};
use crate::cloud::{Family, SharedCloud};
use crate::clouds::simulated::Simulated;
use crate::fleet::{Cadence, Fleet, Policies, Settings};
use crate::grpc::dialect::SendPolicy;
use crate::grpc::{self, Gpu, GrpcMetrics};
use crate::instance_types::Catalog;
use crate::prices::Prices;

const README: &str = include_str!("../../README.md");

/// A demo whose cloud has been read once.
async fn demo() -> Demo {
    let cloud = Arc::new(Simulated::stage(0));
    let interval = Duration::from_secs(1);
    let fleet = Arc::new(Fleet::start(Settings {
        sources: vec![(Arc::from("demo"), Arc::clone(&cloud) as SharedCloud)],
        cadence: Cadence::new(interval, Some(interval)),
        catalog: Arc::new(Catalog::new(Vec::new())),
        policies: Arc::new(Policies::default()),
        read_only: false,
    }));
    fleet.wait_ready(Instant::now() + interval).await.expect("read");
    let (service, _no_tls) = grpc::service(grpc::Settings {
        fleet: Arc::clone(&fleet),
        gpu: Gpu::new(None, &[Family::Aws]),
        prices: Arc::new(Prices::new(Arc::default(), &[])),
        options_since_135: SendPolicy::Suppress,
        zero_or_max_node_scaling: SendPolicy::Suppress,
        resource_slices: SendPolicy::Suppress,
        tls: None,
        refusals: Arc::default(),
        metrics: GrpcMetrics::default(),
    });
    Demo { cloud, fleet, service: Routes::new(service), addresses: String::new() }
}

/// The lines of the script, without those of the heading.
async fn script() -> Vec<String> {
    let mut output = Vec::new();
    demo().await.play_as_text(&mut output).await.expect("written");
    let text = String::from_utf8(output).expect("a text");
    text.split_once("\n\n").map(|(_, lines)| lines.lines().map(str::to_owned).collect()).unwrap_or_default()
}

/// Whether lines with these texts follow each other, with any others between them.
fn follow(lines: &[String], texts: &[&str]) -> Result<(), String> {
    let mut rest = lines.iter();
    for text in texts {
        if !rest.any(|line| line.contains(text)) {
            return Err(format!("no {text:?} after the lines before it in:\n{}", lines.join("\n")));
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_script_shows_every_failure_what_headcount_makes_of_it_and_what_the_in_tree_provider_would() {
    let lines = script().await;
    for texts in [
        &[
            "── launches fail",
            "autoscaler  8 pods of web wait: it asks for 2 nodes more in web",
            "cloud       web: launch failed: InsufficientInstanceCapacity",
            "headcount   web: target 5 = the cloud's capacity; 3 running, 2 failed with InsufficientInstanceCapacity",
            "autoscaler  web: 2 instances failed with InsufficientInstanceCapacity: it deletes them",
            "it asks for 2 nodes more in batch-spot",
        ][..],
        &["── launches fail", "in-tree     web: target 5, nothing failed", "── deletions"],
        &[
            "── deletions",
            "autoscaler  aks-pool: 2 nodes without pods",
            "cloud       aks-pool: deletion of instance",
            "headcount   aks-pool: target 6 = the cloud's capacity; 6 running",
            "in-tree     aks-pool: target 2 of 6",
            "in-tree     aks-pool: would set capacity 2 + 1 = 3: Azure deletes 3 running VMs that nobody named",
            "cloud       aks-pool: 1 instance launching, capacity 6 → 7",
        ],
        &[
            "── a spot",
            "was evicted",
            "headcount   batch-spot: target 4 = the cloud's capacity; 3 running, 1 being created",
        ],
        &["── an instance", "beyond the capacity, left to the cloud", "surplus removed", "── the response"],
        &[
            "── the response",
            "headcount   web: the response was lost",
            "in-tree     web: its SDK",
            "── the cloud's API",
        ],
        &[
            "── the cloud's API",
            "in-tree     from its next refresh on",
            "headcount   cannot read the cloud",
            "autoscaler  aks-pool did not grow",
            "headcount   reads the cloud again",
            "── the end",
        ],
        &["── the end", "had not named them: 0", "would have been: 3"],
    ] {
        follow(&lines, texts).unwrap_or_else(|error| panic!("{error}"));
    }
    // Times differ by seconds from run to run.
    let excerpt: Vec<&str> = README.lines().filter_map(|line| line.strip_prefix("    0:")?.get(4..)).collect();
    assert!(excerpt.len() > 5, "{excerpt:?}");
    follow(&lines, &excerpt).unwrap_or_else(|error| panic!("README.md: {error}"));
    let longest = lines.iter().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest <= 150), "a line has {longest:?} characters");
}

#[tokio::test(start_paused = true)]
async fn the_page_shows_groups_lines_and_keys_and_fits_any_terminal() {
    let Demo { cloud, fleet, .. } = demo().await;
    let ((_said, hears), (changes, _changed)) = (mpsc::channel(1), mpsc::channel(1));
    let mut stage = Stage::new(cloud, fleet, hears, changes);
    stage.step().await;
    for (width, height) in [(1, 1), (20, 5), (80, 24), (120, 40)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| page::draw(frame, &stage, "gRPC on 127.0.0.1:1")).expect("drawn");
        let shown: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
        let parts = ["in-tree", "aks-pool: target 6 = the cloud's capacity; 6 running", "l launch fails", "q quit"];
        assert!(width < 120 || parts.iter().all(|part| shown.contains(part)), "{shown}");
    }
    let mut narrow = Terminal::new(TestBackend::new(40, 40)).expect("a terminal");
    let addresses = "gRPC on 127.0.0.1:40001, status page on http://127.0.0.1:40002/statusz";
    narrow.draw(|frame| page::draw(frame, &stage, addresses)).expect("drawn");
    let shown: String = narrow.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
    assert!(shown.contains(addresses), "the address goes on in the next row: {shown}");
    let log = shown.replace(['│', ' '], "");
    assert!(log.contains("aks-pool:target6=thecloud'scapacity;6running"), "so does the reason: {shown}");
}
