//! Commands about agents, runs and contacts.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use holdpoint_contracts::run::RunStatus;
use serde_json::Value;

use super::arguments::{ById, ByName, PageArgs, PauseArgs, ResumeArgs};
use crate::parsers;

#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Store agents; a changed text becomes a new version
    Apply {
        /// YAML or JSON files; `-` is standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Refuse an agent that has warnings
        #[arg(long)]
        strict: bool,
    },
    /// List agents
    List(PageArgs),
    /// Show an agent with its steps
    Show {
        #[command(flatten)]
        agent: ByName,
        /// Print the steps as instructions
        #[arg(long)]
        words: bool,
    },
    /// Show what became of the newest runs of an agent, as JSON
    Stats(ByName),
    /// Show the compiled steps of a file without storing it
    Plan {
        /// YAML or JSON file; `-` is standard input
        file: PathBuf,
        /// Refuse an agent that has warnings
        #[arg(long)]
        strict: bool,
        /// Print the steps as instructions
        #[arg(long)]
        words: bool,
    },
    /// Show what an agent would do with the contacts of a file; nothing is sent
    Rehearse(RehearseArgs),
    /// Pause all present and future runs of an agent
    Pause {
        #[command(flatten)]
        agent: ByName,
        #[command(flatten)]
        pause: PauseArgs,
    },
    /// Resume a paused agent
    Resume {
        #[command(flatten)]
        agent: ByName,
        #[command(flatten)]
        resume: ResumeArgs,
    },
    /// Delete an agent; its open runs fail
    Delete(ByName),
}

#[derive(Args)]
pub(crate) struct RehearseArgs {
    /// YAML or JSON file of the agent; `-` is standard input
    pub(crate) file: PathBuf,
    /// CSV file with a column `id`; all other columns are fields of the contact
    #[arg(long, value_name = "CSV")]
    pub(crate) contacts: PathBuf,
    /// What people, tools and contacts do, as YAML or JSON; see docs/rehearsal.md
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// When the runs start (RFC 3339); default: this minute
    #[arg(long, value_name = "INSTANT")]
    pub(crate) start: Option<DateTime<Utc>>,
    /// An older version of the agent: list the contacts whose runs differ
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum RunCommand {
    /// Start a run, or one run for each row of a file
    Start(StartArgs),
    /// List runs, newest first
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// Only runs created after this instant (RFC 3339)
        #[arg(long, value_name = "INSTANT")]
        created_after: Option<DateTime<Utc>>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show a run with its holds, pauses and steps
    Show(ById),
    /// Watch a run until it ends; exit 0 if completed, 1 if failed, 4 if cancelled
    Watch(ById),
    /// Pause runs; their timers stop
    Pause(RunRefs),
    /// Resume paused and suspended runs
    Resume {
        #[command(flatten)]
        runs: RunRefs,
        #[command(flatten)]
        resume: ResumeArgs,
        /// Effect on steps that were in progress at a suspension; without it they start again if that does no harm
        #[arg(long, value_name = "EFFECT", value_parser = ["redo", "skip", "complete_with"])]
        step: Option<String>,
        /// Result of the step in progress, for `--step complete_with`
        #[arg(long, value_name = "JSON", value_parser = parsers::json_or_file, required_if_eq("step", "complete_with"))]
        result: Option<Value>,
    },
    /// Suspend runs: they stop, and a snapshot is kept
    Suspend {
        #[command(flatten)]
        runs: RunRefs,
        /// Reason, recorded in the history
        #[arg(long)]
        reason: Option<String>,
    },
    /// Show the snapshot of a suspended run as JSON
    Snapshot(ById),
    /// Run the failed and cancelled steps of failed runs again; other results and answers are kept.
    /// A filter without --status selects failed runs
    Retry {
        #[command(flatten)]
        runs: RunRefs,
        /// Run this step and all that depends on it again
        #[arg(long, value_name = "STEP")]
        from: Option<String>,
    },
    /// Move runs to a newer version of their agent, if it agrees with what has happened
    Migrate {
        #[command(flatten)]
        runs: RunRefs,
        /// Version [default: the newest]
        #[arg(long, value_name = "VERSION")]
        to: Option<u32>,
    },
    /// Change the context of a run; later steps see it as input
    Context {
        #[command(flatten)]
        run: ById,
        /// Merge patch (RFC 7386): JSON, or a file that holds it
        #[arg(long, value_name = "JSON", value_parser = parsers::json_or_file)]
        patch: Value,
    },
    /// Send a signal to runs; a step that waits for it goes on
    Signal {
        #[command(flatten)]
        runs: RunRefs,
        /// Name of the signal, as in `wait_for`
        #[arg(long)]
        name: String,
        /// Data of the signal, the result of the step: JSON, or a file that holds it
        #[arg(long, value_name = "JSON", value_parser = parsers::json_or_file)]
        payload: Option<Value>,
        /// Key of the signal; a run takes each key once
        #[arg(long)]
        key: Option<String>,
    },
    /// Cancel runs
    Cancel {
        #[command(flatten)]
        runs: RunRefs,
        /// Reason, recorded in the history
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Args)]
pub(crate) struct StartArgs {
    /// Name of the agent
    pub(crate) agent: String,
    /// Input that steps read as `$input`: JSON, or a file that holds it
    #[arg(long, value_name = "JSON", value_parser = parsers::json_or_file)]
    pub(crate) input: Option<Value>,
    /// Contact of the run: its id, or a JSON object with `id`
    #[arg(long, value_name = "JSON|ID", value_parser = parsers::contact)]
    pub(crate) contact: Option<Value>,
    /// Label to filter by later; repeatable
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parsers::label)]
    pub(crate) labels: Vec<(String, String)>,
    /// File with one contact per row: a column `id`; other columns become fields
    #[arg(long, value_name = "FILE", conflicts_with = "contact")]
    pub(crate) csv: Option<PathBuf>,
    /// Replace stored contacts; otherwise the given fields are merged into them
    #[arg(long)]
    pub(crate) replace: bool,
    /// Skip contacts that already have a run of this agent
    #[arg(long)]
    pub(crate) once: bool,
    /// Watch the runs until they end
    #[arg(long)]
    pub(crate) watch: bool,
}

/// A filter on the list of runs.
#[derive(Args, Clone, Default)]
pub(crate) struct FilterArgs {
    /// Only runs of this agent
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only runs with this status
    #[arg(long)]
    pub(crate) status: Option<RunStatus>,
    /// Only runs with this label
    #[arg(long, value_name = "NAME=VALUE", value_parser = parsers::label)]
    pub(crate) label: Option<(String, String)>,
}

/// Runs by id, or all runs that match a filter.
#[derive(Args)]
pub(crate) struct RunRefs {
    /// Ids, instead of the filters --agent, --status and --label
    #[arg(
        value_name = "RUN",
        required_unless_present_any = ["agent", "status", "label"],
        conflicts_with_all = ["agent", "status", "label"]
    )]
    pub(crate) runs: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Count the runs that match, and change nothing
    #[arg(long, conflicts_with = "runs")]
    pub(crate) dry_run: bool,
}

#[derive(Subcommand)]
pub(crate) enum OperationCommand {
    /// List actions on many runs, newest first
    List(PageArgs),
    /// Show an action with its progress
    Show(ById),
    /// List the result of each run
    Results {
        #[command(flatten)]
        operation: ById,
        /// Only this result
        #[arg(long, value_parser = ["changed", "unchanged", "refused"])]
        result: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// End an action before it has reached all runs
    Cancel(ById),
}

#[derive(Subcommand)]
pub(crate) enum ContactCommand {
    /// Store a contact, replacing the stored one
    Put {
        /// JSON object with `id`, or a file that holds it
        #[arg(value_name = "FILE|JSON", value_parser = parsers::contact_object)]
        contact: Value,
    },
    /// Show a contact
    Show(ById),
    /// List contacts
    List(PageArgs),
    /// Erase a person's data: the contact, its runs, and what people wrote about it
    Erase {
        #[command(flatten)]
        contact: ById,
        /// Confirm: nothing brings the data back, and live runs are cancelled
        #[arg(long, required = true)]
        yes: bool,
    },
    /// Show what an erasure has left to do
    Erasure(ById),
    /// List, assign or remove the replies of unknown senders
    #[command(subcommand)]
    Unmatched(UnmatchedCommand),
    /// Set fields: `replied=true score=7 note=` (an empty value removes a field)
    Set {
        #[command(flatten)]
        contact: ById,
        /// Fields; a value that looks like JSON is read as JSON
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = parsers::field)]
        fields: Vec<(String, Value)>,
    },
}

#[derive(Subcommand)]
pub(crate) enum UnmatchedCommand {
    /// List the replies, newest first
    List(PageArgs),
    /// Record a reply for a contact
    Assign {
        #[command(flatten)]
        reply: ById,
        /// Id of the contact
        contact: String,
    },
    /// Remove a reply
    Remove(ById),
}
