//! `up`: everything in one process.

use std::process::ExitCode;

use crate::cli::UpArgs;

/// Placeholder until `up` is wired.
#[expect(clippy::unused_async, reason = "placeholder")]
pub(crate) async fn run(args: UpArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`up` is not wired yet ({args:?})")
}
