//! The node templates of groups, and which groups are served.

use std::time::Duration;

use headcount::clouds::simulated::{CallFault, CallKind};
use k8s_pb::api::core::v1::Node;
use k8s_pb::apimachinery::pkg::api::resource::Quantity;
use prost::Message;
use tonic::Code;

use super::{aws, desired_written, group, open};
use crate::emulators::Emulator;
use crate::emulators::aws::{Aws, Launch};
use crate::emulators::setup::Setup;
use crate::peers::headcount::{Client, refused};

const GIB: u64 = 1 << 30;

/// The allocatable CPUs and bytes of memory of a group's next node.
async fn allocatable(client: &mut Client, name: &str) -> (String, u64) {
    let built = client.template(name).await.unwrap_or_else(|status| panic!("{name}: {status}"));
    let status = Node::decode(built.node_bytes).expect("a v1.Node").status.expect("a status");
    let text = |quantity: &Quantity| quantity.string().to_owned();
    (text(&status.capacity["cpu"]), bytes(&text(&status.allocatable["memory"])))
}

fn bytes(quantity: &str) -> u64 {
    let unit = quantity.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let shift = ["", "Ki", "Mi", "Gi"].iter().position(|known| *known == unit).expect(quantity);
    quantity.trim_end_matches(unit).parse::<u64>().expect(quantity) << (10 * shift)
}

#[tokio::test]
async fn asg_broken_template() {
    let aws = aws([group("broken", (0, 10, 1)), group("web", (0, 10, 1))]);
    aws.group_details("broken", |details| details.launch = Launch::MissingTemplate);
    let mut setup = Setup::open(aws).await;
    let client = &mut setup.client;
    client.refresh().await.expect("only that group is affected");
    assert_eq!(client.node_groups().await.len(), 2);
    let (code, message) = refused(client.template("broken").await);
    assert_eq!(code, Code::Unimplemented);
    assert!(message.starts_with("node group broken: no template: "), "{message}");
    assert!(message.contains("launch template") && message.contains("does not exist"), "{message}");
    assert_eq!(client.target("broken").await, 1, "it is still served");
    allocatable(client, "web").await;
    client.increase("web", 1).await.expect("other groups can still grow");
    assert_eq!((client.target("web").await, desired_written(&setup.emulator, "web")), (2, vec![2]));
}

#[tokio::test]
async fn asg_unknown_type() {
    let new = group("new", (0, 10, 0)).instance_types(&["m99.large"]);
    let unheard = group("unheard", (0, 10, 0)).instance_types(&["x0.nano"]);
    let mut setup = open([new, unheard, group("web", (0, 10, 0))]).await;
    let client = &mut setup.client;
    let (cpus, memory) = allocatable(client, "new").await;
    assert_eq!(cpus, "6", "no table has it, so EC2 was asked");
    assert!((9 * GIB..12 * GIB).contains(&memory), "{memory}");
    let asked = setup.emulator.requests_with("POST", "Action=DescribeInstanceTypes");
    assert!(asked.iter().any(|request| request.fields("InstanceType") == ["m99.large"]));

    let (code, message) = refused(client.template("unheard").await);
    assert_eq!(code, Code::Unimplemented);
    assert!(message.contains("x0.nano"), "{message}");
    allocatable(client, "web").await;
    client.refresh().await.expect("only that group is affected");
    client.increase("web", 1).await.expect("scaling continues");
    assert_eq!(client.target("web").await, 1);
}

#[tokio::test]
async fn asg_two_discovery_specs() {
    let tagged = |name: &str, tags: &[(&str, &str)]| {
        let mut plan = group(name, (0, 10, 1));
        plan.tags.extend(tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        plan
    };
    let aws = aws([
        tagged("a", &[("team", "a"), ("enabled", "")]),
        tagged("b", &[("team", "b"), ("enabled", "")]),
        tagged("both", &[("team", "a"), ("enabled", ""), ("spot", "yes")]),
        tagged("disabled", &[("team", "a")]),
        tagged("neither", &[("team", "c"), ("enabled", "")]),
    ]);
    let setup = Setup::with(aws, |options| {
        options.node_groups.clear();
        options.auto_discovery =
            ["asg:tag=enabled,team=a", "asg:tag=enabled,team=b", "asg:tag=spot"].map(str::to_owned).to_vec();
    });
    let mut setup = setup.await;
    let mut ids: Vec<String> = setup.client.node_groups().await.into_iter().map(|group| group.id).collect();
    ids.sort();
    assert_eq!(ids, ["a", "b", "both"], "any of the specifications, all tags of one");
    assert_eq!(setup.emulator.requests_with("POST", "Action=DescribeTags").len(), 0);
}

#[tokio::test]
async fn asg_mixed_minimum() {
    // The first type has the minimum of neither. The second has the fewest CPUs, the fourth the least memory.
    let mixed = group("mixed", (0, 10, 0)).instance_types(&["m5.2xlarge", "r5.large", "m5.xlarge", "c5.large"]);
    let of_one = |name: &str| group(name, (0, 10, 0)).instance_types(&[name]);
    let mut setup = open([mixed, of_one("m5.2xlarge"), of_one("r5.large"), of_one("c5.large")]).await;
    let client = &mut setup.client;
    let (cpus, memory) = allocatable(client, "mixed").await;
    assert_eq!(cpus, "2");
    assert!(memory <= allocatable(client, "c5.large").await.1);
    assert!(memory < allocatable(client, "r5.large").await.1);
    assert_eq!(allocatable(client, "m5.2xlarge").await.0, "8");
}

#[tokio::test]
async fn asg_c5d_large_16gi() {
    let plans = || [group("c5d", (0, 10, 0)).instance_types(&["c5d.large"])];
    let mut without_table = open(plans()).await;
    let (_, memory) = allocatable(&mut without_table.client, "c5d").await;
    assert!(memory < 4 * GIB, "the figure of EC2: {memory}");
    drop(without_table);

    let setup = Setup::with(aws(plans()), |options| {
        options.more = "instanceTypes: [real.yaml]".to_owned();
        options.files = vec![("real.yaml".to_owned(), "aws:\n  c5d.large: {memory: 16Gi}\n".to_owned())];
    });
    let mut setup = setup.await;
    let client = &mut setup.client;
    let (cpus, memory) = allocatable(client, "c5d").await;
    assert_eq!(cpus, "2");
    assert!((8 * GIB..16 * GIB).contains(&memory), "a pod of 8 GiB fits: {memory}");
    client.increase("c5d", 1).await.expect("from zero");
    assert_eq!((client.target("c5d").await, desired_written(&setup.emulator, "c5d")), (1, vec![1]));
    client.until("it runs", async |client| client.nodes_in("c5d", 1).await.len() == 1).await;
}

#[tokio::test]
async fn asg_windows_image() {
    let aws = aws([group("windows", (0, 10, 0)), group("linux", (0, 10, 0))]);
    aws.group_details("windows", |details| {
        details.image = "ami-0windows".to_owned();
        // EC2 sends this. The SDK knows only `Windows`.
        details.platform = Some("windows".to_owned());
    });
    let mut setup = Setup::open(aws).await;
    for system in ["windows", "linux"] {
        let built = setup.client.template(system).await.expect("built");
        let labels = Node::decode(built.node_bytes).expect("a v1.Node").metadata.expect("metadata").labels;
        assert_eq!(labels.get("kubernetes.io/os").map(String::as_str), Some(system));
    }
}

#[tokio::test]
async fn asg_launch_template_default_moves() {
    let names = ["$Default", "$Latest"];
    let aws = aws(names.map(|name| group(&name[1..], (0, 10, 0))));
    for version in names {
        aws.group_details(&version[1..], |details| details.version = version.to_owned());
    }
    let mut setup = Setup::open(aws).await;
    for version in names {
        let (client, name) = (&mut setup.client, &version[1..]);
        assert_eq!(allocatable(client, name).await.0, "2");
        let types = || vec!["m5.2xlarge".to_owned()];
        setup.emulator.simulated().replan(name, |plan| plan.instance_types = types()).expect("it exists");
    }
    for version in names {
        let name = &version[1..];
        let shows = async |client: &mut Client| allocatable(client, name).await.0 == "8";
        setup.client.until_within(Duration::from_secs(90), "the new type shows", shows).await;
    }
    let calls = |action: &str| setup.emulator.requests_with("POST", &format!("Action={action}&")).len();
    assert_eq!(calls("DescribeLaunchTemplateVersions"), 4, "each version once");
    assert_ne!(calls("DescribeLaunchTemplates"), 0, "this call shows that the versions moved");
}

#[tokio::test]
async fn asg_types_denied() {
    const GROUPS: u32 = 40;
    let plans = || (0..GROUPS).map(|number| group(&format!("web-{number}"), (0, 10, 0)));
    let asked = |aws: &Aws| aws.requests_with("POST", "Action=DescribeInstanceTypes").len();
    let mut allowed = open(plans().map(|plan| plan.instance_types(&["m99.large"]))).await;
    for number in 0..GROUPS {
        assert_eq!(allocatable(&mut allowed.client, &format!("web-{number}")).await.0, "6");
    }
    assert_eq!(asked(&allowed.emulator), 1, "one call for all groups of one type");
    drop(allowed);

    for (fault, attempts) in [(CallFault::Denied, 1), (CallFault::Throttled { retry_after: None }, 3)] {
        let aws = aws(plans());
        aws.simulated().faults(|faults| faults.script(Some(CallKind::InstanceTypes), None, u32::MAX, fault));
        let mut setup = Setup::open(aws).await;
        for number in 0..GROUPS {
            assert_eq!(allocatable(&mut setup.client, &format!("web-{number}")).await.0, "2", "from the tables");
        }
        // Again after 10 s at the earliest.
        let lookups = 1 + usize::try_from(setup.emulator.simulated().elapsed().as_secs() / 10).expect("small");
        assert!(asked(&setup.emulator) <= attempts * lookups, "{} for {GROUPS} groups", asked(&setup.emulator));
    }
}
