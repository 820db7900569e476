use std::cmp::Reverse;
use std::time::Duration;

use aws_sdk_autoscaling::primitives::DateTime;
use aws_sdk_autoscaling::types::ScalingActivityStatusCode;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::launch::LAUNCHING;
use super::reason::code_of;
use super::*;
use crate::cloud::text::MESSAGE_CHARS_MAX;
use crate::properties::{config, pieces};

const STATUS: [&str; 5] = ["Failed", "Cancelled", "Successful", "PreInService", "SomethingNew"];
const TEXT: [&str; 12] = [
    LAUNCHING,
    "Terminating EC2 instance",
    ": i-0ab",
    "Status Reason:",
    "Termination Reason:",
    " - ",
    ".",
    "InvalidAMIID.NotFound",
    "Server.",
    "Client.InternalError",
    "vCPU limit",
    "free addresses",
];

fn activity() -> impl Strategy<Value = Activity> {
    let texts = (option::of(pieces(&TEXT)), option::of(pieces(&TEXT)));
    let status = option::weighted(0.95, proptest::sample::select(&STATUS[..]));
    let time = option::of(prop_oneof![4 => 0..4_000_000_000_i64, 1 => any::<i64>()]);
    (texts, status, time, any::<bool>()).prop_map(|((description, message), status, time, is_launch)| {
        let description = description.map(|text| if is_launch { format!("{LAUNCHING}{text}") } else { text });
        Activity::builder()
            .set_description(description)
            .set_status_message(message)
            .set_status_code(status.map(ScalingActivityStatusCode::from))
            .set_start_time(time.map(DateTime::from_secs))
            .build()
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_launch_is_never_both_failed_and_under_way(
        activities in vec(activity(), 0..20),
        zones in vec(proptest::sample::select(&["a", "b"][..]), 0..3),
    ) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        let shortfall = Shortfall { missing: 1, since: now };
        let zones: Vec<String> = zones.into_iter().map(str::to_owned).collect();
        let told = launches(&activities, &zones, shortfall, now);
        let begun = activities.iter().filter(|activity| is_launch(activity)).count();
        prop_assert!(told.failures.len() + told.under_way as usize <= begun);
        prop_assert!(told.failures.is_sorted_by_key(|failure| Reverse(failure.at)), "the newest first");
        for failure in &told.failures {
            prop_assert!(!failure.code.is_empty(), "CA drops an error without a code");
            prop_assert!(failure.message.chars().count() <= MESSAGE_CHARS_MAX, "{}", failure.message);
        }
    }

    #[test]
    fn a_code_is_one_word(message in pieces(&TEXT)) {
        let code = code_of(&message);
        prop_assert!(!code.is_empty() && !code.contains(char::is_whitespace), "{:?} of {:?}", code, message);
    }
}
