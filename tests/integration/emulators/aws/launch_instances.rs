//! LaunchInstances, as documented: synchronous, in part, and once for each token.

use headcount::cloud::LaunchRequest;
use headcount::clouds::simulated::{CallKind, Group, LaunchAnswer};

use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::errors::{self, error};
use super::router::{AwsApi, Service};
use super::xml::{members, scaling_answer, text};

mod tests;

const ACTION: &str = "LaunchInstances";

impl AwsApi {
    pub(super) async fn launch_instances(&self, request: &Request) -> HandlerResult {
        let name = request.field("AutoScalingGroupName").unwrap_or_default();
        let units = request.field("RequestedCapacity").and_then(|text| text.parse::<u32>().ok());
        let (Some(units), Some(token)) = (units, request.field("ClientToken")) else {
            let message = "1 validation error detected: requestedCapacity or clientToken is null";
            return Ok(error(400, "ValidationError", message));
        };
        if let Some((code, message)) = self.group_details(&name).launch_obstacle() {
            return Ok(error(400, code, message));
        }
        let zone = request.field("AvailabilityZones.member.1");
        let weight = |group: &Group| group.plan().units_per_node.max(1);
        let begun =
            self.call(Service::AutoScaling, CallKind::Launch, Some(&name), format!("+{units}"), |world, now| {
                let number = units / weight(world.group(&name)?);
                let is_under_way = world.is_launching(&name, &token);
                let launch = LaunchRequest { number, token: token.clone(), zone: zone.clone() };
                Some((is_under_way, world.launch(now, &name, &launch)))
            });
        let ends = match begun.await? {
            None => return Ok(errors::no_group(&name)),
            Some((true, _)) => {
                let message = "A request with this client token is in progress.";
                return Ok(error(400, "IdempotentCallInProgress", message));
            }
            Some((false, Err(refusal))) => return Ok(errors::refused(&refusal, self.behavior().busy)),
            Some((false, Ok(ends))) => ends,
        };
        let left = |now: std::time::Duration| ends.saturating_sub(now);
        tokio::time::sleep(left(self.core.simulated.elapsed())).await;
        let answer = self.core.simulated.world(|world, _| world.launch_answer(&name, &token));
        let first = || self.core.simulated.world(|world, _| world.group(&name)?.plan().zones.first().cloned());
        let zone = zone.or_else(first);
        Ok(match answer {
            Some(answer) => {
                HttpResponse::xml(200, scaling_answer(ACTION, shown(&name, &token, &zone.unwrap_or_default(), &answer)))
            }
            None => errors::no_group(&name),
        })
    }
}

fn shown(group: &str, token: &str, zone: &str, answer: &LaunchAnswer) -> String {
    let launched = [
        text("InstanceType", "m5.large"),
        text("MarketType", "OnDemand"),
        text("AvailabilityZone", zone),
        members("InstanceIds", answer.instances.clone()),
    ];
    let launched = Some(launched.concat()).filter(|_| !answer.instances.is_empty());
    let failed = answer.failures.iter().map(|failure| {
        let at = text("InstanceType", "m5.large") + &text("AvailabilityZone", zone);
        at + &text("ErrorCode", &failure.code) + &text("ErrorMessage", &failure.message)
    });
    [
        text("AutoScalingGroupName", group),
        text("ClientToken", token),
        members("Instances", launched),
        members("Errors", failed),
    ]
    .concat()
}
