//! Arguments that several commands have.

use clap::Args;

/// Priorities as request bodies spell them.
pub(super) const PRIORITIES: [&str; 5] = ["low", "normal", "high", "urgent", "critical"];

/// A part of a list.
#[derive(Args)]
pub(crate) struct PageArgs {
    /// Maximum number of items, 1 to 500
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=500))]
    pub(crate) limit: u64,
    /// Cursor that the previous page printed
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

/// An object that has an id.
#[derive(Args)]
pub(crate) struct ById {
    /// Id
    pub(crate) id: String,
}

/// An object that has a name.
#[derive(Args)]
pub(crate) struct ByName {
    /// Name
    pub(crate) name: String,
}

/// A pause of an agent or a workspace.
#[derive(Args)]
pub(crate) struct PauseArgs {
    /// Effect on runs that wait
    #[arg(long, value_parser = ["hold", "cancel"], default_value = "hold")]
    pub(crate) waiting: String,
    /// Effect on new runs: accept them paused, or refuse them
    #[arg(long, value_parser = ["accept", "refuse"], default_value = "accept")]
    pub(crate) new: String,
}

/// The end of a pause.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// How waits continue: with the time left, until the old deadline, from the start, or end now
    #[arg(long, value_parser = ["continue", "keep_deadline", "restart", "now"])]
    pub(crate) mode: Option<String>,
}
