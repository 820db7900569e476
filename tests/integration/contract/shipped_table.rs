//! The shipped table against the responses of DescribeInstanceTypes that moto installs, read as live discovery reads
//! them.

use headcount::cloud::Family;
use headcount::instance_types::{Entry, Table};

use crate::peers::moto::Moto;

/// Resources that only live discovery knows, and that the shipped table leaves out on purpose (see its first lines).
const LIVE_ONLY: [&str; 1] = ["vpc.amazonaws.com/PrivateIPv4Address"];
/// Types whose pods moto up to 5.2.1 computes from one network card. EC2 has since described two cards (8 and 7
/// interfaces, 12 and 12), as moto 5.2.5 has it, and pods use those of the default card only. The shipped table has the
/// lower figures.
const TWO_CARDS: [(&str, u32); 4] =
    [("i7ie.48xlarge", 737), ("i7ie.metal-48xl", 737), ("i8ge.48xlarge", 1178), ("i8ge.metal-48xl", 1178)];
/// moto 5.2.1 and the shipped table have 1,254 types in common, moto 5.2.5 has 1,358.
const COMMON_TYPES_MIN: usize = 1_250;

/// What the two tables compare: live discovery also knows local disks and addresses.
fn comparable(entry: &Entry) -> Entry {
    let mut entry = Entry { local_disks: None, ..entry.clone() };
    entry.resources.retain(|name, _| !LIVE_ONLY.contains(&name.as_str()));
    entry
}

#[tokio::test]
async fn the_shipped_table_has_the_figures_of_describe_instance_types() {
    let Some(text) = Moto::exported_types().await else { return };
    let live = Table::parse(text, "live.yaml").expect("a table");

    let shipped = Table::shipped(Family::Aws).types(Family::Aws);
    let (mut common, mut differing) = (0, Vec::new());
    for (name, live) in live.types(Family::Aws) {
        let Some(shipped) = shipped.get(name) else { continue };
        common += 1;
        let (mut live, shipped) = (comparable(live), comparable(shipped));
        if TWO_CARDS.iter().any(|(exception, pods)| exception == name && live.pods == Some(*pods)) {
            live.pods = shipped.pods;
        }
        if live != shipped {
            differing.push(format!("{name}: shipped {shipped}, live {live}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(common >= COMMON_TYPES_MIN, "{common} types in common");
}
