//! The pods of the demo, and a scheduler that counts them.

use std::collections::BTreeMap;

use super::line::number_of;

/// How many pods a node has room for.
const PODS_PER_NODE: u32 = 4;

/// A node that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Its provider ID.
    pub(super) id: String,
    /// Its node group.
    pub(super) group: String,
    /// Whether it takes new pods. One that is about to be deleted does not.
    pub(super) is_open: bool,
}

/// Pods that are alike.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    /// Its name.
    pub(super) name: &'static str,
    /// The node groups whose nodes it may run on, the preferred one first.
    pub(super) groups: &'static [&'static str],
    /// How many pods there are, running and pending.
    pub(super) wanted: u32,
}

/// All pods, and where they run.
#[derive(Clone, Debug)]
pub(super) struct Pods {
    workloads: Vec<Workload>,
    /// The pods on each node: how many of each workload, by its place in `workloads`.
    placed: BTreeMap<String, Vec<u32>>,
}

/// How many pods run, and how many wait for a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCounts {
    pub(super) running: u32,
    pub(super) pending: u32,
}

impl Pods {
    pub(super) fn new(workloads: Vec<Workload>) -> Self {
        Self { workloads, placed: BTreeMap::new() }
    }

    /// Changes how many pods a workload has.
    pub(super) fn change(&mut self, name: &str, by: i32) {
        if let Some(workload) = self.workloads.iter_mut().find(|workload| workload.name == name) {
            workload.wanted = workload.wanted.saturating_add_signed(by);
        }
    }

    /// Moves the pods: those of nodes that are gone wait, those that are no longer wanted end, and those that wait run
    /// where there is room.
    pub(super) fn place(&mut self, nodes: &[Node]) {
        let workloads = self.workloads.len();
        self.placed.retain(|id, _| nodes.iter().any(|node| node.id == *id));
        for node in nodes {
            self.placed.entry(node.id.clone()).or_insert_with(|| vec![0; workloads]);
        }
        for (place, workload) in self.workloads.iter().enumerate() {
            let mut running = running(&self.placed, place);
            while running > workload.wanted {
                end_one(&mut self.placed, place);
                running -= 1;
            }
            let preferred =
                workload.groups.iter().flat_map(|group| nodes.iter().filter(move |node| node.group == **group));
            for node in preferred.filter(|node| node.is_open) {
                let Some(pods) = self.placed.get_mut(&node.id) else { continue };
                while running < workload.wanted && pods.iter().sum::<u32>() < PODS_PER_NODE {
                    pods[place] += 1;
                    running += 1;
                }
            }
        }
    }

    /// How many pods run and wait.
    pub(super) fn counts(&self) -> PodCounts {
        let wanted: u32 = self.workloads.iter().map(|workload| workload.wanted).sum();
        let running = self.placed.values().flatten().sum();
        PodCounts { running, pending: wanted.saturating_sub(running) }
    }

    /// The workloads with pods that wait, how many do, and how many more nodes these need.
    pub(super) fn waiting(&self) -> Vec<(Workload, u32, u32)> {
        let workloads = self.workloads.iter().enumerate().map(|(place, workload)| {
            let waiting = workload.wanted.saturating_sub(running(&self.placed, place));
            (workload.clone(), waiting, waiting.div_ceil(PODS_PER_NODE))
        });
        workloads.filter(|(_, waiting, _)| *waiting > 0).collect()
    }

    /// Whether no pod runs on this node.
    pub(super) fn is_empty(&self, node: &str) -> bool {
        self.placed.get(node).is_none_or(|pods| pods.iter().all(|count| *count == 0))
    }
}

impl std::fmt::Display for PodCounts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} running, {} pending", number_of(self.running, "pod"), self.pending)
    }
}

fn running(placed: &BTreeMap<String, Vec<u32>>, place: usize) -> u32 {
    placed.values().map(|pods| pods[place]).sum()
}

/// Ends a pod of a workload, on the node where fewest run, so that nodes become empty.
fn end_one(placed: &mut BTreeMap<String, Vec<u32>>, place: usize) {
    let with_one = placed.values_mut().filter(|pods| pods[place] > 0);
    if let Some(pods) = with_one.min_by_key(|pods| pods.iter().sum::<u32>()) {
        pods[place] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, group: &str) -> Node {
        Node { id: id.to_owned(), group: group.to_owned(), is_open: true }
    }

    fn pods(wanted: u32) -> Pods {
        Pods::new(vec![Workload { name: "web", groups: &["web", "spot"], wanted }])
    }

    #[test]
    fn pods_run_where_there_is_room_and_the_rest_waits() {
        let mut pods = pods(11);
        pods.place(&[node("a", "web"), node("b", "spot"), node("c", "other")]);
        assert_eq!(pods.counts(), PodCounts { running: 8, pending: 3 });
        assert_eq!(pods.waiting().iter().map(|(_, waiting, nodes)| (*waiting, *nodes)).collect::<Vec<_>>(), [(3, 1)]);
        assert!(pods.is_empty("c") && !pods.is_empty("b"));
    }

    #[test]
    fn the_pods_of_a_lost_node_wait_and_surplus_pods_leave_one_node_empty() {
        let mut pods = pods(8);
        pods.place(&[node("a", "web"), node("b", "web")]);
        pods.place(&[node("a", "web")]);
        assert_eq!(pods.counts(), PodCounts { running: 4, pending: 4 });
        pods.place(&[node("a", "web"), node("c", "web")]);
        pods.change("web", -4);
        pods.place(&[node("a", "web"), node("c", "web")]);
        assert_eq!(pods.counts(), PodCounts { running: 4, pending: 0 });
        assert!(pods.is_empty("a") != pods.is_empty("c"));
    }

    #[test]
    fn a_closed_node_keeps_its_pods_and_takes_no_more() {
        let mut pods = pods(2);
        pods.place(&[node("a", "web")]);
        pods.change("web", 2);
        pods.place(&[Node { is_open: false, ..node("a", "web") }]);
        assert_eq!(pods.counts(), PodCounts { running: 2, pending: 2 });
    }
}
