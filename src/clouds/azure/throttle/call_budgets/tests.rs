use super::super::info::Pause;
use super::*;

fn left(remaining: u64) -> ThrottleInfo {
    ThrottleInfo { remaining: vec![("HighCostGet".to_owned(), remaining)], pause: None }
}

fn refusal(seconds: u64) -> ThrottleInfo {
    let wait = Some(Duration::from_secs(seconds));
    ThrottleInfo {
        remaining: Vec::new(),
        pause: Some(Pause { wait, policy: None, whole_subscription: false, is_of_target: false }),
    }
}

#[test]
fn a_suspension_is_reported_once_when_it_begins_and_once_when_it_ends() {
    let (mut budgets, now) = (CallBudgets::default(), Instant::now());
    let after = |seconds| now + Duration::from_secs(seconds);
    budgets.record(Bucket::SetList, "rg", left(7), now);
    let events = budgets.record(Bucket::SetList, "rg", refusal(60), now);
    let scopes = vec![Scope::Bucket(Bucket::SetList)];
    let (wait, left) = (Duration::from_secs(60), "HighCostGet: 7".to_owned());
    assert_eq!(events, [ThrottleEvent::Suspended { scopes: scopes.clone(), wait, left }]);
    assert_eq!(budgets.record(Bucket::SetList, "rg", refusal(90), now), [], "a call that was under way");
    assert_eq!(budgets.admit(Bucket::SetList, "rg", false, after(89)), (Err(Duration::from_secs(1)), vec![]));
    assert_eq!(
        budgets.admit(Bucket::SetList, "rg", false, after(90)),
        (Ok(()), vec![ThrottleEvent::Resumed { scopes }])
    );
    assert_eq!(budgets.admit(Bucket::SetList, "rg", false, after(91)), (Ok(()), vec![]));
}

#[test]
fn a_low_budget_and_its_recovery_are_each_reported_once() {
    let (mut budgets, now) = (CallBudgets::default(), Instant::now());
    let mut event = |remaining| match &budgets.record(Bucket::SetList, "rg", left(remaining), now)[..] {
        [] => "nothing",
        [ThrottleEvent::Low { level, .. }] if (level.remaining, level.most) == (remaining, 100) => "low",
        [ThrottleEvent::Recovered { .. }] => "ample",
        other => panic!("{other:?}"),
    };
    assert_eq!([100, 10, 9, 8, 10, 50].map(&mut event), ["nothing", "nothing", "low", "nothing", "ample", "nothing"]);
}

#[test]
fn old_budgets_are_dropped_when_there_are_too_many() {
    let (mut budgets, now) = (CallBudgets::default(), Instant::now());
    let of_one = ThrottleInfo { remaining: vec![("GetOperationResource".to_owned(), 44)], pause: None };
    for number in 0..BUDGETS_MAX {
        budgets.record(Bucket::Poll, &number.to_string(), of_one.clone(), now);
    }
    budgets.record(Bucket::Poll, "one more", of_one.clone(), now);
    assert_eq!(budgets.remaining(now).len(), BUDGETS_MAX);
    budgets.record(Bucket::Poll, "last", of_one, now + REFILL);
    assert_eq!(budgets.remaining(now).len(), 1);
}

#[test]
fn names_of_policies_do_not_pile_up() {
    let (mut budgets, now) = (CallBudgets::default(), Instant::now());
    for number in 0..2 * POLICIES_MAX {
        let name = format!("made-up-{number}");
        let pause = Pause { wait: None, policy: Some(name.clone()), whole_subscription: false, is_of_target: false };
        let info = ThrottleInfo { remaining: vec![(name, 44)], pause: Some(pause) };
        budgets.record(Bucket::Poll, "set", info, now);
    }
    assert_eq!(budgets.charged[&Bucket::Poll].len(), POLICIES_MAX);
}
