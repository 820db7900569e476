//! Lists in pages.

use serde_json::{Value, json};

use super::super::http_messages::{HttpResponse, Request};

const TOKEN: &str = "$skiptoken";

/// The requested page of a list; `nextLink` is absolute, built from the request.
///
/// Where names end in ascending numbers, a page begins after the last number of the page before: what is deleted meanwhile
/// hides nothing else.
pub(super) fn page(request: &Request, items: &[Value], size: usize) -> HttpResponse {
    let token: Option<u64> = request.parameter(TOKEN).and_then(|token| token.parse().ok());
    let numbers: Option<Vec<u64>> = items.iter().map(number).collect();
    let numbers = numbers.filter(|numbers| numbers.is_sorted_by(|one, next| one < next));
    let from = match (token, &numbers) {
        (None, _) => 0,
        (Some(last), Some(numbers)) => numbers.partition_point(|number| *number <= last),
        (Some(offset), None) => usize::try_from(offset).unwrap_or(usize::MAX),
    };
    let until = items.len().min(from.saturating_add(size.max(1)));
    let mut body = json!({"value": items.get(from..until).unwrap_or_default()});
    if until < items.len() {
        let token = numbers.map_or(until as u64, |numbers| numbers[until - 1]);
        let kept: Vec<&str> = request.query.split('&').filter(|pair| !is_token(pair)).collect();
        let next = format!("{}{}?{}&%24skiptoken={token}", request.origin(), request.path, kept.join("&"));
        body["nextLink"] = next.into();
    }
    HttpResponse::json(200, &body)
}

/// The number at the end of an item's name.
fn number(item: &Value) -> Option<u64> {
    item["name"].as_str()?.rsplit_once('_')?.1.parse().ok()
}

fn is_token(pair: &str) -> bool {
    super::super::http_messages::decoded(pair).starts_with(TOKEN)
}
