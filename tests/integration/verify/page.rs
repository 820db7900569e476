//! docs/verified.md: what was seen on which clouds, how to find out, and the probes.

use headcount::cloud::Consistency;
use headcount::verify::{OWN_INSTANCES_MAX, Probe, Report, VMS_AT_START_MAX};

use super::reports::{all, is_real};

const SEEN: &str = "\
`headcount verify` measures on one node group that you set aside for it whether your cloud does what Headcount assumes. What Headcount assumes comes
from documentation, recorded responses and incident reports; some of it has no source at all.

## What was seen

| cloud | date | report |
| --- | --- | --- |
";

const IMITATED: &str = "\
Against the simulated cloud, each probe finds the behavior that the cloud was given, assumed or not. Reports are kept in `tests/reports/`: one of each kind
of simulated group, of the emulators of both clouds (through the real clients), and of moto. A test makes a simulated group from each report and expects the
same verdicts again, and another one runs the simulation in it. To do that with your report, put it there, or:

    headcount verify --against REPORT
    HEADCOUNT_WORLD=REPORT cargo test --no-default-features --test integration simulation::the_laws_hold_in_the_world_of_each_report

The simulated group cannot do everything that a report can show: where a verdict is not found again, the first command says which, and exits with 1. Reads
that lag are simulated by the tests alone.";

const RUNNING: &str = "\
## Running it

Try it first on a simulated cloud, which needs no account: `headcount verify --demo --allow-writes`. The clock of
a simulated cloud does not wait, so this takes seconds. On a real cloud, it takes about 15 minutes, more where launches are slow; stderr says what it does.

1. Create a node group for it, of a cheap instance type and with no other client: neither the Cluster Autoscaler nor an autoscale setting may know it.
   It has the minimum 0, at most INSTANCES instances, and room for OWN more. Give it the tag `headcount-verify` with the value `allowed`.
2. Grant the credentials [deploy/aws-iam-policy-verify.json](../deploy/aws-iam-policy-verify.json) or
   [deploy/azure-role-verify.json](../deploy/azure-role-verify.json). On AWS, writes are granted to groups with that tag alone.
   Assign the Azure role for the subscription, because operations and VM sizes belong to it. The role then permits writes to every scale set there.
3. Name the group in `headcount.yaml`, and let `headcount verify --config headcount.yaml --group NAME` say what it would do and what that costs. Nothing is
   written. It refuses any other group, and says why.
4. Add `--allow-writes`. Laws 1 and 11 do not hold for this group meanwhile. Each row of the table is what was assumed, what was seen and the verdict:
   *as assumed*, *stricter* (the cloud guarantees more), *broken*, or *not probed*. It exits with 1 if an assumption is broken, and says which law is at risk
   and what is safe meanwhile.
5. Attach the report to an issue: `headcount-verify-TIME.yaml`, or the file that `--report` names. It has the calls, times, states,
   HTTP statuses, headers about limits and versions, error codes and messages. It has no subscription or account number, no credential and no name: of a
   request's ID it has the form, of an etag a label, and of a message the words and numbers that clouds use (`src/verify/redaction.rs`).

At the end, after an error, and after Ctrl-C or SIGTERM, it restores the size that it found and waits until nothing that it sent can change it any more. If it
cannot, it prints what is left to do. It keeps that size in a file (`--state`) from before its first write: after a kill, the same command restores it
first.

A launch that fails, and what it leaves, shows on a group that cannot launch: give it an instance type that its zone does not offer, or one beyond your
quota, and run it again. The other probes that need an instance are then not probed.

Some things it does not do. It sees what one group does within a quarter of an hour: a lag or a late write that is rare may not show. `late` is one write.
On a uniform scale set, no VM can be deleted without the scale set, so `missing` and `capacity_is` are not probed there.

## The probes

The first rows are those of the consistency model (`src/cloud/consistency.rs`), then what the [exhaustive
search](../tests/integration/simulation/README.md) assumes, then what else the code relies on.

| probe | what it does, or why it cannot | assumed of Auto Scaling groups | assumed of scale sets |
| --- | --- | --- | --- |";

fn row(probe: Probe) -> String {
    let assumed = |model| match probe.unprobed() {
        Some(_) => "not probed".to_owned(),
        None => probe.assumed(model),
    };
    let (aws, azure) = (assumed(Consistency::AUTO_SCALING), assumed(Consistency::SCALE_SET));
    format!("| `{}` | {} | {aws} | {azure} |", probe.name(), probe.about())
}

/// The reports of real clouds.
fn seen() -> String {
    let row = |(name, report): (String, Report)| {
        let Report { kind, began, .. } = report;
        format!("| {kind} | {} | [{name}](../tests/reports/{name}) |", began.get(..10).unwrap_or_default())
    };
    let rows: Vec<String> = all().into_iter().filter(|(name, _)| is_real(name)).map(row).collect();
    if rows.is_empty() { "| none: nobody has run it on a real cloud yet | | |".to_owned() } else { rows.join("\n") }
}

#[test]
fn the_page_lists_every_probe() {
    let rows: Vec<String> = Probe::ALL.into_iter().map(row).collect();
    let running = RUNNING.replace("INSTANCES", &VMS_AT_START_MAX.to_string());
    let running = running.replace("OWN", &OWN_INSTANCES_MAX.to_string());
    let text = format!("{SEEN}{}\n\n{IMITATED}\n\n{running}\n{}\n", seen(), rows.join("\n"));
    crate::document::check("verified.md", "What was seen on real clouds", "verify::page", &text);
}
