//! VM sizes: the SKU list of a location.

use headcount::clouds::simulated::CallKind;
use serde_json::{Value, json};

use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::super::shown::ShownGroup;
use super::errors;
use super::paging::page;
use super::router::ArmApi;

/// Name, family and capabilities.
type Size = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The available sizes. `MemoryGB` is in GiB, and `vCPUsAvailable` less than `vCPUs` in constrained sizes.
const SIZES: [Size; 7] = [
    ("Standard_D2s_v5", "standardDSv5Family", &[("vCPUs", "2"), ("vCPUsAvailable", "2"), ("MemoryGB", "8")]),
    ("Standard_D4s_v5", "standardDSv5Family", &[("vCPUs", "4"), ("vCPUsAvailable", "4"), ("MemoryGB", "16")]),
    (
        "Standard_D4ps_v5",
        "standardDPSv5Family",
        &[("vCPUs", "4"), ("vCPUsAvailable", "4"), ("MemoryGB", "16"), ("CpuArchitectureType", "Arm64")],
    ),
    (
        "Standard_NC24ads_A100_v4",
        "StandardNCADSA100v4Family",
        &[
            ("vCPUs", "24"),
            ("vCPUsAvailable", "24"),
            ("MemoryGB", "220"),
            ("GPUs", "1"),
            ("CachedDiskBytes", "274877906944"),
        ],
    ),
    ("Standard_E8-4ds_v5", "standardEDSv5Family", &[("vCPUs", "8"), ("vCPUsAvailable", "4"), ("MemoryGB", "64")]),
    ("Standard_B1ls", "standardBSFamily", &[("vCPUs", "1"), ("vCPUsAvailable", "1"), ("MemoryGB", "0.5")]),
    ("Standard_F72s_v2", "standardFSv2Family", &[("vCPUs", "72"), ("vCPUsAvailable", "72"), ("MemoryGB", "144")]),
];

impl ArmApi {
    pub(super) async fn list_sizes(&self, request: &Request) -> HandlerResult {
        let filter = request.parameter("$filter").unwrap_or_default();
        let kind = CallKind::InstanceTypes;
        self.core.call(kind, None, filter.clone(), errors::call_fault, |_, _| ()).await?;
        let location = filter.split_once(" eq ").map_or("eastus", |(_, value)| value.trim().trim_matches('\''));
        let mut items: Vec<Value> = SIZES.iter().map(|size| item(size, location)).collect();
        // The real list also contains other resources.
        let disk = json!({"resourceType": "disks", "name": "Premium_LRS", "locations": [location], "capabilities": []});
        items.insert(2, disk);
        Ok(page(request, &items, &self.behavior()))
    }
}

impl ArmApi {
    /// The usage of the quotas that have a limit.
    pub(super) fn list_usages(&self, request: &Request) -> HttpResponse {
        let items = self.behavior().quotas.into_iter().map(|(name, limit)| {
            let (used, localized) =
                (self.used(&name), json!({"value": name, "localizedValue": format!("{name} vCPUs")}));
            json!({"unit": "Count", "currentValue": used, "limit": limit, "name": localized})
        });
        page(request, &items.collect::<Vec<Value>>(), &self.behavior())
    }

    /// The quota that a new capacity of a scale set would exceed.
    pub(super) fn exceeded(&self, scale_set: &str, to: u32) -> Option<String> {
        let group = self.core.simulated.world(|world, _| world.group(scale_set).map(ShownGroup::of))?;
        let more = u64::from(to.saturating_sub(group.capacity)) * self.quota_of(&group)?.1;
        let (names, _) = self.quota_of(&group)?;
        let over = |name: &&str| {
            let limit = self.behavior().quotas.get(*name).copied();
            limit.is_some_and(|limit| self.used(name) + more > limit)
        };
        names.into_iter().find(over).map(str::to_owned)
    }

    /// The vCPUs of all VMs that count against a quota.
    fn used(&self, quota: &str) -> u64 {
        let groups = self.core.simulated.world(|world, _| world.groups().map(ShownGroup::of).collect::<Vec<_>>());
        let of_group = |group: &ShownGroup| {
            let (names, cpus) = self.quota_of(group)?;
            let vms = u64::try_from(group.instances.len()).ok()?;
            names.contains(&quota).then_some(vms * cpus)
        };
        groups.iter().filter_map(of_group).sum()
    }

    /// The quotas that a VM of a scale set counts against, and its vCPUs. None for one in reserved capacity: the
    /// reservation is large enough, and has used the quota.
    fn quota_of(&self, group: &ShownGroup) -> Option<(Vec<&'static str>, u64)> {
        if self.group_details(group.name()).reserved {
            return None;
        }
        let size = group.plan.instance_types.first()?;
        let (_, family, capabilities) = SIZES.iter().find(|(name, ..)| name == size)?;
        let cpus = capabilities.iter().find(|(name, _)| *name == "vCPUsAvailable")?.1.parse().ok()?;
        let is_spot = self.group_details(group.name()).spot;
        Some((if is_spot { vec!["lowPriorityCores"] } else { vec![*family, "cores"] }, cpus))
    }
}

fn item((name, family, capabilities): &Size, location: &str) -> Value {
    let has = |wanted: &str| capabilities.iter().any(|(name, _)| *name == wanted);
    let defaults = [("CpuArchitectureType", "x64"), ("PremiumIO", "True"), ("EphemeralOSDiskSupported", "True")];
    let defaults = defaults.iter().filter(|(name, _)| !has(name));
    let capabilities = capabilities.iter().chain(defaults);
    let capabilities: Vec<Value> = capabilities.map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "resourceType": "virtualMachines",
        "name": name,
        "tier": "Standard",
        "size": name.trim_start_matches("Standard_"),
        "family": family,
        "locations": [location],
        "locationInfo": [{"location": location, "zones": ["1", "2", "3"], "zoneDetails": []}],
        "capabilities": capabilities,
        "restrictions": [],
    })
}
