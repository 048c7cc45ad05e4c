//! Commands about schedules.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::arguments::{ByName, PageArgs};
use crate::parsers;

#[derive(Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Add a schedule that starts runs of an agent, or change one
    Add(Box<AddSchedule>),
    /// List schedules with their last and next fire
    List(PageArgs),
    /// Show a schedule
    Show(ByName),
    /// Remove a schedule; its runs continue
    Remove(ByName),
}

#[derive(Args)]
pub(crate) struct AddSchedule {
    /// Name
    pub(crate) name: String,
    /// Agent whose newest version is started
    #[arg(long)]
    pub(crate) agent: String,
    /// Minute, hour, day of the month, month and day of the week, for example `30 9 * * MON-FRI`
    #[arg(long)]
    pub(crate) cron: String,
    /// Time zone of the expression
    #[arg(long, default_value = "UTC")]
    pub(crate) time_zone: String,
    /// Input of each run, as JSON or a file that holds it
    #[arg(long, value_name = "FILE|JSON", value_parser = parsers::json_or_file)]
    pub(crate) input: Option<Value>,
    /// Effect of a paused agent: start nothing, or start a paused run
    #[arg(long, value_parser = ["skip", "queue"], default_value = "skip")]
    pub(crate) when_paused: String,
    /// Effect of an open run of the schedule: start another one, or start nothing
    #[arg(long, value_parser = ["start", "skip"], default_value = "start")]
    pub(crate) overlap: String,
}
