//! Autoscaling options, as each release requests and reads them.

use headcount::grpc::proto::{
    KubernetesDuration, NodeGroupAutoscalingOptions as Options, NodeGroupAutoscalingOptionsRequest,
};

use crate::emulators::aws::Aws;
use crate::emulators::setup::Setup;
use crate::incidents::aws::{aws, group};
use crate::peers::headcount::{Client, run};

const MINUTE_NANOSECONDS: i64 = 60_000_000_000;

fn kubernetes(minutes: i64) -> Option<KubernetesDuration> {
    Some(KubernetesDuration { duration: minutes * MINUTE_NANOSECONDS })
}

fn protobuf(minutes: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds: minutes * 60, nanos: 0 })
}

/// The defaults that a release sends with its request: its own flags, in the fields that it knows.
fn defaults(release: &str) -> Options {
    let thresholds = Options {
        scale_down_utilization_threshold: 0.5,
        scale_down_gpu_utilization_threshold: 0.5,
        ..Options::default()
    };
    let to_1_28 =
        Options { scale_down_unneeded_time: kubernetes(10), scale_down_unready_time: kubernetes(20), ..thresholds };
    let to_1_32 = Options { max_node_provision_time: kubernetes(15), ..to_1_28 };
    let v1_33 = Options { ignore_daemon_sets_utilization: true, ..to_1_32 };
    let in_protobuf = |options| Options {
        scale_down_unneeded_duration: protobuf(10),
        scale_down_unready_duration: protobuf(20),
        max_node_provision_duration: protobuf(15),
        ..options
    };
    match release {
        "1.25" | "1.27" | "1.28" => to_1_28,
        "1.29" | "1.32" => to_1_32,
        "1.33" => v1_33,
        "1.34" => in_protobuf(v1_33),
        _ => in_protobuf(Options { ignore_daemon_sets_utilization: true, ..thresholds }),
    }
}

const TO_1_28: [&str; 3] = ["1.25", "1.27", "1.28"];
const FROM_1_29_TO_1_34: [&str; 4] = ["1.29", "1.32", "1.33", "1.34"];
const FROM_1_35: [&str; 2] = ["1.35", "1.37"];

async fn response(client: &mut Client, id: &str, release: &str) -> Option<Options> {
    let request = NodeGroupAutoscalingOptionsRequest { id: id.to_owned(), defaults: Some(defaults(release)) };
    let response = client.stub().node_group_get_options(request).await.expect("never an error, which CA would act on");
    response.into_inner().node_group_autoscaling_options
}

/// What a release must receive for a group whose utilization threshold is 0.25 and whose nodes may be unneeded for 30
/// minutes: these two, and its own flags for everything else, with each duration in both fields.
fn merged(release: &str) -> Options {
    let flags = defaults(release);
    Options {
        scale_down_utilization_threshold: 0.25,
        scale_down_gpu_utilization_threshold: 0.5,
        scale_down_unneeded_time: kubernetes(30),
        scale_down_unready_time: kubernetes(20),
        max_node_provision_time: kubernetes(15),
        zero_or_max_node_scaling: flags.zero_or_max_node_scaling,
        ignore_daemon_sets_utilization: flags.ignore_daemon_sets_utilization,
        scale_down_unneeded_duration: protobuf(30),
        scale_down_unready_duration: protobuf(20),
        max_node_provision_duration: protobuf(15),
        max_node_startup_duration: None,
        allow_non_atomic_scale_up_to_max: false,
    }
}

/// A group without options, one with options in the configuration, one with the same in its tags.
async fn setup(grpc: &str) -> Setup<Aws> {
    let mut tagged = group("tagged", (0, 10, 1));
    for (key, value) in [("scaledownutilizationthreshold", "0.25"), ("scaledownunneededtime", "30m")] {
        let key = format!("k8s.io/cluster-autoscaler/node-template/autoscaling-options/{key}");
        tagged.tags.insert(key, value.to_owned());
    }
    let groups = "groups:\n  - match: configured\n    options: {scaleDownUtilizationThreshold: 0.25, \
                  scaleDownUnneededTime: 30m}";
    let aws = aws([group("plain", (0, 10, 1)), group("configured", (0, 10, 1)), tagged]);
    Setup::with(aws, |options| options.more = format!("{grpc}\n{groups}")).await
}

#[tokio::test]
async fn options_absent_by_default() {
    let mut usual = setup("").await;
    let mut opted_in = setup("grpc: {optionsSince135: send}").await;
    for setup in [&mut usual, &mut opted_in] {
        let client = &mut setup.client;
        for release in TO_1_28.iter().chain(&FROM_1_29_TO_1_34).chain(&FROM_1_35) {
            assert_eq!(response(client, "plain", release).await, None, "{release}: use your own flags");
        }
        for group in ["configured", "tagged"] {
            for release in TO_1_28 {
                assert_eq!(response(client, group, release).await, None, "{release} would delete new nodes at once");
            }
            for release in FROM_1_29_TO_1_34 {
                assert_eq!(response(client, group, release).await, Some(merged(release)), "{group}, {release}");
            }
        }
    }
    for group in ["configured", "tagged"] {
        for release in FROM_1_35 {
            let told = response(&mut usual.client, group, release).await;
            assert_eq!(told, None, "{release} would treat booting nodes as unready");
            let told = response(&mut opted_in.client, group, release).await;
            assert_eq!(told, Some(merged(release)), "{group}, {release}, as configured");
        }
        let warning = usual.server().logged(&format!("\"group\":\"{group}\",\"autoscaler\""));
        assert!(warning.contains("options of the node group are withheld"), "{warning}");
    }
}

/// The option that a release gets for a group that is to be scaled to its maximum or to zero, and whether a warning
/// names the group.
async fn zero_or_max(grpc: &str, release: &str) -> (Option<bool>, Setup<Aws>) {
    let groups = "groups: [{match: gang, options: {zeroOrMaxNodeScaling: true, scaleDownUnneededTime: 30m}}]";
    let aws = aws([group("gang", (0, 4, 4))]);
    let mut setup = Setup::with(aws, |options| options.more = format!("{grpc}\n{groups}")).await;
    let sent = response(&mut setup.client, "gang", release).await;
    (sent.map(|options| options.zero_or_max_node_scaling), setup)
}

#[tokio::test]
async fn zero_or_max_never_scales_down() {
    let (sent, setup) = zero_or_max("", "1.34").await;
    assert_eq!(sent, Some(false), "the other options are sent");
    setup.server().logged("zeroOrMaxNodeScaling of the node group is withheld");
    let findings = run(&["check", "-o", "json", "--config", &setup.config()]);
    let findings = String::from_utf8_lossy(&findings.stdout).into_owned();
    assert!(findings.contains("does not get zeroOrMaxNodeScaling of gang"), "{findings}");

    let (sent, setup) = zero_or_max("grpc: {zeroOrMaxNodeScaling: send}", "1.34").await;
    assert_eq!(sent, Some(true), "as configured");
    let findings = run(&["check", "-o", "json", "--config", &setup.config()]);
    let findings = String::from_utf8_lossy(&findings.stdout).into_owned();
    assert!(findings.contains("never scales down gang"), "{findings}");
}
