//! `headcount verify`

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::CommandError;
use super::clouds;
use super::output::print;
use super::patience::Patience;
use super::shutdown::Shutdown;
use crate::cloud::text::printable;
use crate::cloud::{CapacityIs, GroupName, GroupReading, VerifiableCloud};
use crate::clouds::simulated::Simulated;
use crate::config::{self, Config};
use crate::verify::{
    self, Bounds, Event, Finding, INSTANCES_MAX_DEFAULT, Outcome, Plan, Probe, Setup, State, TokioClock, Verdict, Watch,
};

/// The group of the demo that is used unless another one is named.
const DEMO_GROUP: &str = "auto-scaling";
/// About how long the probes take on a real cloud, for what they cost.
const TAKES: Duration = Duration::from_secs(15 * 60);

/// Measure on one node group that is set aside for it whether a cloud does what Headcount assumes.
///
/// It launches and deletes instances of that group and sets its capacity, so nothing else may use it: it must carry the
/// tag headcount-verify=allowed, have the minimum 0 and at most two instances. At the end, and after Ctrl-C or an
/// error, it restores the size that it found; after a kill, the next run does. Without --allow-writes, it only says what
/// it would do. The report names no account and no group, and is made to be attached to an issue. Exits with 1 if an
/// assumption is broken.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    #[command(flatten)]
    configuration: config::Arguments,
    /// The name of the group; SOURCE/NAME where two sources have one of this name.
    #[arg(long, value_name = "NAME", required_unless_present = "demo")]
    group: Option<String>,
    /// Write to the group. Without this, nothing is written.
    #[arg(long)]
    allow_writes: bool,
    /// The most instances that the group may have at a time, those found included.
    #[arg(long, value_name = "COUNT", default_value_t = INSTANCES_MAX_DEFAULT)]
    max_instances: u32,
    /// The file of the report [default: headcount-verify-TIME.yaml in this folder].
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Where to keep the size that was found until it is restored [default: headcount-verify-GROUP.state in this
    /// folder].
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    #[command(flatten)]
    patience: Patience,
}

/// The group, and what is known of it before the run.
struct Chosen {
    cloud: Arc<dyn VerifiableCloud>,
    reading: GroupReading,
    declared: Option<CapacityIs>,
    is_read_only: bool,
    price: Result<String, String>,
}

impl Verify {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let name = self.group.clone().unwrap_or_else(|| DEMO_GROUP.to_owned());
        let state = State::at(self.state.clone().unwrap_or_else(|| default_state(&name)));
        let chosen = if self.configuration.demo { demo(&name).await? } else { self.choose(&name).await? };
        let failed = |error: verify::StateError| CommandError::Failed(error.to_string());
        let left = state.left().map_err(failed)?;
        if let Some(found) = left.as_ref().filter(|found| found.group != chosen.reading.name) {
            let (path, group) = (state.path().display(), &found.group);
            return Err(CommandError::Failed(format!(
                "{path} is of the group {group}; name another file with --state"
            )));
        }
        let plan = match left.clone() {
            // What a run that was killed left need not look like a group that is at rest.
            Some(found) if chosen.reading.hints.is_set_aside => Plan::restoring(found, self.max_instances),
            _ => verify::plan(&chosen.reading, Bounds { instances_max: self.max_instances })
                .map_err(|error| CommandError::Failed(format!("{name} is not used: {error}")))?,
        };
        print(&heading(&name, &plan, &chosen, left.is_some()))?;
        if !self.allow_writes {
            return print(&intentions(&chosen));
        }
        if chosen.is_read_only {
            return Err(CommandError::Failed(
                "the configuration says readOnly: true, so nothing is written".to_owned(),
            ));
        }
        let shutdown =
            Shutdown::on_signals().map_err(|error| CommandError::Failed(format!("cannot receive signals: {error}")))?;
        print(&row(&COLUMNS))?;
        let setup = Setup {
            cloud: &*chosen.cloud,
            clock: &TokioClock::default(),
            reading: chosen.reading,
            found: plan.found,
            is_continued: left.is_some(),
            instances_max: plan.instances_max,
            declared: chosen.declared,
            state,
        };
        let outcome = verify::run(setup, &mut Printer, shutdown.begun()).await;
        self.conclude(outcome)
    }

    /// Finds the group in the sources of the configuration.
    async fn choose(&self, name: &str) -> Result<Chosen, CommandError> {
        let config = Config::load(&self.configuration)?;
        let price = self.price(&config, name).await;
        let mut found = Vec::new();
        for (source, cloud) in clouds::connect_for_probes(&config).await? {
            let group = name.strip_prefix(&format!("{source}/")).unwrap_or(name);
            // Listing first: it tells the cloud which groups are its own.
            let failed = |error: crate::cloud::CloudError| format!("{source}: {error}");
            cloud.list().await.map_err(failed).map_err(CommandError::Failed)?;
            let reading = cloud.observe_for_write(&GroupName(group.into())).await;
            if let Some(reading) = reading.map_err(failed).map_err(CommandError::Failed)? {
                found.push((source, cloud, reading));
            }
        }
        let names: Vec<String> = found.iter().map(|(source, ..)| format!("{source}/{name}")).collect();
        match (found.pop(), found.is_empty()) {
            (Some((_, cloud, reading)), true) => Ok(Chosen {
                cloud,
                reading,
                declared: config.groups.of(name).capacity_is,
                is_read_only: config.read_only,
                price,
            }),
            (None, _) => Err(CommandError::Failed(format!("no source has a node group {name}"))),
            (Some(_), false) => Err(CommandError::Failed(format!("several sources have it: {}", names.join(", ")))),
        }
    }

    /// What an instance of the group costs per hour.
    async fn price(&self, config: &Config, name: &str) -> Result<String, String> {
        let prepared = clouds::prepare(config).await.map_err(|error| error.to_string())?;
        let (prices, _) = prepared.prices(config);
        let fleet = prepared.start();
        let until = self.patience.wait_ready(&fleet).await.map_err(|error| error.to_string())?;
        let template = fleet.template(name, until).await.map_err(|error| error.to_string())?;
        let quote = prices.quote(&template.offer);
        let total = quote.hourly * f64::from(verify::OWN_INSTANCES_MAX) * TAKES.as_secs_f64() / 3600.0;
        let (hourly, currency, provenance) = (quote.hourly, quote.currency, quote.provenance);
        Ok(format!("about {total:.2} {currency} ({hourly} {currency} per instance and hour: {provenance})"))
    }

    fn conclude(self, outcome: Outcome) -> Result<(), CommandError> {
        let Outcome { report, left } = outcome;
        let path = self.report.unwrap_or_else(|| default_report(SystemTime::now()));
        let written = serde_saphyr::to_string(&report)
            .map_err(|error| error.to_string())
            .and_then(|text| std::fs::write(&path, text).map_err(|error| error.to_string()));
        let broken: Vec<&Finding> = report.findings.iter().filter(|one| one.verdict == Verdict::Broken).collect();
        for finding in &broken {
            let law = finding.laws_at_risk.as_deref().unwrap_or_default();
            let safe = finding.safe_meanwhile.as_deref().unwrap_or_default();
            print(&format!("\n{} is broken: at risk: law {law}. Safe meanwhile: {safe}.\n", finding.probe.name()))?;
        }
        match written {
            Ok(()) => print(&format!("\nreport: {}\n", path.display()))?,
            Err(error) => return Err(CommandError::Failed(format!("cannot write {}: {error}", path.display()))),
        }
        match left {
            Some(left) => Err(CommandError::Failed(left)),
            None if report.is_stopped => Err(CommandError::Failed("stopped; the size is restored".to_owned())),
            None if broken.is_empty() => Ok(()),
            None => Err(CommandError::Failed(format!("{} assumptions are broken", broken.len()))),
        }
    }
}

/// A simulated group, which costs nothing.
async fn demo(name: &str) -> Result<Chosen, CommandError> {
    let cloud = Arc::new(Simulated::set_aside(0));
    let reading = crate::cloud::Cloud::observe(&*cloud, &GroupName(name.into())).await;
    let reading = reading.ok().flatten();
    let reading = reading
        .ok_or_else(|| CommandError::Usage(format!("the demo has no group {name}: take auto-scaling or scale-set")))?;
    let price = Ok("nothing: the cloud is simulated".to_owned());
    Ok(Chosen { cloud, reading, declared: None, is_read_only: false, price })
}

fn heading(name: &str, plan: &Plan, chosen: &Chosen, is_continued: bool) -> String {
    let (size, launches) = (plan.found.size, plan.launches_max);
    let continued = if is_continued { "A run was killed before this one; its size is restored first.\n" } else { "" };
    let cost = match &chosen.price {
        Ok(price) => price.clone(),
        Err(reason) => format!("unknown ({reason})"),
    };
    let own = verify::OWN_INSTANCES_MAX;
    let minutes = TAKES.as_secs() / 60;
    format!(
        "Laws 1 and 11 do not hold for {name} meanwhile: instances that nobody named are terminated, and capacities are \
         written that nobody asked for.\n{continued}Size to restore: {size}. At most {own} instances more at a time and \
         {launches} launches in all, in up to {minutes} minutes. Cost: {cost}.\n\n"
    )
}

/// What would be done, without --allow-writes.
fn intentions(chosen: &Chosen) -> String {
    let model = chosen.reading.consistency;
    let line =
        |probe: Probe| format!("{:<31} {}\n    assumed: {}\n", probe.name(), probe.about(), probe.assumed(model));
    let probes = Probe::ALL.into_iter().filter(|probe| probe.unprobed().is_none());
    let lines: String = probes.map(line).collect();
    format!("{lines}\nNothing was written. With --allow-writes, it is done.\n")
}

const COLUMNS: [&str; 4] = ["PROBE", "VERDICT", "ASSUMED", "SEEN"];

fn row(cells: &[&str; 4]) -> String {
    let [probe, verdict, assumed, seen] = cells.map(printable);
    format!("{probe:<28}   {verdict:<10}   {assumed:<66}   {seen}\n")
}

/// Prints the table as it grows, and on stderr what happens meanwhile.
struct Printer;

impl Watch for Printer {
    fn see(&mut self, event: Event<'_>) {
        let told = match event {
            Event::Found(finding) => {
                let cells = [finding.probe.name(), finding.verdict.name(), &finding.assumed, &finding.seen];
                // Nobody may be reading any more; the size is restored all the same.
                let _ignored = print(&row(&cells));
                return;
            }
            Event::Called(_) => return,
            Event::Began { stage, left } => format!("{stage} (about {} minutes left)", left.as_secs().div_ceil(60)),
            Event::Ended { stage, why } => format!("{stage} ended early: {why}"),
            Event::Restoring(size) => {
                format!("restoring the size {size}; if this is killed, the next run of the same command does it")
            }
        };
        let _ignored = writeln!(io::stderr(), "headcount: {}", printable(&told));
    }
}

fn default_state(group: &str) -> PathBuf {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    format!("headcount-verify-{}.state", group.replace(|letter| !is_plain(letter), "_")).into()
}

fn default_report(now: SystemTime) -> PathBuf {
    let time = humantime::format_rfc3339_seconds(now).to_string().replace([':', '-'], "");
    format!("headcount-verify-{time}.yaml").into()
}
