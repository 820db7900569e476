//! The errors of the estimates from cores, memory and accelerators, compared with the shipped tables.

use headcount::cloud::Family;
use headcount::prices::{estimates_of_known_types, shipped_regions};

const PERCENTILES: [u32; 7] = [1, 5, 25, 50, 75, 95, 99];

/// The rows of one cloud: every region, then all of them together.
fn rows(family: Family, name: &str) -> String {
    let errors_in = |region: &str| -> Vec<f64> {
        estimates_of_known_types(family, region).map(|(_, price, estimate)| estimate / price - 1.0).collect()
    };
    let regions: Vec<(&str, Vec<f64>)> = shipped_regions(family).map(|region| (region, errors_in(region))).collect();
    let all = ("all regions", regions.iter().flat_map(|(_, errors)| errors.clone()).collect());
    regions.into_iter().chain([all]).map(|(region, errors)| row(name, region, errors)).collect()
}

fn row(cloud: &str, region: &str, mut errors: Vec<f64>) -> String {
    errors.sort_by(f64::total_cmp);
    let at = |percent: u32| {
        let rank = errors.len() * usize::try_from(percent).expect("small") / 100;
        format!(" {:+.0} % |", errors.get(rank).expect("a type") * 100.0)
    };
    let figures: String = PERCENTILES.into_iter().map(at).collect();
    format!("| {cloud} {region} | {} |{figures}\n", errors.len())
}

#[test]
fn the_document_says_how_far_estimates_are_off() {
    let heading: String = PERCENTILES.iter().map(|percent| format!(" p{percent} |")).collect();
    let line = " --- |".repeat(PERCENTILES.len());
    let generated = format!(
        "The estimate of each type in the shipped tables, compared with its price: (estimate − price) / price, by percentile.\n\n\
         | region | types |{heading}\n| --- | --- |{line}\n{}{}",
        rows(Family::Aws, "AWS"),
        rows(Family::Azure, "Azure"),
    );
    crate::document::check("measured-prices.md", "Estimated prices and list prices", "errors_of_estimates", &generated);
}
