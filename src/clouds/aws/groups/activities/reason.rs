//! Why a launch failed, from the text of its activity: AWS's code, or EC2's code for a message without one.

use super::super::super::sdk::errors::is_known;

/// The code of a failed launch whose message gives no known reason.
const NO_CODE: &str = "LaunchFailed";

/// The text of a launch that a lifecycle hook abandoned.
const ABANDONED: [&str; 2] = ["lifecycle action", "abandon"];

/// Messages without a code, each with EC2's code for it. A message must contain all of the words, compared in lower
/// case.
const PROSE: [(&[&str], &str); 24] = [
    (&["do not have sufficient", "capacity"], "InsufficientInstanceCapacity"),
    (&["no spot capacity"], "InsufficientInstanceCapacity"),
    (&["insufficient capacity"], "InsufficientInstanceCapacity"),
    (&["max spot instance count exceeded"], "MaxSpotInstanceCountExceeded"),
    (&["vcpu limit"], "VcpuLimitExceeded"),
    (&["instance limit"], "InstanceLimitExceeded"),
    // "Your quota allows for 0 more running instance(s). You requested at least 1"
    (&["quota allows for", "running instance"], "InstanceLimitExceeded"),
    (&["free addresses"], "InsufficientFreeAddressesInSubnet"),
    (&["volume limit exceeded"], "VolumeLimitExceeded"),
    (&["spot", "price", "lower than the minimum"], "SpotMaxPriceTooLow"),
    (&["capacity reservation"], "ReservationCapacityExceeded"),
    (&["reservation", "sufficient compatible and available capacity"], "ReservationCapacityExceeded"),
    (&["quota for maximum fleet requests"], "MaxFleetCountExceeded"),
    (&ABANDONED, "LifecycleActionAbandoned"),
    (&["not authorized"], "UnauthorizedOperation"),
    (&["launch template", "does not exist"], "InvalidLaunchTemplateId.NotFound"),
    (&["image id", "does not exist"], "InvalidAMIID.NotFound"),
    (&[" ami ", "invalid"], "InvalidAMIID.Unavailable"),
    (&["security group", "does not exist"], "InvalidGroup.NotFound"),
    (&["key pair", "does not exist"], "InvalidKeyPair.NotFound"),
    (&["subnet id", "does not exist"], "InvalidSubnetID.NotFound"),
    (&["not supported in your requested availability zone"], "Unsupported"),
    (&["requested configuration is currently not supported"], "Unsupported"),
    (&["request limit exceeded"], "RequestLimitExceeded"),
];

/// An instance that a user stopped is not a failed launch.
const STOPPED: [&str; 3] =
    ["Client.UserInitiatedShutdown", "Client.UserInitiatedHibernate", "Client.InstanceInitiatedShutdown"];

pub(super) fn died_at_start(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    termination_reason(text).is_some_and(|code| !STOPPED.contains(&code))
        || ABANDONED.iter().all(|word| lower.contains(word))
}

/// EC2's code for why it terminated the instance: "… Termination Reason: Client.InvalidKMSKey.InvalidState: The KMS key
/// …".
pub(super) fn termination_reason(text: &str) -> Option<&str> {
    let (_, reason) = text.split_once("Termination Reason:")?;
    let code = reason.trim_start().split(|letter: char| !is_of_code(letter)).next()?.trim_end_matches('.');
    let (side, name) = code.split_once('.')?;
    (matches!(side, "Client" | "Server") && !name.is_empty()).then_some(code)
}

fn is_of_code(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '.' || letter == '_'
}

/// AWS's code for a failed launch: the one in the message, or EC2's code for the text of the message.
pub(super) fn code_of(message: &str) -> String {
    let tokens = || {
        message
            .split(|letter: char| !is_of_code(letter))
            .map(|token| token.trim_matches(|letter| letter == '.' || letter == '_'))
            .filter(|token| !token.is_empty())
    };
    if let Some(known) = tokens().find(|token| is_known(token)) {
        return known.to_owned();
    }
    if let Some(dotted) = tokens().find(|token| is_dotted_code(token)) {
        return dotted.to_owned();
    }
    // "SomeNewCode - what it means"
    let before_dash = message.split_once(" - ").and_then(|(before, _)| before.split_whitespace().next_back());
    if let Some(code) = before_dash.filter(|token| is_camel_case(token)) {
        return code.to_owned();
    }
    let text = format!(" {} ", message.to_ascii_lowercase());
    let prose = PROSE.iter().find(|(words, _)| words.iter().all(|word| text.contains(word)));
    prose.map_or(NO_CODE, |(_, code)| code).to_owned()
}

// InvalidAMIID.NotFound, Client.InternalError, Client.InvalidKMSKey.InvalidState; not ec2.amazonaws.com, nor the end of
// one sentence and start of the next.
fn is_dotted_code(whole: &str) -> bool {
    let token =
        whole.strip_prefix("Client.").or_else(|| whole.strip_prefix("Server.")).filter(|rest| rest.contains('.'));
    let mut parts = token.unwrap_or(whole).split('.');
    let (Some(first), Some(second), None) = (parts.next(), parts.next(), parts.next()) else { return false };
    is_camel_case(second) && (is_camel_case(first) || matches!(first, "Client" | "Server"))
        || (is_camel_case(first) && matches!(second, "Malformed" | "Unavailable" | "Duplicate"))
}

fn is_camel_case(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_ascii_uppercase())
        && token.chars().all(|letter| letter.is_ascii_alphanumeric())
        && token.chars().any(|letter| letter.is_ascii_lowercase())
        && token.chars().filter(char::is_ascii_uppercase).count() > 1
}
