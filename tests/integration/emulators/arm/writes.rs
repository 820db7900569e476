//! Writes to a scale set: a new capacity, and the deletion of named instances.

use headcount::clouds::simulated::{CallKind, Refusal, World};
use serde_json::{Value, json};

use super::super::http_messages::{HandlerResult, HttpResponse, Request};
use super::super::shown::{ShownGroup, look_up, spelled};
use super::behavior::{Etags, MissingInstance, WriteAnswer};
use super::errors::{self, error};
use super::machines::flexible_name;
use super::operations::TrackedOperation;
use super::router::ArmApi;
use super::scale_sets::{location, scale_set};

impl ArmApi {
    /// `PATCH` (or `PUT`) of `sku.capacity`.
    pub(super) async fn resize(&self, request: &Request, name: &str) -> HandlerResult {
        let Some(to) = request.json()["sku"]["capacity"].as_u64().and_then(|to| u32::try_from(to).ok()) else {
            return Ok(error(400, "InvalidRequestContent", "The request has no sku.capacity that is a number."));
        };
        if let Some(quota) = self.exceeded(&self.spelled(name), to) {
            let message =
                format!("Operation could not be completed as it results in exceeding approved {quota} Cores quota.");
            return Ok(error(409, "OperationNotAllowed", &message));
        }
        let if_match = request.header("if-match").filter(|etag| *etag != "*").map(str::to_owned);
        let group = self.spelled(name);
        let detail = format!("→ {to}");
        let act = |world: &mut World, now| {
            let operation = world.set_capacity(now, &group, to, if_match.as_deref())?;
            Ok::<_, Refusal>((operation, look_up(world, &group)))
        };
        let done = self.core.call(CallKind::SetCapacity, Some(&group), detail, errors::call_fault, act).await?;
        let (operation, shown) = match done {
            Ok((operation, Some(shown))) => (operation, shown),
            Ok((_, None)) => return Ok(errors::no_scale_set(name)),
            Err(refusal) => return Ok(errors::refused(&refusal)),
        };
        let response = match self.behavior().write_answer {
            WriteAnswer::Ok => {
                let with_etag = self.behavior().etags != Etags::Nowhere;
                HttpResponse::json(200, &scale_set(&shown, &self.group_details(&group), false, with_etag))
            }
            WriteAnswer::Accepted => HttpResponse::new(202),
        };
        Ok(self.tracked(request, response, location(&shown), TrackedOperation { group, number: operation }))
    }

    /// `POST …/delete`.
    pub(super) async fn delete(&self, request: &Request, name: &str) -> HandlerResult {
        let Some(asked) = request.json()["instanceIds"].as_array().map(|ids| texts(ids)) else {
            return Ok(error(400, "InvalidRequestContent", "The request has no instanceIds."));
        };
        let group = self.spelled(name);
        let (details, behavior) = (self.group_details(&group), self.behavior());
        if details.force_refused && request.parameter("forceDeletion").is_some_and(|force| force == "true") {
            let message = "The operation 'ForceDelete' is not allowed on this resource. Retry without forceDeletion.";
            return Ok(error(409, "OperationNotAllowed", message));
        }
        let act = |world: &mut World, now| {
            let Some(shown) = look_up(world, &group) else { return Err(errors::no_scale_set(name)) };
            let (found, missing) = resolve(&shown, details.flexible, &asked);
            if let Some(refusal) = missing.first().and_then(|id| about_missing(behavior.missing_instance, id)) {
                return Err(refusal);
            }
            let ids: Vec<&str> = found.iter().map(String::as_str).collect();
            let result = world.delete_instances(now, &group, &ids, &[]).map_err(|refusal| errors::refused(&refusal))?;
            Ok((result.operation, shown))
        };
        let kind = CallKind::DeleteInstances;
        let done = self.core.call(kind, Some(&group), asked.join(" "), errors::call_fault, act).await?;
        Ok(match done {
            Ok((number, shown)) => {
                let operation = TrackedOperation { group: group.clone(), number };
                self.tracked(request, HttpResponse::new(202), location(&shown), operation)
            }
            Err(response) => response,
        })
    }

    /// `DELETE` of a machine by itself. Its scale set keeps its capacity.
    pub(super) async fn delete_machine(&self, request: &Request, name: &str) -> HandlerResult {
        let flexible: Vec<String> = self.core.simulated.world(|world, _| {
            let groups = world.groups().map(|group| group.name().to_owned());
            groups.filter(|group| self.group_details(group).flexible).collect()
        });
        let act = |world: &mut World, now| {
            let found = flexible.iter().find_map(|name_of_set| {
                let members = world.group(name_of_set)?.members();
                let mut called = members.filter(|one| flexible_name(name_of_set, &one.id).eq_ignore_ascii_case(name));
                called.next().map(|one| (name_of_set.clone(), one.provider_id.clone()))
            });
            found.is_some_and(|(set, id)| world.delete_behind(now, &set, &id).unwrap_or(false))
        };
        let kind = CallKind::DeleteInstances;
        let is_deleted = self.core.call(kind, None, name.to_owned(), errors::call_fault, act).await?;
        Ok(if is_deleted {
            HttpResponse::new(202)
        } else {
            let message = format!("The resource '{name}' was not found ({}).", request.path);
            error(404, "ResourceNotFound", &message)
        })
    }

    fn spelled(&self, name: &str) -> String {
        self.core.simulated.world(|world, _| spelled(world, name)).unwrap_or_else(|| name.to_owned())
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The requested instances that exist, and the IDs that do not. `*` means all instances, as in ARM.
fn resolve(group: &ShownGroup, flexible: bool, asked: &[String]) -> (Vec<String>, Vec<String>) {
    if asked.iter().any(|id| id == "*") {
        return (group.instances.iter().map(|instance| instance.id.clone()).collect(), Vec::new());
    }
    let called = |id: &str| if flexible { flexible_name(group.name(), id) } else { id.to_owned() };
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for id in asked {
        match group.instances.iter().find(|instance| called(&instance.id).eq_ignore_ascii_case(id)) {
            Some(instance) => found.push(instance.id.clone()),
            None => missing.push(id.clone()),
        }
    }
    (found, missing)
}

fn about_missing(habit: MissingInstance, id: &str) -> Option<HttpResponse> {
    let message = format!("The provided instanceId {id} is not an active Virtual Machine Scale Set VM instanceId.");
    match habit {
        MissingInstance::Tolerated => None,
        MissingInstance::NotFound => Some(error(404, "ResourceNotFound", &message)),
        MissingInstance::Invalid => {
            let body = json!({"error": {"code": "InvalidParameter", "message": message, "target": "instanceIds"}});
            Some(HttpResponse::json(400, &body))
        }
    }
}
