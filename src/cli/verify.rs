//! `headcount verify`

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use super::CommandError;
use super::clouds;
use super::output::print;
use super::patience::Patience;
use super::shutdown::Shutdown;
use crate::cloud::text::printable;
use crate::cloud::{CapacityIs, Cloud as _, GroupName, ResponseLog};
use crate::clouds::simulated::Simulated;
use crate::config::{self, Config};
use crate::fleet::GroupKey;
use crate::verify::{
    self, Bounds, Choice, Clock, Cost, Event, Finding, INSTANCES_MAX_DEFAULT, Outcome, Plan, Probe, Report, Setup,
    State, TokioClock, Verdict, Watch,
};

/// The group of the demo that is used unless another one is named.
const DEMO_GROUP: &str = "auto-scaling";

/// Measure on one node group that is set aside for it whether a cloud does what Headcount assumes.
///
/// It launches and deletes instances of that group and sets its capacity, so nothing else may use it: it must carry the
/// tag headcount-verify=allowed, have the minimum 0, at most two instances, and a maximum of at least two more than it has. At the end, and after Ctrl-C or an
/// error, it restores the size that it found; after a kill, the next run does. Without --allow-writes, it only says
/// what it would do. The report names no account and no group, and is made to be attached to an issue. Exits with 1
/// if an assumption is broken. With --against, it measures a simulated group that does what a report shows, and exits
/// with 1 if the verdicts differ.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    #[command(flatten)]
    configuration: config::Arguments,
    /// The name of the group; SOURCE/NAME where two sources have one of this name.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["demo", "against"])]
    group: Option<String>,
    /// Measure a simulated group that does what this report shows. No cloud is called, and no file is written except
    /// that of --report.
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["config", "demo", "group", "state"])]
    against: Option<PathBuf>,
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
    choice: Choice,
    responses: ResponseLog,
    clock: Box<dyn Clock>,
    declared: Option<CapacityIs>,
    is_read_only: bool,
    cost: Cost,
}

impl Verify {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        if let Some(path) = &self.against {
            return self.against(path).await;
        }
        let name = self.group.clone().unwrap_or_else(|| DEMO_GROUP.to_owned());
        let state = State::at(self.state.clone().unwrap_or_else(|| default_state(&name)));
        let chosen = if self.configuration.demo {
            simulated(Simulated::set_aside(0), &name).await?
        } else {
            self.choose(&name).await?
        };
        let (plan, is_continued) =
            chosen.choice.plan(&state, Bounds { instances_max: self.max_instances }).map_err(failed)?;
        print(&heading(&name, &plan, &chosen.cost, is_continued))?;
        if !self.allow_writes {
            return print(&intentions(&chosen.choice));
        }
        if chosen.is_read_only {
            return Err(failed("the configuration says readOnly: true, so nothing is written"));
        }
        let outcome = measure(&chosen, plan, is_continued, state).await?;
        self.conclude(outcome)
    }

    /// Measures a simulated group that does what a report shows.
    async fn against(&self, path: &Path) -> Result<(), CommandError> {
        let report = Report::read(path).map_err(|error| failed(format!("{}: {error}", path.display())))?;
        let cloud = Simulated::as_seen(0, report.size, report.assumed, &report.behavior);
        let chosen = simulated(cloud, Simulated::AS_SEEN).await?;
        let state = State::nowhere();
        let bounds = Bounds { instances_max: self.max_instances };
        let (plan, is_continued) = chosen.choice.plan(&state, bounds).map_err(failed)?;
        let outcome = measure(&chosen, plan, is_continued, state).await?;
        if let Some(file) = &self.report {
            outcome.report.write(file).map_err(|error| failed(format!("cannot write {}: {error}", file.display())))?;
        }
        let differences = report.differences(&outcome.report);
        for (probe, seen, here) in &differences {
            print(&format!("\n{}: {seen} in the report, {here} here\n", probe.name()))?;
        }
        match differences.len() {
            0 => print("\nEvery verdict of the report was found again in the simulated group.\n"),
            count => Err(failed(format!("{count} verdicts of the report were not found in the simulated group"))),
        }
    }

    /// Finds the group in the sources of the configuration.
    async fn choose(&self, name: &str) -> Result<Chosen, CommandError> {
        let config = Config::load(&self.configuration)?;
        let cost = self.price(&config, name).await.unwrap_or_else(Cost::Unknown);
        let responses = ResponseLog::default();
        let sources = clouds::connect_for_probes(&config, &responses).await?;
        let choice = verify::choose(sources, name).await.map_err(failed)?;
        let group = GroupKey { source: Arc::clone(&choice.source), name: choice.reading.name.clone() };
        Ok(Chosen {
            choice,
            responses,
            clock: Box::new(TokioClock::default()),
            declared: config.groups.of(&group).capacity_is,
            is_read_only: config.read_only,
            cost,
        })
    }

    /// What an instance of the group costs.
    async fn price(&self, config: &Config, name: &str) -> Result<Cost, String> {
        let prepared = clouds::prepare(config).await.map_err(|error| error.to_string())?;
        let (prices, _) = prepared.prices(config);
        let fleet = prepared.start();
        let until = self.patience.wait_ready(&fleet).await.map_err(|error| error.to_string())?;
        let template = fleet.template(name, until).await.map_err(|error| error.to_string())?;
        Ok(Cost::Of(prices.quote(&template.offer)))
    }

    fn conclude(self, outcome: Outcome) -> Result<(), CommandError> {
        let Outcome { report, left } = outcome;
        let path = self.report.unwrap_or_else(|| default_report(SystemTime::now()));
        let written = report.write(&path);
        let broken: Vec<&Finding> = report.findings.iter().filter(|one| one.verdict == Verdict::Broken).collect();
        for finding in &broken {
            let law = finding.laws_at_risk.as_deref().unwrap_or_default();
            let safe = finding.safe_meanwhile.as_deref().unwrap_or_default();
            print(&format!("\n{} is broken: at risk: law {law}. Safe meanwhile: {safe}.\n", finding.probe.name()))?;
        }
        match written {
            Ok(()) => print(&format!("\nreport: {}\n", path.display()))?,
            Err(error) => return Err(failed(format!("cannot write {}: {error}", path.display()))),
        }
        match left {
            Some(left) => Err(failed(left)),
            None if report.is_stopped => Err(failed("stopped; the size is restored")),
            None if broken.is_empty() => Ok(()),
            None => Err(failed(format!("{} assumptions are broken", broken.len()))),
        }
    }
}

fn failed(error: impl ToString) -> CommandError {
    CommandError::Failed(error.to_string())
}

/// Runs the probes until they are done or a signal stops them.
async fn measure(chosen: &Chosen, plan: Plan, is_continued: bool, state: State) -> Result<Outcome, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(|error| failed(format!("cannot receive signals: {error}")))?;
    print(&row(&COLUMNS))?;
    let setup = Setup {
        cloud: &*chosen.choice.cloud,
        responses: chosen.responses.clone(),
        clock: &*chosen.clock,
        reading: chosen.choice.reading.clone(),
        found: plan.found,
        is_continued,
        instances_max: plan.instances_max,
        declared: chosen.declared,
        state,
    };
    Ok(verify::run(setup, &mut Printer, shutdown.begun()).await)
}

/// A simulated group, which costs nothing, and whose time need not be waited for.
async fn simulated(cloud: Simulated, name: &str) -> Result<Chosen, CommandError> {
    let cloud = Arc::new(cloud);
    let reading = cloud.observe(&GroupName(name.into())).await.ok().flatten();
    let reading = reading
        .ok_or_else(|| CommandError::Usage(format!("the demo has no group {name}: take auto-scaling or scale-set")))?;
    Ok(Chosen {
        clock: Box::new(SimulatedTime(Arc::clone(&cloud))),
        choice: Choice { source: "demo".into(), cloud, reading },
        responses: ResponseLog::default(),
        declared: None,
        is_read_only: false,
        cost: Cost::Nothing,
    })
}

/// The time of a simulated cloud, which goes on at once where a probe waits.
struct SimulatedTime(Arc<Simulated>);

#[async_trait]
impl Clock for SimulatedTime {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        self.0.skip(duration);
        // So that a signal is noticed.
        tokio::task::yield_now().await;
    }
}

fn heading(name: &str, plan: &Plan, cost: &Cost, is_continued: bool) -> String {
    let (size, launches) = (plan.found.size, plan.launches_max);
    let continued = if is_continued { "A run was killed before this one; its size is restored first.\n" } else { "" };
    let own = verify::OWN_INSTANCES_MAX;
    let minutes = verify::TAKES.as_secs() / 60;
    format!(
        "Laws 1 and 11 do not hold for {name} meanwhile: instances that nobody named are terminated, and capacities are \
         written that nobody asked for.\n{continued}Size to restore: {size}. At most {own} instances more at a time and \
         {launches} launches in all, in about {minutes} minutes. Cost: {cost}.\n\n"
    )
}

/// What would be done, without --allow-writes.
fn intentions(choice: &Choice) -> String {
    let model = choice.reading.consistency;
    let line =
        |probe: Probe| format!("{:<31} {}\n    assumed: {}\n", probe.name(), probe.about(), probe.assumed(model));
    let probes = Probe::ALL.into_iter().filter(|probe| probe.unprobed().is_none());
    let lines: String = probes.map(line).collect();
    format!("{lines}\nNothing was written. Add --allow-writes to run it.\n")
}

const COLUMNS: [&str; 4] = ["PROBE", "VERDICT", "ASSUMED", "SEEN"];

fn row(cells: &[&str; 4]) -> String {
    let [probe, verdict, assumed, seen] = cells.map(printable);
    format!("{probe:<28}   {verdict:<10}   {assumed:<66}   {seen}\n")
}

/// Prints the table as it grows, and on stderr what happens meanwhile.
struct Printer;

impl Watch for Printer {
    fn happened(&mut self, event: Event<'_>) {
        let told = match event {
            Event::Found(finding) => {
                let cells = [finding.probe.name(), finding.verdict.name(), &finding.assumed, &finding.seen];
                // Nobody may be reading any more; the size is restored all the same.
                let _ignored = print(&row(&cells));
                return;
            }
            Event::Called(_) => return,
            Event::Began { stage, number, of, left } => {
                format!("{number} of {of}: {stage} (about {} minutes left)", left.as_secs().div_ceil(60))
            }
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
