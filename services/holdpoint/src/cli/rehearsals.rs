//! Commands about the rehearsals that a workspace keeps.

use clap::Subcommand;

use super::arguments::{ById, PageArgs};

#[derive(Subcommand)]
pub(crate) enum RehearsalCommand {
    /// List rehearsals, newest first; they are kept for 7 days
    List {
        /// Only those of this agent
        #[arg(long)]
        agent: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show what the runs of a rehearsal do
    Show(ById),
    /// List the contacts whose runs differ from those of another rehearsal
    Compare {
        #[command(flatten)]
        rehearsal: ById,
        /// Rehearsal to compare with
        #[arg(long, value_name = "ID")]
        from: String,
    },
    /// Cancel a rehearsal; the runs that it has are kept
    Cancel(ById),
    /// Delete a rehearsal
    Delete(ById),
}
