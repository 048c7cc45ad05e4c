//! `demo`: everything at work.

use std::process::ExitCode;

use crate::cli::DemoArgs;

/// Placeholder until the demo is written.
#[expect(clippy::unused_async, reason = "placeholder")]
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`demo` is not written yet ({args:?})")
}
