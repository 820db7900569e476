//! Lists in pages.

use serde_json::{Value, json};

use super::super::http_messages::{HttpResponse, Request};

const TOKEN: &str = "$skiptoken";

/// The requested page of a list; `nextLink` is absolute, built from the request.
pub(super) fn page(request: &Request, items: &[Value], size: usize) -> HttpResponse {
    let from = request.parameter(TOKEN).and_then(|token| token.parse().ok()).unwrap_or(0);
    let until = items.len().min(from + size.max(1));
    let mut body = json!({"value": items.get(from..until).unwrap_or_default()});
    if until < items.len() {
        let kept: Vec<&str> = request.query.split('&').filter(|pair| !is_token(pair)).collect();
        let next = format!("{}{}?{}&%24skiptoken={until}", request.origin(), request.path, kept.join("&"));
        body["nextLink"] = next.into();
    }
    HttpResponse::json(200, &body)
}

fn is_token(pair: &str) -> bool {
    super::super::http_messages::decoded(pair).starts_with(TOKEN)
}
