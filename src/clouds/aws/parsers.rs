//! The parsers of what AWS sends, each as a function of any bytes; see [`crate::parsers`].

use std::sync::PoisonError;

use aws_config::meta::region::ProvideRegion as _;
use aws_config::profile::{ProfileFileRegionProvider, profile_file};
use tokio::runtime::Builder;

use super::groups::ids;
use super::launch::{hints, parse_user_data};
use super::replayed::{REPLAYED, Replayed};
use super::sdk::{errors, shared_files, xml};

/// Looks at the raw body of a response.
pub fn body(bytes: &[u8]) {
    let (_complete, _sizes) = (xml::is_complete(bytes), xml::sizes_found(bytes));
    let (_rest, groups) = xml::split_groups(bytes);
    let _names: Vec<_> = groups.into_iter().map(xml::name_of_group).collect();
    for status in [400, 403] {
        let _refused = errors::refuses_credentials(status, bytes);
    }
}

/// Makes a call to Auto Scaling, EC2 or Price List that gets these bytes, after one that chooses the call and the
/// status.
pub fn service_response(bytes: &[u8]) {
    replay(bytes, Replayed::response_of_a_service);
}

/// The same for the metadata service and STS.
pub fn sign_in_response(bytes: &[u8]) {
    replay(bytes, Replayed::response_of_sign_in);
}

fn replay(bytes: &[u8], call: fn(&Replayed, u8, u16, &[u8])) {
    let (Some((first, body)), Some(replayed)) = (bytes.split_first(), REPLAYED.as_ref()) else { return };
    let status = if *first < 0x80 { 200 } else { 400 };
    call(&replayed.lock().unwrap_or_else(PoisonError::into_inner), *first, status, body);
}

/// Reads a shared file of AWS, as the SDK and as the check before it do.
#[expect(deprecated, reason = "the new names are in aws-runtime, which nothing else here needs")]
pub fn shared_file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _named = shared_files::token_files(&text);
    for kind in [profile_file::ProfileFileKind::Config, profile_file::ProfileFileKind::Credentials] {
        let files = profile_file::ProfileFiles::builder().with_contents(kind, text.as_ref()).build();
        let provider = ProfileFileRegionProvider::builder().profile_files(files).build();
        if let Ok(runtime) = Builder::new_current_thread().build() {
            let _region = runtime.block_on(provider.region());
        }
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
