//! The parsers of what AWS sends, each as a function of any bytes; see [`crate::parsers`].

use super::groups::ids;
use super::launch::{hints, parse_user_data};
use super::sdk::{errors, xml};

/// Looks at the raw body of a response.
pub fn body(bytes: &[u8]) {
    let (_complete, _sizes) = (xml::is_complete(bytes), xml::sizes_found(bytes));
    for status in [400, 403] {
        let _refused = errors::refuses_credentials(status, bytes);
    }
}

/// Reads user data: base64, gzip, MIME, shell, nodeadm and Bottlerocket.
pub fn user_data(bytes: &[u8]) {
    parse_user_data(&aws_smithy_types::base64::encode(bytes));
    parse_user_data(&String::from_utf8_lossy(bytes));
}

/// Reads the tags of a group, one `key=value` in a line.
pub fn tags(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let tags = text.lines().map(|line| line.split_once('=').unwrap_or((line, "")));
    let mut warnings = Vec::new();
    let _hints = hints(tags, &mut warnings);
}

/// Reads a provider ID.
pub fn provider_id(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ours = ids::recognise("us-east-1", &text);
    let _instance = ids::instance_of(&text.as_ref().into());
}
