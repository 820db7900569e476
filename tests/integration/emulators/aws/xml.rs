//! The XML of the Query protocol.

use std::fmt::{Display, Write};

/// An element around XML.
pub(super) fn element(name: &str, content: impl AsRef<str>) -> String {
    format!("<{name}>{}</{name}>", content.as_ref())
}

/// An element around text.
pub(super) fn text(name: &str, value: impl Display) -> String {
    let mut escaped = String::new();
    for letter in value.to_string().chars() {
        let _into_a_string = match letter {
            '&' => escaped.write_str("&amp;"),
            '<' => escaped.write_str("&lt;"),
            '>' => escaped.write_str("&gt;"),
            '"' => escaped.write_str("&quot;"),
            other => escaped.write_char(other),
        };
    }
    element(name, escaped)
}

/// The same, if there is a value.
pub(super) fn perhaps<T: Display>(name: &str, value: Option<T>) -> String {
    value.map(|value| text(name, value)).unwrap_or_default()
}

/// EC2 Auto Scaling's lists.
pub(super) fn members(name: &str, items: impl IntoIterator<Item = String>) -> String {
    element(name, items.into_iter().map(|item| element("member", item)).collect::<String>())
}

/// EC2's lists.
pub(super) fn items(name: &str, items: impl IntoIterator<Item = String>) -> String {
    element(name, items.into_iter().map(|item| element("item", item)).collect::<String>())
}

/// EC2 Auto Scaling's response to an action.
pub(super) fn scaling_answer(action: &str, result: impl AsRef<str>) -> String {
    let result = element(&format!("{action}Result"), result);
    let metadata = element("ResponseMetadata", text("RequestId", "00000000-0000-4000-9000-000000000001"));
    format!(
        "<{action}Response xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\">{result}{metadata}\
         </{action}Response>"
    )
}

/// EC2's response to an action.
pub(super) fn ec2_answer(action: &str, result: impl AsRef<str>) -> String {
    let id = text("requestId", "00000000-0000-4000-9000-000000000001");
    format!(
        "<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">{id}{}</{action}Response>",
        result.as_ref()
    )
}
