//! The probes, the consistency model, the assumptions of the search and the groups that may be used.

use std::collections::BTreeSet;

use super::*;
use crate::cloud::{Consistency, GroupReading, InstanceState, Permit};

fn names(origin: Origin) -> BTreeSet<String> {
    let of = Probe::ALL.into_iter().filter(|probe| probe.origin() == origin);
    of.map(|probe| probe.name().to_owned()).collect()
}

#[test]
fn each_row_of_the_consistency_model_has_a_probe() {
    let model = serde_json::to_value(Consistency::AUTO_SCALING).expect("JSON");
    let rows: BTreeSet<String> = model.as_object().expect("an object").keys().cloned().collect();
    assert_eq!(names(Origin::Model), rows);
}

#[test]
fn each_assumption_of_the_search_has_a_probe_or_a_reason() {
    let page = include_str!("../../../tests/integration/simulation/README.md");
    let table = page.split("| assumed not to happen |").nth(1).expect("a table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(names(Origin::Search), rows.map(str::to_owned).collect());
}

#[test]
fn a_probe_has_one_name_and_says_what_it_does_or_why_it_cannot() {
    for probe in Probe::ALL {
        assert_eq!(serde_json::to_value(probe).expect("JSON"), probe.name());
        assert!(!probe.about().is_empty(), "{probe:?}");
    }
    assert_eq!(Probe::ALL.iter().collect::<BTreeSet<_>>().len(), Probe::ALL.len());
}

#[test]
fn each_probe_names_the_laws_at_risk_and_what_is_safe_meanwhile() {
    for model in [Consistency::AUTO_SCALING, Consistency::SCALE_SET, Consistency::SCALE_SET_WITHOUT_ETAG] {
        for probe in Probe::ALL {
            let finding = Finding::new(probe, model, Verdict::Broken, "otherwise");
            let laws = finding.laws_at_risk.expect("laws");
            let is_law = |law: &str| law.parse().is_ok_and(|law: u32| (1..=13).contains(&law));
            assert!(laws.split(", ").all(is_law), "{probe:?}: {laws}");
            assert!(finding.safe_meanwhile.is_some_and(|setting| !setting.is_empty()), "{probe:?}");
            let harmless = Finding::new(probe, model, Verdict::AsAssumed, "so");
            assert_eq!((harmless.laws_at_risk, harmless.safe_meanwhile), (None, None));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_tells_how_much_is_left_and_takes_no_longer_than_it_says_at_first() {
    for plan in [aws(), scale_set()] {
        let bench = Bench::of(plan);
        let mut witness = Witness::default();
        let outcome = bench.run(&*bench.simulated, &mut witness).await;
        let told = witness.progress;
        assert!(told.iter().enumerate().all(|(index, (number, of, _))| (*number, *of) == (index + 1, told.len())));
        assert!(told.windows(2).all(|pair| pair[0].2 > pair[1].2 || pair[1].2 == pair[0].2), "{told:?}");
        let took: f64 = outcome.report.steps.iter().map(|step| step.seconds).sum();
        let first = told.first().expect("a stage").2;
        assert!(took <= first.as_secs_f64() && first <= TAKES, "{took} s, {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_names_nothing_and_can_be_read_back() {
    for plan in [aws(), scale_set()] {
        let bench = Bench::of(plan);
        let outcome = bench.run(&*bench.simulated, &mut Witness::default()).await;
        let text = serde_saphyr::to_string(&outcome.report).expect("YAML");
        let ids: Vec<String> = bench.simulated.world(|world, _| {
            let group = world.group(GROUP).expect("the group");
            group.members().map(|member| member.provider_id.to_string()).collect()
        });
        let subscription = crate::clouds::simulated::SUBSCRIPTION;
        for name in [GROUP, subscription, "i-0", "aws://", "azure://", "/subscriptions/"] {
            assert!(!text.contains(name), "{name} in\n{text}");
        }
        assert!(ids.iter().all(|id| !text.contains(id)), "{ids:?} in\n{text}");
        let report: Report = serde_saphyr::from_str(&text).expect("a report");
        assert_eq!(report, outcome.report);
        assert!(report.evidence.iter().any(|seen| seen.call.starts_with("set the capacity to 2")), "{text}");
    }
}

#[test]
fn only_a_small_group_that_is_set_aside_and_at_rest_may_be_used() {
    let bounds = Bounds { instances_max: INSTANCES_MAX_DEFAULT };
    let refused = |reading: &GroupReading| plan(reading, bounds).expect_err("refused");
    assert_eq!(plan(&reading(aws()), bounds).map(|plan| plan.found.size), Ok(SIZE));
    assert_eq!(plan(&reading(aws().sized(0, 4, 2)), bounds).map(|plan| plan.found.size), Ok(2));
    assert_eq!(refused(&reading(GroupPlan::aws(GROUP).sized(0, 10, 1))), Ineligible::NotSetAside);
    assert_eq!(refused(&reading(aws().sized(1, 10, 1))), Ineligible::Minimum(1));
    assert_eq!(refused(&reading(aws().sized(0, 10, 3))), Ineligible::TooLarge { desired: 3, live: 3 });
    let mut busy = reading(aws());
    busy.desired = 2;
    assert_eq!(refused(&busy), Ineligible::NotAtRest { desired: 2, running: 1, live: 1 });
    let mut starting = reading(aws());
    starting.instances.iter_mut().flatten().for_each(|one| one.state = InstanceState::Creating);
    assert_eq!(refused(&starting), Ineligible::NotAtRest { desired: 1, running: 0, live: 1 });
    let full = reading(aws().sized(0, 2, 1));
    assert_eq!(refused(&full), Ineligible::NoRoom { needed: 3, what: "group's maximum", max: 2 });
    let few = plan(&reading(aws()), Bounds { instances_max: 2 });
    assert_eq!(few, Err(Ineligible::NoRoom { needed: 3, what: "--max-instances", max: 2 }));
    let mut withheld = aws();
    withheld.removal = Permit::Withheld("suspended".to_owned());
    assert_eq!(refused(&reading(withheld)), Ineligible::Withheld("suspended".to_owned()));
}
