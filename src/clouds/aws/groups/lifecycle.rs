//! What an instance's lifecycle state means.

use aws_sdk_autoscaling::types::Instance as AsgInstance;

use super::ids::provider_id;
use crate::cloud::{Counts, Instance, InstanceState};

/// What the SDK fills in for a lifecycle state that AWS did not send.
const FILLED_IN: &str = "no value was set";

/// The state of an instance, and whether the desired capacity includes it. `None` for what is no node: gone, detached,
/// or kept in a warm pool (#4005).
pub(super) fn state_of(lifecycle: &str) -> Option<(InstanceState, Counts)> {
    // States are added over the years (`Terminating:Retained`, `Warmed:Hibernated`), so the first part decides.
    match lifecycle.split(':').next().unwrap_or_default() {
        "Pending" => Some((InstanceState::Creating, Counts::Yes)),
        // An instance that goes is already out of the desired capacity, or is about to be replaced: in both cases it
        // must not hide that capacity is missing (#9877).
        "Terminating" | "Detaching" => Some((InstanceState::Deleting, Counts::No)),
        // The group replaces what stands by, unless the desired capacity was lowered by it at once.
        "Standby" | "EnteringStandby" => Some((InstanceState::Running, Counts::No)),
        "Terminated" | "Detached" | "Warmed" => None,
        // InService, Quarantined, ReplacingRootVolume, RootVolumeReplaced, and whatever comes: it is there.
        _ => Some((InstanceState::Running, Counts::Yes)),
    }
}

/// Reads one instance; `Ok(None)` for one that is no node.
pub(super) fn instance(described: &AsgInstance) -> Result<Option<Instance>, String> {
    let lifecycle = described.lifecycle_state.as_ref().map_or("", |state| state.as_str());
    let id = described.instance_id.as_deref().filter(|id| !id.is_empty()).ok_or("an instance without an ID")?;
    if lifecycle.is_empty() || lifecycle == FILLED_IN {
        return Err(format!("instance {id} without a lifecycle state"));
    }
    let Some((state, counts)) = state_of(lifecycle) else { return Ok(None) };
    let zone = described.availability_zone.as_deref().filter(|zone| !zone.is_empty());
    let zone = zone.ok_or_else(|| format!("instance {id} without an availability zone"))?;
    Ok(Some(Instance { id: provider_id(zone, id), state, counts, failure: None }))
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::LifecycleState;

    use super::*;

    #[test]
    fn what_aws_did_not_send_is_not_made_up() {
        let read = |id: &str, state: &str, zone: &str| {
            let builder = AsgInstance::builder().instance_id(id).lifecycle_state(LifecycleState::from(state));
            instance(&builder.availability_zone(zone).build())
        };
        assert!(read("i-1", "InService", "us-east-1a").is_ok());
        for (id, state, zone) in
            [("", "InService", "us-east-1a"), ("i-1", FILLED_IN, "us-east-1a"), ("i-1", "InService", "")]
        {
            assert!(read(id, state, zone).is_err(), "{id:?} {state:?} {zone:?}");
        }
    }

    #[test]
    fn every_lifecycle_state_has_a_meaning() {
        use InstanceState::{Creating, Deleting, Running};
        for (lifecycle, meaning) in [
            ("Pending", Some((Creating, Counts::Yes))),
            ("Pending:Wait", Some((Creating, Counts::Yes))),
            ("Pending:Proceed", Some((Creating, Counts::Yes))),
            ("InService", Some((Running, Counts::Yes))),
            ("Quarantined", Some((Running, Counts::Yes))),
            ("ReplacingRootVolume:Wait", Some((Running, Counts::Yes))),
            ("RootVolumeReplaced", Some((Running, Counts::Yes))),
            ("EnteringStandby", Some((Running, Counts::No))),
            ("Standby", Some((Running, Counts::No))),
            ("Terminating", Some((Deleting, Counts::No))),
            ("Terminating:Wait", Some((Deleting, Counts::No))),
            ("Terminating:Retained", Some((Deleting, Counts::No))),
            ("Terminating:SomethingNew", Some((Deleting, Counts::No))),
            ("Detaching", Some((Deleting, Counts::No))),
            ("Terminated", None),
            ("Detached", None),
            ("Warmed:Stopped", None),
            ("Warmed:Pending:Wait", None),
            ("Warmed:SomethingNew", None),
            ("SomethingNew", Some((Running, Counts::Yes))),
        ] {
            assert_eq!(state_of(lifecycle), meaning, "{lifecycle}");
        }
    }
}
