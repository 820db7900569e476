//! SetDesiredCapacity and TerminateInstanceInAutoScalingGroup.

use headcount::clouds::simulated::{Activity, ActivityKind, CallKind, Group, World};

use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::activities::zones;
use super::behavior::Busy;
use super::errors::{self, error};
use super::router::{AwsApi, Service};
use super::xml::{element, members, scaling_answer};

const TERMINATE: &str = "TerminateInstanceInAutoScalingGroup";

impl AwsApi {
    pub(super) async fn set_desired_capacity(&self, request: &Request) -> HandlerResult {
        let name = request.field("AutoScalingGroupName").unwrap_or_default();
        let Some(units) = request.field("DesiredCapacity").and_then(|text| text.parse::<u32>().ok()) else {
            return Ok(error(400, "ValidationError", "1 validation error detected: desiredCapacity is null"));
        };
        let of = |world: &World| world.group(&name).map_or(1, |group| group.plan().units_per_node.max(1));
        let to = units.div_ceil(self.core.simulated.world(|world, _| of(world)));
        let done =
            self.call(Service::AutoScaling, CallKind::SetCapacity, Some(&name), format!("→ {to}"), |world, now| {
                world.group(&name)?;
                Some(world.set_capacity(now, &name, to, None))
            });
        Ok(match done.await? {
            None => errors::no_group(&name),
            Some(Ok(_)) => HttpResponse::xml(200, scaling_answer("SetDesiredCapacity", "")),
            Some(Err(refusal)) => errors::refused(&refusal, self.behavior().busy),
        })
    }

    pub(super) async fn terminate(&self, request: &Request) -> HandlerResult {
        let Some(decrement) = request.field("ShouldDecrementDesiredCapacity").map(|text| text == "true") else {
            return Ok(error(
                400,
                "ValidationError",
                "1 validation error detected: shouldDecrementDesiredCapacity is null",
            ));
        };
        let behavior = self.behavior();
        let several = request.fields("InstanceIds.member");
        if !behavior.batch_terminate || several.is_empty() {
            return self.terminate_one(request, decrement, behavior.busy).await;
        }
        let name = request.field("AutoScalingGroupName").unwrap_or_default();
        let act = |world: &mut World, now| {
            check_batch(world, &name, &several, decrement)?;
            let (mut accepted, mut refusal) = (Vec::new(), None);
            for id in &several {
                match world.terminate(now, &name, id, decrement) {
                    Ok(_) => accepted.extend(world.group(&name).and_then(|group| termination(group, id))),
                    Err(why) => refusal = refusal.or_else(|| Some(errors::refused(&why, behavior.busy))),
                }
            }
            match refusal {
                Some(refusal) if accepted.is_empty() => Err(refusal),
                _ => Ok(accepted),
            }
        };
        let kind = CallKind::DeleteInstances;
        let done = self.call(Service::AutoScaling, kind, Some(&name), several.join(" "), act).await?;
        Ok(match done {
            Ok(accepted) => {
                let details = self.group_details(&name);
                let shown = accepted.iter().map(|(activity, zones)| self.activity(&name, activity, zones, &details));
                HttpResponse::xml(200, scaling_answer(TERMINATE, members("Activities", shown)))
            }
            Err(response) => response,
        })
    }

    async fn terminate_one(&self, request: &Request, decrement: bool, busy: Busy) -> HandlerResult {
        let Some(id) = request.field("InstanceId") else {
            let message = "1 validation error detected: Value null at 'instanceId' failed to satisfy constraint: \
                           Member must not be null";
            return Ok(error(400, "ValidationError", message));
        };
        let of = |world: &World| world.group_of(&id).map(|group| group.name().to_owned());
        let group = self.core.simulated.world(|world, _| of(world));
        let kind = CallKind::DeleteInstances;
        let done = self.call(Service::AutoScaling, kind, group.as_deref(), id.clone(), |world, now| {
            let name = of(world).ok_or_else(|| errors::no_instance(&id))?;
            world.terminate(now, &name, &id, decrement).map_err(|refusal| errors::refused(&refusal, busy))?;
            Ok::<_, HttpResponse>((world.group(&name).and_then(|group| termination(group, &id)), name))
        });
        Ok(match done.await? {
            Ok((activity, name)) => {
                let shown = activity
                    .map(|(activity, zones)| self.activity(&name, &activity, &zones, &self.group_details(&name)));
                let shown = shown.map(|shown| element("Activity", shown)).unwrap_or_default();
                HttpResponse::xml(200, scaling_answer(TERMINATE, shown))
            }
            Err(response) => response,
        })
    }
}

/// Refuses a batch that AWS refuses as a whole.
fn check_batch(world: &World, name: &str, ids: &[String], decrement: bool) -> Result<(), HttpResponse> {
    let Some(group) = world.group(name) else { return Err(errors::no_group(name)) };
    let listed = |id: &&String| group.members().any(|member| member.id == **id);
    if let Some(missing) = ids.iter().find(|id| !listed(id)) {
        return Err(errors::no_instance(missing));
    }
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    if decrement && group.capacity() < group.plan().min.saturating_add(count) {
        let message = format!(
            "Currently, desiredSize equals minSize ({}). Terminating instance without replacement will violate group's \
             min size constraint.",
            group.plan().min
        );
        return Err(error(400, "ValidationError", &message));
    }
    Ok(())
}

fn termination(group: &Group, id: &str) -> Option<(Activity, Vec<String>)> {
    let about =
        |activity: &&Activity| activity.kind == ActivityKind::Terminate && activity.instance.as_deref() == Some(id);
    group.activities().find(about).map(|activity| (activity.clone(), zones(group)))
}
