//! Commands about the templates and calendars of a workspace.

use std::path::PathBuf;

use clap::Subcommand;

use super::arguments::ByName;

#[derive(Subcommand)]
pub(crate) enum TemplateCommand {
    /// Store a mail template, or replace one
    Put {
        /// Name, as in `Send email "NAME" to contact`
        name: String,
        /// File with the text of the mail, or `-` for standard input
        #[arg(value_name = "FILE")]
        body: PathBuf,
        /// Subject [default: the name]
        #[arg(long)]
        subject: Option<String>,
        /// File with the HTML of the mail
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// List mail templates
    List,
    /// Show a mail template
    Show(ByName),
    /// Delete a mail template; agents keep its text until they are applied again
    Delete(ByName),
}

#[derive(Subcommand)]
pub(crate) enum CalendarCommand {
    /// Store a calendar, or replace one
    Put {
        /// Name, as in `calendar: NAME` of an agent
        name: String,
        /// Time zone, for example `Europe/Berlin`
        #[arg(long, default_value = "UTC")]
        time_zone: String,
        /// Working days, for example `mon,tue,wed` [default: mon to fri]
        #[arg(long, value_delimiter = ',', value_name = "DAY")]
        days: Vec<String>,
        /// Dates that are no working days, for example `2026-12-25,2027-01-01`
        #[arg(long, value_delimiter = ',', value_name = "DATE")]
        holidays: Vec<String>,
    },
    /// List calendars
    List,
    /// Show a calendar
    Show(ByName),
    /// Delete a calendar; agents keep its days until they are applied again
    Delete(ByName),
}
