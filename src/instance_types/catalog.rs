//! Everything known about instance types: user tables, what nodes reported, live discovery and the shipped tables,
//! most trusted first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::entry::Entry;
use super::learned::{Learned, LearnedHost, LearnedHosts, LearnedType, LearnedTypes, Sold};
use super::memory_model::{self, Host, HostFigure};
use super::provenance::{Provenance, WithProvenance};
use super::quantity::Quantity;
use super::table::{Table, fold};
use crate::cloud::{Architecture, Family, InstanceType, OperatingSystem};

/// The most types kept from live discovery. A cloud offers about 1,400; further ones come from the tables.
const LIVE_TYPES_MAX: usize = 8192;

type LiveTypes = HashMap<(Family, String), Arc<Entry>>;

/// What is known about instance types.
///
/// Reads take no lock. Live discovery and nodes add figures through `&self`, and every clone shows them.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// In the order the configuration names them: later ones win.
    tables: Arc<ArcSwap<Vec<Table>>>,
    live: Arc<ArcSwap<LiveTypes>>,
    /// By group.
    learned: Arc<ArcSwap<HashMap<String, Arc<LearnedTypes>>>>,
    /// What nodes of any group showed of the hosts of their types.
    hosts: Arc<ArcSwap<LearnedHosts>>,
    /// The figures of the group that this catalog is for, see [`Catalog::for_group`].
    seen: Option<Arc<LearnedTypes>>,
}

/// A type's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySize {
    /// In bytes, as a kubelet reports it.
    Reported(Quantity),
    /// In bytes, as the cloud sells it: [`memory_model::reported`] subtracts what the hypervisor and the kernel keep.
    Nominal(Quantity),
}

impl MemorySize {
    /// Whether what the hypervisor and the kernel keep must be subtracted.
    pub fn is_nominal(self) -> bool {
        matches!(self, Self::Nominal(_))
    }

    /// The capacity that a kubelet on this host will report, in bytes.
    fn reported(self, host: &Host<'_>) -> Quantity {
        match self {
            Self::Reported(memory) => memory,
            Self::Nominal(memory) => memory_model::reported(host, memory),
        }
    }
}

/// What is known about one instance type, with the provenance of each figure and the next most trusted one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeCapacity {
    /// Virtual processors.
    pub cpu: Option<WithProvenance<Quantity>>,
    /// Virtual processors of the whole machine, where the type offers only some of them: 120 for
    /// `Standard_HB120-96rs_v3`.
    pub machine_cpu: Option<Quantity>,
    /// Memory.
    pub memory: Option<WithProvenance<MemorySize>>,
    /// Memory as the cloud sells it, in bytes, regardless of its provenance: the rules for the reserve need it.
    pub nominal_memory: Option<Quantity>,
    /// The architecture.
    pub architecture: Option<WithProvenance<Architecture>>,
    /// Pods.
    pub pods: Option<WithProvenance<u32>>,
    /// Pods that the type's network interfaces can serve, from the cloud or the shipped table. User tables do not
    /// change it, because the reserve of EKS nodes depends on this figure and not on their own limit.
    pub network_pods: Option<u32>,
    /// The total size of the instance's own disks, in bytes; zero if it has none.
    pub local_disks: Option<WithProvenance<Quantity>>,
    /// Any other resource, by name. Zero if a more trusted table removes the resource.
    pub resources: BTreeMap<String, WithProvenance<Quantity>>,
    /// The capacity and the reserve that the group's nodes of this type reported.
    pub learned: Option<Arc<LearnedType>>,
    /// What is missing on the worst host of this type that nodes of any group showed.
    pub host: Option<LearnedHost>,
}

/// What a template uses of what was learned from nodes.
#[derive(Clone, Debug)]
pub struct LearnedView {
    /// The figures of the group's own nodes.
    types: Option<Arc<LearnedTypes>>,
    /// The hosts of all types.
    hosts: Arc<LearnedHosts>,
}

impl PartialEq for LearnedView {
    fn eq(&self, other: &Self) -> bool {
        // The hosts are replaced only when they change.
        self.types == other.types && Arc::ptr_eq(&self.hosts, &other.hosts)
    }
}

impl TypeCapacity {
    /// The memory that a kubelet on this host will report, in bytes. If the configuration sets the share that is
    /// kept, its value wins, and the estimate is the next most trusted one.
    ///
    /// What nodes with an earlier image reported does not count if the kernel of the group's image keeps more.
    pub fn reported_memory(&self, host: &Host<'_>) -> Option<WithProvenance<Quantity>> {
        let host = &Host { learned_missing_kib: self.host.as_ref().map(|host| host.missing_kib), ..*host };
        let launched = host.image.map(|image| image.family);
        let is_outdated = launched
            .zip(self.learned.as_ref())
            .is_some_and(|(family, learned)| learned.is_of_smaller_image_than(family));
        let counts = |provenance: &Provenance| !is_outdated || !matches!(provenance, Provenance::Learned { .. });
        let candidates = self.memory.clone()?.into_candidates().filter(|(_, provenance)| counts(provenance));
        let memory = WithProvenance::first(candidates)?;
        // What nodes reported is trusted less than what the configuration says.
        let is_learned = |provenance: &Provenance| matches!(provenance, Provenance::Learned { .. });
        let sold = memory.clone().into_candidates().find(|(_, provenance)| !is_learned(provenance));
        let sold = sold.filter(|(memory, _)| host.overhead.is_some() && memory.is_nominal());
        let by_share = sold.map(|(memory, _)| (memory.reported(host), Provenance::GroupOverride));
        let estimating = Host { overhead: None, ..*host };
        let estimated = memory.into_candidates().map(|(memory, provenance)| match memory {
            MemorySize::Reported(memory) => (memory, provenance),
            MemorySize::Nominal(nominal) => {
                let estimated = memory_model::reported(&estimating, nominal);
                (estimated, self.estimated(&estimating, nominal, provenance))
            }
        });
        WithProvenance::first(by_share.into_iter().chain(estimated))
    }

    /// Where an estimate from the memory that the cloud sells comes from.
    fn estimated(&self, host: &Host<'_>, nominal: Quantity, provenance: Provenance) -> Provenance {
        let image = host.image.filter(|_| host.operating_system == OperatingSystem::Linux);
        let figure = memory_model::host_figure(host, nominal);
        let learned = self.host.as_ref().filter(|_| figure == HostFigure::Learned).map(|host| host.by.clone());
        Provenance::Estimated { nominal: Box::new(provenance), host: figure, learned, image }
    }
}

impl Catalog {
    /// The shipped tables and the user's, in the order the configuration names them.
    pub fn new(tables: Vec<Table>) -> Self {
        Self { tables: Arc::new(ArcSwap::from_pointee(tables)), ..Self::default() }
    }

    /// Replaces the user's tables.
    pub fn replace_tables(&self, tables: Vec<Table>) {
        self.tables.store(Arc::new(tables));
    }

    /// Replaces what was learned from nodes.
    pub fn learn(&self, learned: &Learned) {
        let sold = |type_name: &str| self.sold(type_name);
        let groups = learned.by_group(&sold).into_iter();
        self.learned.store(Arc::new(groups.map(|(group, types)| (group.to_owned(), Arc::new(types))).collect()));
        if **self.hosts.load() != *learned.hosts() {
            self.hosts.store(Arc::new(learned.hosts().clone()));
        }
    }

    /// What the template of a group (`source/name`) uses of what was learned from nodes.
    pub fn learned(&self, group: &str) -> LearnedView {
        LearnedView { types: self.learned.load().get(group).cloned(), hosts: self.hosts.load_full() }
    }

    /// What a cloud sells as a type: by its API, else by the shipped table, else by the user's tables. Names of the
    /// two clouds do not overlap.
    pub fn sold(&self, type_name: &str) -> Sold {
        let of_family = |family| {
            let live = self.live.load();
            let live = live.get(&(family, fold(family, type_name).into_owned())).cloned();
            let tables = self.tables.load();
            let users = tables.iter().rev().filter_map(|table| table.get(family, type_name));
            let entries: Vec<&Entry> =
                live.as_deref().into_iter().chain(shipped(family, type_name)).chain(users).collect();
            let sold = Sold {
                cpu: entries.iter().find_map(|entry| entry.cpu),
                memory: entries.iter().find_map(|entry| entry.nominal_memory),
                accelerators: (!entries.is_empty()).then(|| accelerators(&entries)),
            };
            (sold != Sold::default()).then_some(sold)
        };
        [Family::Aws, Family::Azure].into_iter().find_map(of_family).unwrap_or_default()
    }

    /// The same catalog with the figures learned from the nodes of this group.
    #[must_use]
    pub fn for_group(&self, group: &str) -> Self {
        Self { seen: self.learned(group).types, ..self.clone() }
    }

    /// The same catalog, with these types from live discovery.
    #[must_use]
    pub fn with_live(self, family: Family, types: &[InstanceType]) -> Self {
        self.insert_live(family, types);
        self
    }

    /// Adds the figures of these types from a cloud's API, and replaces earlier ones.
    pub fn insert_live(&self, family: Family, types: &[InstanceType]) {
        let found: Vec<(String, Arc<Entry>)> =
            types.iter().map(|live| (fold(family, &live.name).into_owned(), Arc::new(Entry::from(live)))).collect();
        self.live.rcu(|live| {
            let mut live = LiveTypes::clone(live);
            for (name, entry) in &found {
                if live.len() >= LIVE_TYPES_MAX && !live.contains_key(&(family, name.clone())) {
                    tracing::warn!(
                        type_name = name.as_str(),
                        "too many instance types from live discovery; ignoring one of them"
                    );
                    continue;
                }
                live.insert((family, name.clone()), Arc::clone(entry));
            }
            live
        });
    }

    /// Whether live discovery knows the type, so that it need not be looked up again.
    pub fn knows_live(&self, family: Family, name: &str) -> bool {
        self.live.load().contains_key(&(family, fold(family, name).into_owned()))
    }

    /// The prices per hour that the user's tables give a type, on demand or spot, the most trusted one first.
    pub fn user_prices(&self, family: Family, name: &str, is_spot: bool) -> Vec<(f64, Provenance)> {
        let tables = self.tables.load();
        let price = |table: &Table| {
            let entry = table.get(family, name)?;
            let price = if is_spot { entry.spot_price } else { entry.price };
            Some((price?.as_f64(), table.provenance().clone()))
        };
        tables.iter().rev().filter_map(price).collect()
    }

    /// The known figures of a type; `None` if there are none.
    pub fn resolve(&self, family: Family, name: &str) -> Option<TypeCapacity> {
        let live = self.live.load();
        let live =
            live.get(&(family, fold(family, name).into_owned())).map(|entry| (Provenance::LiveDiscovery, &**entry));
        let shipped = shipped(family, name).map(|entry| (Table::shipped(family).provenance().clone(), entry));
        let network_pods = [&live, &shipped].into_iter().flatten().find_map(|(_, entry)| entry.pods);
        let tables = self.tables.load();
        let user = tables.iter().rev().filter_map(|table| Some((table.provenance().clone(), table.get(family, name)?)));
        let learned = self.seen.as_ref().and_then(|types| types.get(&*fold(family, name)));
        let seen = learned.map(|learned| (learned.provenance.clone(), &learned.entry));
        let layers: Vec<(Provenance, &Entry)> = user.chain(seen).chain(live).chain(shipped).collect();
        if layers.is_empty() {
            return None;
        }
        let names: BTreeSet<&String> = layers.iter().flat_map(|(_, entry)| entry.resources.keys()).collect();
        let resources = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), pick(&layers, |entry| entry.resources.get(name).copied())?)))
            .collect();
        Some(TypeCapacity {
            cpu: pick(&layers, |entry| entry.cpu),
            machine_cpu: machine_cpu(family, name),
            memory: WithProvenance::first(layers.iter().flat_map(|(provenance, entry)| {
                let reported = entry.memory.map(MemorySize::Reported);
                let nominal = entry.nominal_memory.map(MemorySize::Nominal);
                reported.into_iter().chain(nominal).map(move |memory| (memory, provenance.clone()))
            })),
            nominal_memory: layers.iter().find_map(|(_, entry)| entry.nominal_memory),
            architecture: pick(&layers, |entry| entry.architecture),
            pods: pick(&layers, |entry| entry.pods),
            network_pods,
            local_disks: pick(&layers, |entry| entry.local_disks),
            resources,
            learned: learned.cloned(),
            host: self.hosts.load().get(&fold(family, name)).cloned(),
        })
    }
}

fn pick<T>(layers: &[(Provenance, &Entry)], figure: impl Fn(&Entry) -> Option<T>) -> Option<WithProvenance<T>> {
    WithProvenance::first(layers.iter().filter_map(|(provenance, entry)| Some((figure(entry)?, provenance.clone()))))
}

/// The most devices of a name with a vendor that any of these entries has.
fn accelerators(entries: &[&Entry]) -> Quantity {
    let devices = entries.iter().flat_map(|entry| &entry.resources).filter(|(name, _)| name.contains('/'));
    devices.map(|(_, count)| *count).max().unwrap_or_default()
}

/// The virtual processors of the machine behind a constrained size.
fn machine_cpu(family: Family, name: &str) -> Option<Quantity> {
    shipped(family, &unconstrained(family, name)?)?.cpu
}

/// The size that a constrained size of Azure is one of: `standard_ds14_v2` for `Standard_DS14-8_v2`.
fn unconstrained(family: Family, name: &str) -> Option<String> {
    let name = fold(family, name);
    let (size, rest) = name.split_once('-').filter(|_| family == Family::Azure)?;
    let features = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    (features.len() < rest.len()).then(|| format!("{size}{features}"))
}

fn shipped(family: Family, name: &str) -> Option<&'static Entry> {
    let table = Table::shipped(family);
    table.get(family, name).or_else(|| {
        // Azure sells some sizes at a promotional price under another name; the hardware is the same.
        let name = fold(family, name);
        let plain = name.strip_suffix("_promo").filter(|_| family == Family::Azure)?;
        table.get(family, plain)
    })
}

#[cfg(test)]
mod tests;
