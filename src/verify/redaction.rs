//! Takes out of a cloud's texts what could name an account, a group or anything else of its owner.
//!
//! Only what is known to be harmless stays: words that clouds use in messages, short numbers, times, instance types and
//! zones. A name that is made of such words is taken out because readings showed it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::limits::TEXT_CHARS_MAX;

/// The words that stay.
static WORDS: LazyLock<BTreeSet<&str>> =
    LazyLock::new(|| include_str!("redaction_words.txt").split_ascii_whitespace().collect());

/// Segments of provider IDs that name nothing of their owner.
const COMMON: [&str; 8] = [
    "subscriptions",
    "resourcegroups",
    "providers",
    "microsoft.compute",
    "virtualmachinescalesets",
    "virtualmachines",
    "aws:",
    "azure:",
];
/// Shorter segments are numbers of VMs and the like: they would take out too much, and name nothing.
const NAME_CHARS_MIN: usize = 3;
/// The most names that are known: those of the group, and of every instance that a run can see.
const NAMES_MAX: usize = 256;
/// Longer numbers can be those of accounts.
const DIGITS_MAX: usize = 6;

/// The ends of the names of AWS's instance types.
const SIZES: [&str; 7] = ["nano", "micro", "small", "medium", "large", "xlarge", "metal"];
/// The parts of the names of AWS's regions that are no country and no number.
const DIRECTIONS: [&str; 9] =
    ["north", "south", "east", "west", "central", "northeast", "southeast", "northwest", "southwest"];

/// The names that were seen so far.
#[derive(Debug, Default)]
pub(super) struct Redaction {
    /// In lower case.
    names: BTreeSet<String>,
}

impl Redaction {
    /// Takes this name, or each part of this provider ID, out from now on.
    pub(super) fn hide(&mut self, name: &str) {
        for part in name.to_lowercase().split('/') {
            let is_name = part.chars().count() >= NAME_CHARS_MIN && !COMMON.contains(&part) && !is_zone(part);
            if is_name && self.names.len() < NAMES_MAX {
                self.names.insert(part.to_owned());
            }
        }
    }

    /// The text without anything that could be a name.
    pub(super) fn of(&self, text: &str) -> String {
        let unquoted = without_quotations(text);
        let words: Vec<String> = unquoted.split_whitespace().map(|word| self.word(word)).collect();
        words.join(" ").chars().take(TEXT_CHARS_MAX).collect()
    }

    fn word(&self, word: &str) -> String {
        let is_edge = |letter: char| "()[]{}<>.,;:!?".contains(letter);
        if word == QUOTATION {
            return word.to_owned();
        }
        let from_start = word.trim_start_matches(is_edge);
        let core = from_start.trim_end_matches(is_edge);
        let (before, after) = (&word[..word.len() - from_start.len()], &from_start[core.len()..]);
        format!("{before}{}{after}", self.core(core))
    }

    fn core<'a>(&self, core: &'a str) -> &'a str {
        let lower = core.to_lowercase();
        if core.is_empty() {
            core
        } else if lower.starts_with("arn:") {
            "[arn]"
        } else if is_guid(core) {
            "[guid]"
        } else if self.names.iter().any(|name| lower.contains(name.as_str())) || !is_harmless(core) {
            "[name]"
        } else {
            core
        }
    }
}

/// What replaces a quotation.
const QUOTATION: &str = "[name]";

/// The text with one placeholder for whatever it quotes.
fn without_quotations(text: &str) -> String {
    let mut rest = text;
    let mut told = String::with_capacity(text.len());
    while let Some(at) = rest.find(['\'', '"', '`', '\u{2018}', '\u{201c}']) {
        let (before, quoted) = rest.split_at(at);
        let mut letters = quoted.chars();
        let Some(opening) = letters.next() else { break };
        told.push_str(before);
        // "You've" opens nothing.
        if opening == '\'' && before.ends_with(char::is_alphanumeric) {
            told.push(opening);
            rest = letters.as_str();
            continue;
        }
        let closing = match opening {
            '\u{2018}' => '\u{2019}',
            '\u{201c}' => '\u{201d}',
            same => same,
        };
        told.push_str(&format!(" {QUOTATION} "));
        rest = letters.as_str().split_once(closing).map_or("", |(_, after)| after);
    }
    told.push_str(rest);
    told
}

fn is_harmless(core: &str) -> bool {
    is_number(core) || is_time(core) || is_plain(core) || is_instance_type(core) || is_zone(core)
}

fn is_number(core: &str) -> bool {
    let digits = core.chars().filter(char::is_ascii_digit).count();
    (1..=DIGITS_MAX).contains(&digits) && core.chars().all(|one| one.is_ascii_digit() || ".,%".contains(one))
}

fn is_time(core: &str) -> bool {
    humantime::parse_rfc3339(core).is_ok()
}

/// Words that clouds use, alone, joined by hyphens, or as one in camel case, as error codes are.
fn is_plain(core: &str) -> bool {
    let is_known = |word: &str| {
        let word = word.to_ascii_lowercase();
        let stem = word.split('\'').next().unwrap_or_default();
        WORDS.contains(stem)
    };
    core.split('-').all(|part| is_known(part) || camel_words(part).iter().all(|word| is_known(word)))
}

fn camel_words(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = text.match_indices(|one: char| one.is_ascii_uppercase()).map(|(at, _)| at).collect();
    if starts.first() != Some(&0) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

/// `m5.large`, `u-6tb1.112xlarge`, `Standard_D4s_v5`.
fn is_instance_type(core: &str) -> bool {
    if let Some(size) = core.strip_prefix("Standard_") {
        let has_number = size.chars().any(|one| one.is_ascii_digit());
        return size.starts_with(|one: char| one.is_ascii_uppercase()) && has_number && size.len() <= 20;
    }
    let Some((family, size)) = core.split_once('.') else { return false };
    let is_family = family.len() <= 12 && family.chars().any(|one| one.is_ascii_digit());
    let size = size.trim_start_matches(|one: char| one.is_ascii_digit());
    is_family && SIZES.contains(&size.split('-').next().unwrap_or_default())
}

/// `us-east-1`, `us-gov-west-1a`.
fn is_zone(core: &str) -> bool {
    let parts: Vec<&str> = core.split('-').collect();
    let [country, middle @ .., direction, number] = &parts[..] else { return false };
    let is_number = number.len() <= 2 && number.starts_with(|one: char| one.is_ascii_digit());
    country.len() == 2 && middle.iter().all(|one| *one == "gov") && DIRECTIONS.contains(direction) && is_number
}

fn is_guid(core: &str) -> bool {
    let is_hex = |part: &str| part.chars().all(|one| one.is_ascii_hexdigit());
    let lengths: Vec<usize> = core.split('-').filter(|part| is_hex(part)).map(str::len).collect();
    lengths == [8, 4, 4, 4, 12]
}

/// The form of a request's ID, which identifies a request of an account.
pub(super) fn shape(id: &str) -> String {
    id.chars().take(TEXT_CHARS_MAX).map(|one| if one.is_alphanumeric() { 'x' } else { one }).collect()
}

/// The value of a header about limits: names of policies and numbers. `None` if it could be more than that.
pub(super) fn limit(value: &str) -> Option<&str> {
    let is_allowed = |one: char| one.is_ascii_alphanumeric() || "./;, ".contains(one);
    let mut parts = value.split(|one: char| !one.is_ascii_alphanumeric());
    let is_short = |part: &str| part.chars().filter(char::is_ascii_digit).count() <= DIGITS_MAX;
    (value.len() <= TEXT_CHARS_MAX && value.chars().all(is_allowed) && parts.all(is_short)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a group "spot-capacity" in a resource group "payroll".
    fn redaction() -> Redaction {
        let mut redaction = Redaction::default();
        redaction.hide("spot-capacity");
        let vm = "azure:///subscriptions/0a1b2c3d-0000-1111-2222-333344445555/resourceGroups/payroll/providers/\
                  Microsoft.Compute/virtualMachineScaleSets/spot-capacity/virtualMachines/7";
        redaction.hide(vm);
        redaction.hide("aws:///us-east-1a/i-0abcdef1234567890");
        redaction
    }

    #[test]
    fn what_a_message_says_stays() {
        for text in [
            "We currently do not have sufficient m5.large capacity in the Availability Zone you requested \
                (us-east-1a).",
            "You've reached your quota for maximum Fleet Requests for this account",
            "Operation could not be completed as it results in exceeding approved",
            "The requested size for resource is currently not available in location. Please try another size.",
            "Allocation failed. We do not have sufficient capacity for the requested VM size Standard_D4s_v5 in this \
                region.",
            "InsufficientInstanceCapacity",
            "Current limit is 100, current usage is 96, additional required is 8 at 2026-11-24T16:00:00Z",
        ] {
            let redacted = Redaction::default().of(text);
            let kept = redacted.split_whitespace().filter(|word| !word.contains("[name]")).count();
            assert!(kept + 2 >= text.split_whitespace().count(), "{redacted}");
        }
        let capacity = "We currently do not have sufficient m5.large capacity in us-east-1a.";
        assert_eq!(Redaction::default().of(capacity), capacity);
    }

    #[test]
    fn what_could_name_anyone_is_taken_out() {
        let redaction = redaction();
        for (text, left) in [
            (
                "User: arn:aws:iam::123456789012:user/alice is not authorized to perform: autoscaling:SetDesiredCapacity on \
                 resource: arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:0a1b:autoScalingGroupName/x",
                "User: [arn] is not authorized to perform: [name] on resource: [arn]",
            ),
            (
                "The Resource 'Microsoft.Compute/virtualMachines/x' under resource group 'payroll' was not found.",
                "The Resource [name] under resource group [name] was not found.",
            ),
            ("Resource group payroll could not be found", "Resource group [name] could not be found"),
            (
                "The client with object id 0a1b2c3d-0000-1111-2222-333344445555 is denied",
                "The client with object id [guid] is denied",
            ),
            (
                "/subscriptions/0a1b2c3d-0000-1111-2222-333344445555/resourceGroups/payroll is locked",
                "[name] is locked",
            ),
            ("account 123456789012 has 1234-5678-9012", "account [name] has [name]"),
            ("instance i-0abcdef1234567890 of spot-capacity in SPOT-CAPACITY_2", "instance [name] of [name] in [name]"),
            ("launch template: blackbird with alice@example.com", "launch template: [name] with [name]"),
            ("see https://portal.example/payroll?x=1", "see [name]"),
            ("an open quotation \"blackbird", "an open [name] [name]"),
            (
                "role `blackbird` and \u{201c}blackbird\u{201d} and 'black'bird'",
                "role [name] and [name] and [name] [name]",
            ),
            ("eu-prod-1 us-secret-east-1", "[name] [name]"),
            ("Standard_Blackbird", "[name]"),
        ] {
            assert_eq!(redaction.of(text), left, "{text}");
        }
    }

    #[test]
    fn a_request_id_keeps_its_form_alone_and_a_limit_its_numbers() {
        assert_eq!(shape("0a1b-22:x"), "xxxx-xx:x");
        assert_eq!(
            limit("Microsoft.Compute/GetVMScaleSet3Min;1299,Other;7"),
            Some("Microsoft.Compute/GetVMScaleSet3Min;1299,Other;7")
        );
        assert_eq!(limit("0a1b2c3d-0000-1111-2222-333344445555;1"), None);
        assert_eq!(limit("a\"b"), None);
    }
}
