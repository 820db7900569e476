//! The `headcount` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    headcount::cli::run()
}
