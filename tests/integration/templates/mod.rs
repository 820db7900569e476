//! Whole nodes, as `headcount template` shows them, from responses of the clouds' own APIs: golden files next to this
//! one.
//!
//! After a change of how nodes are predicted, rewrite them and review the differences:
//!
//!     INSTA_UPDATE=always cargo test --test integration templates

mod aws;
mod azure;
mod reads;

use crate::emulators::Emulator;
use crate::emulators::setup::Setup;
use crate::peers::headcount::run;

/// Compares the output of `headcount template` for a group with the golden file of that name.
fn assert_golden<F: Emulator>(setup: &Setup<F>, group: &str, output: &str) {
    let response = run(&["template", group, "--config", &setup.config(), "--output", output]);
    assert!(response.status.success(), "{group}: {}", String::from_utf8_lossy(&response.stderr));
    let shown = String::from_utf8(response.stdout).expect("text");
    let (name, shown) = match output {
        "table" => (format!("{group}-provenance"), unaligned(&shown, &setup.config())),
        _ => (group.to_owned(), shown),
    };
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, shown));
}

/// Removes the folder of the configuration from a table, and the padding that it caused.
fn unaligned(table: &str, config: &str) -> String {
    let folder = config.strip_suffix("headcount.yaml").expect("a configuration");
    let row = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.collect::<Vec<_>>().join(" | ")
    };
    table.replace(folder, "").lines().map(row).collect::<Vec<_>>().join("\n")
}
