//! What changes a scale set: a new capacity, and the deletion of named instances.

use headcount::clouds::simulated::{CallKind, Refusal, World};
use serde_json::Value;

use super::super::exchange::{Answer, Outcome, Request};
use super::super::sight::{Sight, look_up, spelled};
use super::errors::{self, error};
use super::front::Window;
use super::habits::{MissingInstance, WriteAnswer};
use super::machines::flexible_name;
use super::operations::Ticket;
use super::scale_sets::{location, scale_set};

impl Window {
    /// `PATCH` (or `PUT`) of `sku.capacity`.
    pub(super) async fn resize(&self, request: &Request, name: &str) -> Outcome {
        let Some(to) = request.json()["sku"]["capacity"].as_u64().and_then(|to| u32::try_from(to).ok()) else {
            return Ok(error(400, "InvalidRequestContent", "The request has no sku.capacity that is a number."));
        };
        let if_match = request.header("if-match").filter(|etag| *etag != "*").map(str::to_owned);
        let group = self.spelled(name);
        let detail = format!("→ {to}");
        let act = |world: &mut World, now| {
            let operation = world.set_capacity(now, &group, to, if_match.as_deref())?;
            Ok::<_, Refusal>((operation, look_up(world, &group)))
        };
        let done = self.backstage.call(CallKind::SetCapacity, Some(&group), detail, errors::mishap, act).await?;
        let (operation, sight) = match done {
            Ok((operation, Some(sight))) => (operation, sight),
            Ok((_, None)) => return Ok(errors::no_scale_set(name)),
            Err(refusal) => return Ok(errors::refused(&refusal)),
        };
        let answer = match self.habits().write_answer {
            WriteAnswer::Ok => Answer::json(200, &scale_set(&sight, &self.look(&group), false, true)),
            WriteAnswer::Accepted => Answer::new(202),
        };
        Ok(self.tracked(request, answer, location(&sight), Ticket { group, number: operation }))
    }

    /// `POST …/delete`.
    pub(super) async fn delete(&self, request: &Request, name: &str) -> Outcome {
        let Some(asked) = request.json()["instanceIds"].as_array().map(|ids| texts(ids)) else {
            return Ok(error(400, "InvalidRequestContent", "The request has no instanceIds."));
        };
        let group = self.spelled(name);
        let (look, habits) = (self.look(&group), self.habits());
        if look.force_refused && request.parameter("forceDeletion").is_some_and(|force| force == "true") {
            let message = "The operation 'ForceDelete' is not allowed on this resource. Retry without forceDeletion.";
            return Ok(error(409, "OperationNotAllowed", message));
        }
        let act = |world: &mut World, now| {
            let Some(sight) = look_up(world, &group) else { return Err(errors::no_scale_set(name)) };
            let (found, missing) = resolve(&sight, look.flexible, &asked);
            if let Some(refusal) = missing.first().and_then(|id| about_missing(habits.missing_instance, id)) {
                return Err(refusal);
            }
            let ids: Vec<&str> = found.iter().map(String::as_str).collect();
            let receipt = world.delete_instances(now, &group, &ids).map_err(|refusal| errors::refused(&refusal))?;
            Ok((receipt.operation, sight))
        };
        let kind = CallKind::DeleteInstances;
        let done = self.backstage.call(kind, Some(&group), asked.join(" "), errors::mishap, act).await?;
        Ok(match done {
            Ok((number, sight)) => {
                let ticket = Ticket { group: group.clone(), number };
                self.tracked(request, Answer::new(202), location(&sight), ticket)
            }
            Err(answer) => answer,
        })
    }

    fn spelled(&self, name: &str) -> String {
        self.backstage.simulated.world(|world, _| spelled(world, name)).unwrap_or_else(|| name.to_owned())
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The instances that are meant, and the IDs that mean none. `*` means all of them, as it does at ARM.
fn resolve(sight: &Sight, flexible: bool, asked: &[String]) -> (Vec<String>, Vec<String>) {
    if asked.iter().any(|id| id == "*") {
        return (sight.instances.iter().map(|seen| seen.id.clone()).collect(), Vec::new());
    }
    let called = |id: &str| if flexible { flexible_name(sight.name(), id) } else { id.to_owned() };
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for id in asked {
        match sight.instances.iter().find(|seen| called(&seen.id).eq_ignore_ascii_case(id)) {
            Some(seen) => found.push(seen.id.clone()),
            None => missing.push(id.clone()),
        }
    }
    (found, missing)
}

fn about_missing(habit: MissingInstance, id: &str) -> Option<Answer> {
    let message = format!("The provided instanceId {id} is not an active Virtual Machine Scale Set VM instanceId.");
    match habit {
        MissingInstance::Tolerated => None,
        MissingInstance::NotFound => Some(error(404, "ResourceNotFound", &message)),
        MissingInstance::Invalid => Some(error(400, "InvalidParameter", &message)),
    }
}
