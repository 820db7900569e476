//! The simulated source as a [`Cloud`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::time::sleep_until;

use super::call::CallKind;
use super::group::Group;
use super::late_write::LateWrite;
use super::member::Member;
use super::plan::GroupStyle;
use super::record::{DeletionResult, Ending, Operation, Refusal};
use super::source::Simulated;
use super::world::{World, short_name, wall_clock};
use super::{errors, ids, types};
use crate::cloud::{
    Acceptance, Cloud, CloudError, Counts, Deletion, Failure, Family, GroupName, GroupReading, InstanceType,
    LaunchActivity, LaunchRequest, LaunchResult, LaunchSpec, Listing, OperationHandle, Progress, ProviderId,
    Recognition, Shortfall, VerifiableCloud, WritableCloud,
};

/// How long a caller waits before it polls an operation again.
const ASK_AFTER: Duration = Duration::from_secs(1);

#[async_trait]
impl Cloud for Simulated {
    async fn list(&self) -> Result<Listing, CloudError> {
        // As in the real APIs, a listing of Auto Scaling groups includes instances, and one of scale sets does not.
        let list = |group: &Group| match group.plan().style {
            GroupStyle::AutoScaling => group.reading(),
            GroupStyle::ScaleSet => group.outline(),
        };
        let kind = CallKind::List;
        let readings =
            self.call(kind, "", String::new(), |world, _| Ok(world.groups().map(list).collect::<Vec<_>>())).await?;
        let mut listing = Listing::default();
        for reading in readings {
            let name = reading.name.clone();
            let listed_in_full = reading.instances.is_some();
            match self.apply_read_fault(kind, &name, Some(reading)) {
                Ok(Some(reading)) if listed_in_full => listing.groups.push(reading),
                Ok(Some(reading)) => listing.groups.push(GroupReading { instances: None, ..reading }),
                Ok(None) => {}
                Err(error) => listing.broken.push((name, error.to_string())),
            }
        }
        Ok(listing)
    }

    async fn observe(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        let (kind, name) = (CallKind::Observe, group.as_str());
        // A read of a scale set is two requests, the instances first: the capacity is the later one.
        let is_scale_set =
            self.world(|world, _| world.group(name).is_some_and(|group| group.plan().style == GroupStyle::ScaleSet));
        let instances = if is_scale_set {
            let list = |world: &mut World, _| {
                Ok(world.group(name).map(|group| (group.instances(), group.without_id())).unwrap_or_default())
            };
            let (instances, without_id) = self.call(CallKind::ListInstances, name, String::new(), list).await?;
            Some((instances, without_id))
        } else {
            None
        };
        let read = |world: &mut World, _| Ok(world.group(name).map(Group::reading));
        let reading = self.call(kind, name, String::new(), read).await?;
        let reading = reading.map(|reading| match instances {
            Some((instances, without_id)) => GroupReading { instances: Some(instances), without_id, ..reading },
            None => reading,
        });
        self.apply_read_fault(kind, group, reading)
    }

    async fn read_capacity(&self, group: &GroupName) -> Result<Option<GroupReading>, CloudError> {
        let kind = CallKind::Observe;
        // Like the real ones: reading an Auto Scaling group includes its instances, reading a scale set does not.
        let read = |world: &mut World, _| {
            Ok(world.group(group.as_str()).map(|group| match group.plan().style {
                GroupStyle::AutoScaling => group.reading(),
                GroupStyle::ScaleSet => group.outline(),
            }))
        };
        let reading = self.call(kind, group.as_str(), String::new(), read).await?;
        let is_outline = reading.as_ref().is_some_and(|reading| reading.instances.is_none());
        let reading = self.apply_read_fault(kind, group, reading)?;
        Ok(reading.map(|reading| if is_outline { GroupReading { instances: None, ..reading } } else { reading }))
    }

    async fn launch_activity(&self, group: &GroupName, shortfall: Shortfall) -> Result<LaunchActivity, CloudError> {
        let kind = CallKind::LaunchActivity;
        self.call(kind, group.as_str(), String::new(), |world, _| {
            world
                .group(group.as_str())
                .map(|group| group.launch_activity(shortfall.since))
                .ok_or_else(|| errors::not_found(kind, group.as_str()))
        })
        .await
    }

    async fn created_before(
        &self,
        group: &GroupName,
        instances: &[ProviderId],
        before: SystemTime,
    ) -> Result<Vec<ProviderId>, CloudError> {
        let kind = CallKind::LaunchActivity;
        self.call(kind, group.as_str(), String::new(), |world, _| {
            let group = world.group(group.as_str()).ok_or_else(|| errors::not_found(kind, group.as_str()))?;
            let is_old = |id: &&ProviderId| find(group, id).is_some_and(|member| wall_clock(member.since) < before);
            Ok(instances.iter().filter(is_old).cloned().collect())
        })
        .await
    }

    async fn follow(&self, handle: &OperationHandle) -> Result<Progress, CloudError> {
        let kind = CallKind::Follow;
        let (group, number) = handle.0.rsplit_once('#').unwrap_or_default();
        self.call(kind, group, number.to_owned(), |world, _| {
            let operation = number.parse().ok().and_then(|number| world.operation(group, number));
            operation.map(progress).ok_or_else(|| errors::not_found(kind, &handle.0))
        })
        .await
    }

    async fn launch_spec(&self, reading: &GroupReading) -> Result<LaunchSpec, CloudError> {
        let (kind, name) = (CallKind::LaunchSpec, reading.name.as_str());
        self.call(kind, name, String::new(), |world, _| {
            world.group(name).map(Group::launch_spec).ok_or_else(|| errors::not_found(kind, name))
        })
        .await
    }

    async fn instance_types(&self, names: &[String]) -> Result<Vec<InstanceType>, CloudError> {
        let known =
            |_: &mut World, _| Ok(types::all().into_iter().filter(|known| names.contains(&known.name)).collect());
        self.call(CallKind::InstanceTypes, "", names.join(" "), known).await
    }

    async fn all_instance_types(&self) -> Result<Vec<InstanceType>, CloudError> {
        self.call(CallKind::InstanceTypes, "", "all".to_owned(), |_, _| Ok(types::all())).await
    }

    fn recognise(&self, id: &str) -> Recognition {
        match ids::recognise(id) {
            // Azure spells names in any case.
            Recognition::OursInGroup(named) => {
                let is_named = |name: &&Arc<str>| name.eq_ignore_ascii_case(named.as_str());
                let spelled = self.world(|world, _| world.groups.keys().find(is_named).map(|name| (&**name).into()));
                Recognition::OursInGroup(spelled.unwrap_or(named))
            }
            other => other,
        }
    }

    fn family(&self) -> Family {
        self.family
    }

    fn now(&self) -> SystemTime {
        wall_clock(self.elapsed())
    }
}

#[async_trait]
impl WritableCloud for Simulated {
    async fn set_capacity(&self, basis: &GroupReading, to: u32) -> Result<Acceptance, CloudError> {
        let (kind, name) = (CallKind::SetCapacity, basis.name.as_str());
        if to < basis.desired && basis.without_id > 0 {
            let message = format!("{} instances are listed without an ID", basis.without_id);
            return Err(CloudError::conflict(kind.name(), name, message));
        }
        let late =
            |_: &World| Some(LateWrite::SetCapacity { group: name.to_owned(), to, if_match: basis.etag.clone() });
        self.call_or_late(kind, name, format!("{} → {to}", basis.desired), late, |world, now| {
            let operation = world.set_capacity(now, name, to, basis.etag.as_deref());
            let operation = operation.map_err(|refusal| errors::refused(kind, name, refusal))?;
            Ok(Acceptance { handle: operation.map(|number| handle(name, number)) })
        })
        .await
    }

    async fn launch(&self, basis: &GroupReading, launch: &LaunchRequest) -> Result<LaunchResult, CloudError> {
        let (kind, name) = (CallKind::Launch, basis.name.as_str());
        let LaunchRequest { number, token, zone } = launch;
        let place = zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
        let late = |_: &World| Some(LateWrite::Launch { group: name.to_owned(), launch: launch.clone() });
        let begin = |world: &mut World, now| {
            world.launch(now, name, launch).map_err(|refusal| errors::refused(kind, name, refusal))
        };
        let ends = self.call_or_late(kind, name, format!("+{number} {token}{place}"), late, begin).await?;
        sleep_until(self.began() + ends).await;
        let answer = self.world(|world, _| world.launch_answer(name, token));
        let answer = answer.ok_or_else(|| errors::timed_out(kind, name))?;
        let at = self.now();
        let failures: Vec<Failure> = answer.failures.iter().map(|failure| failure.as_of(at)).collect();
        match answer.failures.first() {
            Some(first) if answer.instances.is_empty() => Err(errors::refused(kind, name, Refusal::planned(first))),
            _ => Ok(LaunchResult { instances: answer.instances, failures }),
        }
    }

    async fn delete_instances(&self, basis: &GroupReading, ids: &[ProviderId]) -> Result<Deletion, CloudError> {
        let (kind, name) = (CallKind::DeleteInstances, basis.name.as_str());
        let detail = ids.iter().map(short_name).collect::<Vec<_>>().join(" ");
        // As the AWS API is called: the capacity is not lowered for an instance that the caller's reading does not
        // count.
        let listed = basis.instances.iter().flatten();
        let kept: Vec<&ProviderId> = listed.filter(|one| one.counts == Counts::No).map(|one| &one.id).collect();
        let kept_in = |group: &Group| -> Vec<String> {
            kept.iter().filter_map(|id| find(group, id)).map(|member| member.id.clone()).collect()
        };
        let late = |world: &World| {
            let group = world.group(name)?;
            let kept = kept_in(group);
            let ids = ids.iter().filter_map(|id| find(group, id)).map(|member| member.id.clone()).collect();
            Some(LateWrite::DeleteInstances { group: name.to_owned(), ids, kept })
        };
        self.call_or_late(kind, name, detail, late, |world, now| {
            // Compared by the whole ID: two scale sets can both have an instance 7.
            let group = world.group(name).ok_or_else(|| errors::not_found(kind, name))?;
            let found: Vec<Option<String>> =
                ids.iter().map(|id| find(group, id).map(|member| member.id.clone())).collect();
            let instances: Vec<&str> = found.iter().flatten().map(String::as_str).collect();
            let kept = kept_in(group);
            let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
            let result = world.delete_instances(now, name, &instances, &kept);
            let result = result.map_err(|refusal| errors::refused(kind, name, refusal))?;
            Ok(deletion(name, ids, &found, result))
        })
        .await
    }
}

#[async_trait]
impl VerifiableCloud for Simulated {
    fn kind_of(&self, reading: &GroupReading) -> String {
        let style = self.world(|world, _| world.group(reading.name.as_str()).map(|group| group.plan().style));
        match style {
            Some(GroupStyle::ScaleSet) => "simulated scale set".to_owned(),
            Some(GroupStyle::AutoScaling) | None => "simulated Auto Scaling group".to_owned(),
        }
    }

    async fn delete_behind(&self, group: &GroupName, id: &ProviderId) -> Result<(), CloudError> {
        let (kind, name) = (CallKind::DeleteInstances, group.as_str());
        self.call(kind, name, id.instance().to_owned(), |world, now| {
            let deleted = world.delete_behind(now, name, id);
            match deleted.map_err(|refusal| errors::refused(kind, name, refusal))? {
                true => Ok(()),
                false => Err(errors::not_found(kind, id.as_str())),
            }
        })
        .await
    }
}

fn handle(group: &str, number: u64) -> OperationHandle {
    OperationHandle(format!("{group}#{number}"))
}

fn find<'a>(group: &'a Group, id: &ProviderId) -> Option<&'a Member> {
    group.members().find(|member| member.provider_id.as_str().eq_ignore_ascii_case(id.as_str()))
}

/// A result in the IDs of the request; `found` holds the cloud's ID of each, if it exists.
fn deletion(group: &str, ids: &[ProviderId], found: &[Option<String>], mut result: DeletionResult) -> Deletion {
    let mut deletion = Deletion { handle: result.operation.map(|number| handle(group, number)), ..Deletion::default() };
    for (id, found) in ids.iter().zip(found) {
        let Some(instance) = found else {
            deletion.already_gone.push(id.clone());
            continue;
        };
        let refusal = result.refused.iter().position(|(refused, _)| refused == instance);
        if let Some(refusal) = refusal {
            let (_, refusal) = result.refused.swap_remove(refusal);
            let error = errors::refused(CallKind::DeleteInstances, id.as_str(), refusal);
            deletion.refused.push((id.clone(), error));
        } else if result.accepted.contains(instance) && !deletion.accepted.contains(id) {
            deletion.accepted.push(id.clone());
        } else {
            deletion.already_gone.push(id.clone());
        }
    }
    deletion
}

fn progress(operation: &Operation) -> Progress {
    match &operation.ending {
        None => Progress::Running { ask_after: Some(ASK_AFTER) },
        Some((_, Ending::Succeeded)) => Progress::Succeeded,
        Some((at, Ending::Failed(failure))) => Progress::Failed(failure.at(*at)),
        Some((_, Ending::Preempted)) => Progress::Preempted,
    }
}
