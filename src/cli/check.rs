//! `headcount check`

use std::time::Duration;

use clap::ValueEnum;
use tokio::time::{Instant, sleep};

use super::autoscaler::AutoscalerArguments;
use super::output::{Output, columns, print};
use super::{CommandError, clouds, patience, serve};
use crate::check::{Code, Finding, Severity, summary};
use crate::cloud::text::shell_word;
use crate::config::{self, Config};

/// The pause between two checks with --wait.
const WAIT_PAUSE: Duration = Duration::from_secs(2);

/// Check credentials, permissions, node groups and templates, and say how to fix what is wrong.
///
/// Reads the clouds directly; no server needs to run, and nothing is written. Exits with 1 if a finding is
/// at least as severe as --fail-on says.
#[derive(Debug, clap::Args)]
pub(super) struct Check {
    #[command(flatten)]
    configuration: config::Arguments,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// The lowest severity that makes the command fail.
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    fail_on: FailOn,
    /// Repeat the check until it passes, for this long at most. A check that has begun is finished.
    #[arg(long, value_name = "DURATION", value_parser = patience::wait)]
    wait: Option<Duration>,
    /// List the codes of all checks, and check nothing.
    #[arg(long)]
    list: bool,
    /// The admin port of the running server, such as http://127.0.0.1:8087, to check when the Cluster Autoscaler last
    /// called.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    autoscaler: AutoscalerArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Aligned columns.
    Table,
    /// Aligned columns, with errors and warnings only.
    Short,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Only errors.
    Error,
    /// Errors and warnings.
    Warning,
}

impl FailOn {
    fn is_failure(self, finding: &Finding) -> bool {
        match self {
            Self::Error => finding.severity == Severity::Error,
            Self::Warning => finding.severity != Severity::Ok,
        }
    }
}

impl Check {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        if self.list {
            return self.print_codes();
        }
        let config = Config::load(&self.configuration)?;
        let _also_loaded_by_the_server = serve::load_tls(config.grpc.tls.as_ref())?;
        let until = Instant::now() + self.wait.unwrap_or_default();
        let findings = loop {
            // Connects again each time, because the credentials may have changed.
            let prepared = match clouds::prepare(&config).await {
                Err(error @ CommandError::Sources(_)) if Instant::now() + WAIT_PAUSE <= until => {
                    tracing::info!(%error, "sources cannot be connected; trying again");
                    sleep(WAIT_PAUSE).await;
                    continue;
                }
                prepared => prepared?,
            };
            prepared.recall().await;
            let autoscaler = self.autoscaler.learn(&config, self.server.as_deref()).await?;
            let findings = prepared.check(&config, &autoscaler).await;
            let has_failed = findings.iter().any(|finding| self.fail_on.is_failure(finding));
            if !has_failed || Instant::now() + WAIT_PAUSE > until {
                break findings;
            }
            tracing::info!(found = %summary(&findings), "the check failed; checking again until it passes");
            sleep(WAIT_PAUSE).await;
        };
        match self.output {
            Format::Table => print(&table(&findings, |_| true))?,
            Format::Short => print(&table(&findings, |finding| finding.severity != Severity::Ok))?,
            Format::Json => Output::Json.print(&findings, String::new)?,
            Format::Yaml => Output::Yaml.print(&findings, String::new)?,
        }
        if !findings.iter().any(|finding| self.fail_on.is_failure(finding)) {
            return Ok(());
        }
        Err(match self.output {
            // The summary is the table's last line.
            Format::Table | Format::Short => CommandError::Found(summary(&findings)),
            Format::Json | Format::Yaml => CommandError::Failed(summary(&findings)),
        })
    }

    /// All codes that findings can have.
    fn print_codes(&self) -> Result<(), CommandError> {
        let codes: Vec<_> = Code::ALL
            .iter()
            .map(|(code, title)| ListedCode { code: code.to_string(), title, link: code.link() })
            .collect();
        let row = |listed: &ListedCode| vec![listed.code.clone(), listed.title.to_owned(), listed.link.clone()];
        match self.output {
            Format::Table | Format::Short => print(&columns(&codes.iter().map(row).collect::<Vec<_>>())),
            Format::Json => Output::Json.print(&codes, String::new),
            Format::Yaml => Output::Yaml.print(&codes, String::new),
        }
    }
}

/// A code of findings, as `--list` prints it.
#[derive(serde::Serialize)]
struct ListedCode {
    code: String,
    title: &'static str,
    link: String,
}

fn table(findings: &[Finding], is_shown: impl Fn(&Finding) -> bool) -> String {
    let row = |finding: &Finding| {
        let mut sentence = finding.sentence();
        if finding.severity != Severity::Ok {
            sentence.push_str(&format!(" ({})", finding.link));
        }
        vec![finding.severity.to_string(), finding.code.to_string(), shell_word(&finding.subject), sentence]
    };
    let rows: Vec<_> = findings.iter().filter(|finding| is_shown(finding)).map(row).collect();
    format!("{}{}\n", columns(&rows), summary(findings))
}
