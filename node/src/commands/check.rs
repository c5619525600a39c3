//! `vk check`: what this host can do.

use std::io::{self, Write};

use clap::Args;
use vk_driver::{Check, Verdict};

use crate::cli::HostArgs;
use crate::exit::{self, Status};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  vk check --json

Exit status: 0 if jobs can run here, 1 if not.")]
pub(crate) struct CheckArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(host: &HostArgs, args: &CheckArgs) -> Status {
    let host = match host.open() {
        Ok(host) => host,
        Err(status) => return status,
    };
    let checks = vk_driver::check(&host).await;
    let can_run = checks.iter().all(|check| check.verdict != Verdict::Missing);
    let text = if args.json {
        json(&checks, can_run)
    } else {
        lines(&checks)
    };
    // A reader may close its end early.
    let _ = io::stdout().write_all(text.as_bytes());
    if can_run {
        exit::SUCCESS
    } else {
        exit::CANNOT_RUN
    }
}

fn lines(checks: &[Check]) -> String {
    checks
        .iter()
        .map(|check| {
            format!(
                "{:7} {}: {}\n",
                check.verdict.name(),
                check.subject,
                check.detail
            )
        })
        .collect()
}

fn json(checks: &[Check], can_run: bool) -> String {
    let checks: Vec<_> = checks
        .iter()
        .map(|check| {
            serde_json::json!({
                "subject": check.subject,
                "verdict": check.verdict.name(),
                "detail": check.detail,
            })
        })
        .collect();
    format!(
        "{:#}\n",
        serde_json::json!({"can_run": can_run, "checks": checks})
    )
}
