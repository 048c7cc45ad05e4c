//! What can be typed about dead letters.

use clap::Subcommand;

use super::PageArgs;

/// Commands about messages that could not be handled.
#[derive(Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters of all services, newest first
    List(PageArgs),
    /// Show a dead letter with its reason and its body
    Show {
        /// Its id, for example `executor-12`
        id: String,
    },
    /// Decide dead letters again; each is gone once that is committed
    Replay {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Remove dead letters for good
    Drop {
        /// Their ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}
