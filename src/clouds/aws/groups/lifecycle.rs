//! What an instance's lifecycle state means for its node.

use aws_sdk_autoscaling::types::{AutoScalingGroup, Instance as AsgInstance};

use super::ids::provider_id;
use crate::cloud::{Counts, Instance, InstanceState};

/// The SDK's value for a lifecycle state that AWS did not send.
const FILLED_IN: &str = "no value was set";
/// The state of an instance that a lifecycle policy keeps.
const RETAINED: &str = "Terminating:Retained";

/// The state of an instance, and whether the desired capacity includes it. `None` if it is not a node: it is gone,
/// detached or in a warm pool (#4005).
pub(super) fn state_of(lifecycle: &str) -> Option<(InstanceState, Counts)> {
    // States are added over the years (`Terminating:Retained`, `Warmed:Hibernated`), so the first part decides. Case is
    // ignored: AWS sends some values in another case than its SDK lists (`windows` for `Windows`).
    match lifecycle.split(':').next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "pending" => Some((InstanceState::Creating, Counts::Yes)),
        // An instance being terminated has left the desired capacity, or will be replaced. In both cases it must not
        // hide a shortfall (#9877).
        "terminating" | "detaching" => Some((InstanceState::Deleting, Counts::No)),
        // The group replaces an instance in standby, unless the desired capacity was lowered at the same time.
        "standby" | "enteringstandby" => Some((InstanceState::Running, Counts::No)),
        "terminated" | "detached" | "warmed" => None,
        // InService, Quarantined, ReplacingRootVolume, RootVolumeReplaced and any future state: the instance exists.
        _ => Some((InstanceState::Running, Counts::Yes)),
    }
}

/// The instances that a lifecycle policy keeps until somebody terminates them.
pub(super) fn retained(group: &AutoScalingGroup) -> impl Iterator<Item = &str> {
    let lifecycle = |described: &AsgInstance| described.lifecycle_state().map(|state| state.as_str().to_owned());
    let kept = group
        .instances()
        .iter()
        .filter(move |described| lifecycle(described).is_some_and(|state| state.eq_ignore_ascii_case(RETAINED)));
    kept.filter_map(AsgInstance::instance_id)
}

/// Reads one instance. `Ok(None)` if it is not a node.
pub(super) fn instance(described: &AsgInstance) -> Result<Option<Instance>, String> {
    let lifecycle = described.lifecycle_state.as_ref().map_or("", |state| state.as_str());
    let id = described.instance_id.as_deref().filter(|id| !id.is_empty()).ok_or("an instance has no ID")?;
    if lifecycle.is_empty() || lifecycle == FILLED_IN {
        return Err(format!("instance {id} has no lifecycle state"));
    }
    let Some((state, counts)) = state_of(lifecycle) else { return Ok(None) };
    let zone = described.availability_zone.as_deref().filter(|zone| !zone.is_empty());
    let zone = zone.ok_or_else(|| format!("instance {id} has no availability zone"))?;
    let is_protected = described.protected_from_scale_in == Some(true);
    Ok(Some(Instance { id: provider_id(zone, id), identity: None, state, counts, is_protected, failure: None }))
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::types::LifecycleState;

    use super::*;

    #[test]
    fn an_instance_without_an_id_state_or_zone_is_an_error() {
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
            ("terminating:wait", Some((Deleting, Counts::No))),
            ("TERMINATING", Some((Deleting, Counts::No))),
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
