//! How `$Default` and `$Latest` of launch templates are followed.

use std::time::Duration;

use super::*;
use crate::cloud::CloudError;

/// A version with this number, which launches this type.
fn numbered(number: i64, name: &str) -> LaunchTemplateVersion {
    let data = ResponseLaunchTemplateData::builder().instance_type(Ec2Type::from(name)).build();
    LaunchTemplateVersion::builder().version_number(number).launch_template_data(data).build()
}

fn following(id: &str, version: &str) -> LaunchTemplateSpecification {
    LaunchTemplateSpecification::builder().launch_template_id(id).version(version).build()
}

/// Makes a new version of a launch template the default and the latest one.
fn release(fake: &Fake, id: &str, number: i64, name: &str) {
    fake.state(|state| {
        for version in ["$Default", "$Latest", &number.to_string()] {
            state.templates.insert(format!("{id}@{version}"), numbered(number, name));
        }
    });
}

/// Groups of this number, each with a launch template of its own.
fn groups_of(count: usize) -> Fake {
    let of = |number: usize| {
        let template =
            following(&format!("lt-{number}"), if number.is_multiple_of(2) { "$Default" } else { "$Latest" });
        group(&format!("asg-{number}")).launch_template(template).build()
    };
    let fake = Fake::with((0..count).map(of).collect());
    (0..count).for_each(|number| release(&fake, &format!("lt-{number}"), 1, "old"));
    fake
}

/// What each group launches, and how many calls describe launch templates together and one by one.
async fn round(fake: &Fake, aws: &Aws) -> (Vec<Result<String, CloudError>>, [usize; 2]) {
    let before = counts(fake);
    let names: Vec<String> =
        fake.state(|state| state.groups.iter().filter_map(|group| group.auto_scaling_group_name.clone()).collect());
    let mut found = Vec::new();
    for name in names {
        let spec = aws.launch_spec(&observed(aws, &name).await).await;
        found.push(spec.map(|spec| spec.types.concat()));
    }
    let after = counts(fake);
    (found, [after[0] - before[0], after[1] - before[1]])
}

fn counts(fake: &Fake) -> [usize; 2] {
    ["DescribeLaunchTemplates", "DescribeLaunchTemplateVersions"].map(|operation| fake.calls(operation).len())
}

/// The same after the numbers have expired.
async fn next_round(fake: &Fake, aws: &Aws) -> (Vec<Result<String, CloudError>>, [usize; 2]) {
    tokio::time::advance(cache::MOVING_TTL).await;
    round(fake, aws).await
}

fn types_of(found: Vec<Result<String, CloudError>>) -> Vec<String> {
    found.into_iter().map(|types| types.expect("a launch spec")).collect()
}

#[tokio::test(start_paused = true)]
async fn one_call_shows_that_no_version_moved_however_many_templates_there_are() {
    let fake = groups_of(250);
    let aws = fake.aws(Settings::default());
    assert_eq!(round(&fake, &aws).await.1, [0, 250], "the first read of each is one of its own");
    assert_eq!(round(&fake, &aws).await.1, [0, 0]);
    let (found, calls) = next_round(&fake, &aws).await;
    assert_eq!(types_of(found), vec!["old"; 250]);
    assert_eq!(calls, [3, 0], "200 in two pages of 100, and 50");
    fake.state(|state| state.page = 1000);
    assert_eq!(next_round(&fake, &aws).await.1, [2, 0], "200 and 50");
}

#[tokio::test(start_paused = true)]
async fn a_default_and_a_latest_version_that_move_are_read_and_no_others() {
    let fake = groups_of(5);
    let aws = fake.aws(Settings::default());
    round(&fake, &aws).await;
    release(&fake, "lt-2", 2, "new");
    release(&fake, "lt-3", 7, "newer");
    let (found, calls) = next_round(&fake, &aws).await;
    assert_eq!(types_of(found), ["old", "old", "new", "newer", "old"]);
    assert_eq!(calls, [1, 2]);
    assert_eq!(fake.calls("DescribeLaunchTemplateVersions")[5..], ["lt-2@2", "lt-3@7"]);
    // Back to a version that is known.
    release(&fake, "lt-2", 1, "old");
    let (found, calls) = next_round(&fake, &aws).await;
    assert_eq!((types_of(found)[2].as_str(), calls), ("old", [1, 0]));
}

#[tokio::test(start_paused = true)]
async fn the_default_version_is_not_the_latest_one() {
    let fake = Fake::with(vec![
        group("default").launch_template(following("lt", "$Default")).build(),
        group("latest").launch_template(following("lt", "$Latest")).build(),
    ]);
    release(&fake, "lt", 1, "old");
    let aws = fake.aws(Settings::default());
    assert_eq!(types_of(round(&fake, &aws).await.0), ["old", "old"]);
    fake.state(|state| {
        for version in ["$Latest", "2"] {
            state.templates.insert(format!("lt@{version}"), numbered(2, "new"));
        }
    });
    let (found, calls) = next_round(&fake, &aws).await;
    assert_eq!((types_of(found), calls), (vec!["old".to_owned(), "new".to_owned()], [1, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_template_fails_its_own_group_and_is_not_asked_for_with_the_others_again() {
    let fake = groups_of(3);
    let aws = fake.aws(Settings::default());
    round(&fake, &aws).await;
    fake.state(|state| state.templates.retain(|key, _| !key.starts_with("lt-1@")));
    let (found, calls) = next_round(&fake, &aws).await;
    let outcomes: Vec<bool> = found.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(calls, [1, 3], "each is read by itself");
    let (found, calls) = next_round(&fake, &aws).await;
    assert_eq!((found.iter().filter(|spec| spec.is_ok()).count(), calls), (2, [1, 1]));
    assert_eq!(fake.calls("DescribeLaunchTemplates"), ["lt-0,lt-1,lt-2", "lt-0,lt-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_the_response_lacks_is_read_by_itself() {
    let fake = groups_of(3);
    let aws = fake.aws(Settings::default());
    round(&fake, &aws).await;
    fake.state(|state| state.hidden_templates.insert("lt-1".to_owned()));
    release(&fake, "lt-1", 2, "new");
    let (found, calls) = next_round(&fake, &aws).await;
    assert_eq!((types_of(found), calls), (["old", "new", "old"].map(str::to_owned).to_vec(), [1, 1]));
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_each_template_is_read_by_itself() {
    let fake = groups_of(3);
    let aws = fake.aws(Settings::default());
    round(&fake, &aws).await;
    fake.fail("DescribeLaunchTemplates", "UnauthorizedOperation", "not allowed", 403);
    release(&fake, "lt-1", 2, "new");
    let (found, calls) = next_round(&fake, &aws).await;
    assert_eq!((types_of(found)[1].as_str(), calls), ("new", [1, 3]));
    release(&fake, "lt-2", 2, "new");
    let (found, calls) = next_round(&fake, &aws).await;
    assert_eq!((types_of(found)[2].as_str(), calls), ("new", [0, 3]), "it is not tried again for a while");
    tokio::time::advance(cache::UNKNOWN_FORM_TTL).await;
    assert_eq!(round(&fake, &aws).await.1, [1, 0], "then it is");
}

#[tokio::test(start_paused = true)]
async fn a_throttled_call_is_not_repeated_for_each_group() {
    let fake = groups_of(3);
    let aws = fake.aws(Settings::default());
    round(&fake, &aws).await;
    fake.fail("DescribeLaunchTemplates", "RequestLimitExceeded", "slow down", 503);
    let (found, calls) = next_round(&fake, &aws).await;
    assert!(found.iter().all(|spec| matches!(spec, Err(CloudError::Throttled { .. }))), "{found:?}");
    assert_eq!(calls, [1, 0]);
    tokio::time::advance(cache::FAILED_CALL_TTL + Duration::from_millis(1)).await;
    let (found, calls) = round(&fake, &aws).await;
    assert_eq!((types_of(found), calls), (vec!["old".to_owned(); 3], [1, 0]));
}
