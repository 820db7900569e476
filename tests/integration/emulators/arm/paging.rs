//! Lists in pages.

use serde_json::{Value, json};

use super::super::http_messages::{HttpResponse, Request};
use super::behavior::Behavior;

const TOKEN: &str = "$skiptoken";

/// The requested page of a list; `nextLink` is absolute, built from the request.
///
/// Where names end in ascending numbers, a page begins after the last number of the page before: what is deleted
/// meanwhile hides nothing else.
pub(super) fn page(request: &Request, items: &[Value], behavior: &Behavior) -> HttpResponse {
    let token: Option<u64> = request.parameter(TOKEN).and_then(|token| token.parse().ok());
    let numbers: Option<Vec<u64>> = items.iter().map(number).collect();
    let numbers = numbers.filter(|numbers| numbers.is_sorted_by(|one, next| one < next));
    let from = match (token, &numbers) {
        (None, _) => 0,
        (Some(last), Some(numbers)) => numbers.partition_point(|number| *number <= last),
        (Some(offset), None) => usize::try_from(offset).unwrap_or(usize::MAX),
    };
    let until = items.len().min(from.saturating_add(behavior.page.max(1)));
    let mut body = json!({"value": items.get(from..until).unwrap_or_default()});
    if until < items.len() {
        let token = numbers.map_or(until as u64, |numbers| numbers[until - 1]);
        body["nextLink"] = format!("{}&%24skiptoken={token}", first(request)).into();
    } else if behavior.circles.iter().any(|end| request.path.to_ascii_lowercase().ends_with(end)) {
        body["nextLink"] = first(request).into();
    }
    HttpResponse::json(200, &body)
}

/// The link to the first page.
fn first(request: &Request) -> String {
    let kept: Vec<&str> = request.query.split('&').filter(|pair| !is_token(pair)).collect();
    format!("{}{}?{}", request.origin(), request.path, kept.join("&"))
}

/// The number at the end of an item's name.
fn number(item: &Value) -> Option<u64> {
    item["name"].as_str()?.rsplit_once('_')?.1.parse().ok()
}

fn is_token(pair: &str) -> bool {
    super::super::http_messages::decoded(pair).starts_with(TOKEN)
}
