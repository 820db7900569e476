//! `headcount prices`

use serde_json::Value;

use crate::peers::headcount::{ConfigFile, run};

const TABLE: &str = "aws: {m5.large: {price: 0.062}, p4d.24xlarge: {price: 20, spotPrice: 8}}\n";

fn config() -> ConfigFile {
    let sources = "sources: [{name: demo, simulated: {}}]\ninstanceTypes: [mine.yaml]\nprices: {live: false}\n";
    ConfigFile::new(sources).beside("mine.yaml", TABLE)
}

fn prices(arguments: &[&str]) -> (bool, String, String) {
    let config = config();
    let path = config.path();
    let output = run(&[&["prices", "--config", &path], arguments].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn every_group_is_shown_with_its_price_its_provenance_and_what_it_overrides() {
    let (good, text, stderr) = prices(&["-o", "json"]);
    assert!(good, "{stderr}");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("an array");
    assert_eq!(rows.len(), 6, "{text}");
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).expect("a row");
    assert!(rows.iter().all(|row| row["price"].as_f64().is_some_and(|price| price > 0.0)), "{text}");
    let web = row("web");
    assert_eq!((&web["price"], &web["currency"], &web["estimate"]), (&0.062.into(), &"USD".into(), &false.into()));
    assert!(web["provenance"].as_str().is_some_and(|text| text.starts_with("user table ")), "{web}");
    assert_eq!((&web["overrides"]["price"], &web["date"]), (&0.096.into(), &Value::Null));
    let arm = row("arm");
    assert_eq!((&arm["provenance"], &arm["date"]), (&"shipped table 2026-07-20".into(), &"2026-07-20".into()));
    assert_eq!((&row("aks-pool")["price"], &arm["overrides"]), (&0.192.into(), &Value::Null));
    let spot = row("batch-spot");
    assert_eq!(
        (&spot["capacityType"], &spot["mixed"], &spot["estimate"]),
        (&"spot".into(), &true.into(), &true.into())
    );
}

#[test]
fn one_group_as_a_table_and_an_unknown_group_as_an_error() {
    let (good, table, stderr) = prices(&["arm"]);
    assert!(good, "{stderr}");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(lines[0].starts_with("ID    TYPE") && lines[1].contains("0.077 USD   shipped table 2026-07-20"), "{table}");
    let (good, table, stderr) = prices(&["nobody"]);
    assert!(!good && table.is_empty() && stderr.contains("nobody"), "{table}{stderr}");
}
