//! `headcount check`

use super::output::{Output, columns};
use super::{CommandError, clouds};
use crate::check::Finding;
use crate::config::{self, Config};

/// Check credentials, permissions, node groups and templates, and say how to fix what is wrong.
///
/// Reads the clouds directly; no server needs to run, and nothing is written. Exits with 1 if it finds an error.
#[derive(Debug, clap::Args)]
pub(super) struct Check {
    #[command(flatten)]
    configuration: config::Arguments,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

impl Check {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let Self { configuration, output } = self;
        let config = Config::load(&configuration)?;
        let prepared = clouds::prepare(&config).await?;
        prepared.recall().await;
        let findings = prepared.check(&config).await;
        output.print(&findings, || table(&findings))?;
        match findings.iter().filter(|finding| finding.severity.is_error()).count() {
            0 => Ok(()),
            1 => Err(CommandError::Failed("1 error".to_owned())),
            errors => Err(CommandError::Failed(format!("{errors} errors"))),
        }
    }
}

fn table(findings: &[Finding]) -> String {
    let row = |finding: &Finding| vec![finding.severity.to_string(), finding.subject.clone(), finding.sentence()];
    columns(&findings.iter().map(row).collect::<Vec<_>>())
}
