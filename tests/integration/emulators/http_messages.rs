//! The requests and responses of an emulator.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::Value;

/// A request, as it is recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// `http` or `https`
    pub(crate) scheme: &'static str,
    pub(crate) method: String,
    pub(crate) path: String,
    /// As it was sent, percent-encoded.
    pub(crate) query: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// When it arrived, since the emulator started.
    pub(crate) at: Duration,
    /// The status of its response; `None` before the response and after a cut connection.
    pub(crate) status: Option<u16>,
}

impl Request {
    /// A header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Scheme and host, as the client sent them.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.header("host").unwrap_or_default())
    }

    /// A parameter of the query, decoded.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        pairs(&self.query).find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// A field of the form in the body, decoded.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        pairs(&self.body).find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The fields `prefix.1`, `prefix.2` and so on of the form in the body.
    pub(crate) fn fields(&self, prefix: &str) -> Vec<String> {
        (1..).map_while(|number| self.field(&format!("{prefix}.{number}"))).collect()
    }

    /// The body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Whether it has this method, and this text in path, query or body.
    pub(crate) fn matches(&self, method: &str, part: &str) -> bool {
        let holds = |text: &str| text.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
        self.method == method && (holds(&format!("{}?{}", self.path, self.query)) || holds(&self.body))
    }
}

/// A response.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl HttpResponse {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::new(status).header("content-type", "application/json; charset=utf-8").body(body.to_string())
    }

    pub(crate) fn xml(status: u16, body: String) -> Self {
        Self::new(status).header("content-type", "text/xml").body(body)
    }

    pub(crate) fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    pub(super) fn into_http(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).expect("a status");
        for (name, value) in self.headers {
            let name = axum::http::HeaderName::try_from(name).expect("a header's name");
            response.headers_mut().append(name, value.try_into().expect("a header's value"));
        }
        response
    }
}

/// Why a call does not get its regular response.
#[derive(Clone, Debug)]
pub(super) enum Interruption {
    /// It gets another response.
    Response(HttpResponse),
    /// It gets no response: the connection is cut.
    ConnectionCut,
}

impl From<HttpResponse> for Interruption {
    fn from(answer: HttpResponse) -> Self {
        Self::Response(answer)
    }
}

/// The result of handling a request.
pub(super) type HandlerResult = Result<HttpResponse, Interruption>;

/// The pairs of a query or a form, decoded.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(key), decoded(value))
    })
}

/// Percent-decodes a text of a query, a form or a path.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match (first, hex.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (byte, _) => {
                bytes.push(if *byte == b'+' { b' ' } else { *byte });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn queries_and_forms_are_decoded() {
    let request = Request {
        query: "api-version=1&%24filter=location+eq%20%27eastus%27&odd=%zz%4".to_owned(),
        body: "Names.member.1=a%2Fb&Names.member.2=c".to_owned(),
        ..Request::default()
    };
    assert_eq!(request.parameter("$filter").as_deref(), Some("location eq 'eastus'"));
    assert_eq!(request.parameter("odd").as_deref(), Some("%zz%4"));
    assert_eq!(request.fields("Names.member"), ["a/b", "c"]);
}
