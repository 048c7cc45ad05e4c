//! What can be typed: commands, options and their help. It holds no behaviour.

mod notifications;
mod processes;
mod requests;
mod workspace;

use std::net::SocketAddr;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use holdpoint_contracts::run::RunStatus;
use serde_json::Value;

use crate::parsers;
use crate::serve::tables::Tables;

pub(crate) use processes::{
    BenchArgs, BenchPartArgs, MigrateArgs, NatsConfigArgs, SecretsCommand, ServeArgs, ServerTls,
    Service, Shape, WorkerArgs,
};
pub(crate) use requests::{
    ActCommand, ApproveArgs, AskAgainArgs, AskArgs, HowArgs, InboxArgs, OneArgs, PauseArgs,
    RequestCommand, StepAskArgs, ToArgs, TokenCommand, ToolCommand, UserCommand, WhichArgs,
    WorkspaceCommand,
};
pub(crate) use workspace::DeadCommand;

pub(crate) use notifications::{
    FollowCommand, NotificationsArgs, NotificationsCommand, PoliciesCommand, PreferencesCommand,
    SetPreferences, WebhooksCommand,
};

/// Where `up` keeps its tables unless told otherwise, and where clients look for its address.
pub(crate) const DATA_DIR_DEFAULT: &str = "holdpoint-data";

const AFTER_HELP: &str = "\
Connection: --url and --token, or HOLDPOINT_URL and HOLDPOINT_TOKEN, or what a running `holdpoint up`
has written to cli.json in its data directory. Instants are shown in UTC.
The unique beginning of an id is enough. Other users see what is typed in the list of processes: give a
secret in the environment, or as @FILE.

Exit codes:
  0    ok                           5    timed out, or accepted and not yet done
  1    failed                       6    conflict
  2    wrong usage                  7    Holdpoint cannot be reached
  3    not found                    130  interrupted
  4    rejected, or forbidden

NO_COLOR switches colour off, CLICOLOR_FORCE=1 switches it on without a terminal.";

/// Durable runs of AI agents: they wait, ask, hand off, and survive restarts.
#[derive(Parser)]
#[command(name = "holdpoint", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Args, Default)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct GlobalArgs {
    /// Address of Holdpoint [default: http://127.0.0.1:7878]
    #[arg(long, global = true, env = "HOLDPOINT_URL")]
    pub(crate) url: Option<String>,
    /// Token that the address wants; `@FILE` reads it from a file
    #[arg(
        long,
        global = true,
        env = "HOLDPOINT_TOKEN",
        hide_env_values = true,
        value_parser = parsers::secret
    )]
    pub(crate) token: Option<String>,
    /// Workspace [default: default]
    #[arg(long, global = true, env = "HOLDPOINT_WORKSPACE")]
    pub(crate) workspace: Option<String>,
    /// Data directory of `up` [env: HOLDPOINT_DATA=] [default: holdpoint-data]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Print the bodies of the API instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl GlobalArgs {
    /// The data directory: the option, else `HOLDPOINT_DATA`, else `./holdpoint-data`.
    pub(crate) fn data_dir(&self) -> PathBuf {
        let from_environment = || {
            let dir = std::env::var_os("HOLDPOINT_DATA").filter(|dir| !dir.is_empty())?;
            Some(PathBuf::from(dir))
        };
        let dir = self.data.clone().or_else(from_environment);
        dir.unwrap_or_else(|| PathBuf::from(DATA_DIR_DEFAULT))
    }
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run everything in this one process
    Up(UpArgs),
    /// Show it all at work, in a temporary directory; with --data, in a new one that is kept
    Demo(DemoArgs),
    /// Run one service as a process of its own
    Serve(ServeArgs),
    /// Do steps of runs: with tools of a file, or the built-in ones
    Worker(WorkerArgs),
    /// Bring tables up to date
    Migrate(MigrateArgs),
    /// Make the secrets that services share
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Measure on a temporary system: one JSON line a result
    Bench(BenchArgs),
    /// The worker of `bench`; started by it.
    #[command(hide = true)]
    BenchWorker(BenchPartArgs),
    /// The load of `bench`; started by it.
    #[command(hide = true)]
    BenchLoad(BenchPartArgs),
    /// Describe agents
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Start, follow and steer runs
    #[command(subcommand)]
    Run(RunCommand),
    /// Keep the contacts that runs are about
    #[command(subcommand)]
    Contact(ContactCommand),
    #[command(flatten)]
    Request(RequestCommand),
    /// Keep the people of the workspace
    #[command(subcommand)]
    User(UserCommand),
    /// Keep the tokens that open the workspace
    #[command(subcommand)]
    Token(TokenCommand),
    /// Keep the tools that are HTTP calls
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Show what you were told, and mark it as read
    Notifications(NotificationsArgs),
    #[command(flatten)]
    Follow(FollowCommand),
    /// Say by which ways you are told of what waits for you
    #[command(subcommand)]
    Preferences(PreferencesCommand),
    /// Have programs and channels told of what happens to requests
    #[command(subcommand)]
    Webhooks(WebhooksCommand),
    /// Keep the rules of who approves, and who is told when nobody acts
    #[command(subcommand)]
    Policies(PoliciesCommand),
    /// Make a workspace, or stop everything in this one
    #[command(subcommand, name = "workspace")]
    Space(WorkspaceCommand),
    /// Show the nodes that work
    Nodes,
    /// Show which node works on which step
    Claims,
    /// Inspect messages that could not be handled, decide them again, or remove them
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Read the clock, or move it where it is a test clock
    #[command(subcommand)]
    Clock(ClockCommand),
    /// Write a configuration for a NATS server: who may publish what, and a key for each
    NatsConfig(NatsConfigArgs),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// How `up` runs. `data` and `json` are options of every command and are filled in from there.
#[derive(Args, Debug, Clone)]
pub(crate) struct UpArgs {
    /// Where everything is kept.
    #[arg(skip)]
    pub(crate) data: PathBuf,
    /// Print one line of JSON when ready.
    #[arg(skip)]
    pub(crate) json: bool,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) http: SocketAddr,
    /// A NATS server that runs already, instead of an own one; `@FILE` reads it from a file
    #[arg(long, value_name = "URL", value_parser = parsers::secret)]
    pub(crate) nats_url: Option<String>,
    /// Where tables are kept: `postgres://…` or `sqlite:DIR` [default: the data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "HOLDPOINT_DATABASE_URL",
        hide_env_values = true,
        value_parser = parsers::tables
    )]
    pub(crate) database_url: Option<Tables>,
    /// Let time stand still until `clock advance` moves it
    #[arg(long)]
    pub(crate) test_clock: bool,
    /// Replace the owner's token, which is kept over restarts, and revoke the old one
    #[arg(long)]
    pub(crate) new_token: bool,
}

/// How the demo runs. `data` is the option of every command, if it was given; it must be new or empty.
#[derive(Args, Debug, Clone)]
pub(crate) struct DemoArgs {
    /// Where to keep everything, instead of a temporary directory.
    #[arg(skip)]
    pub(crate) data: Option<PathBuf>,
    /// No pauses between the lines
    #[arg(long)]
    pub(crate) fast: bool,
    /// Contacts of your own: a column `id`, others become fields
    #[arg(long, value_name = "CSV")]
    pub(crate) contacts: Option<PathBuf>,
}

/// Commands about agents.
#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Store agents; a changed text makes a new version
    Apply {
        /// YAML or JSON; `-` is standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Store nothing that has a warning
        #[arg(long)]
        strict: bool,
    },
    /// List agents
    List(PageArgs),
    /// Show one agent with its steps
    Show {
        /// Its name
        name: String,
    },
    /// Show what a text compiles to; nothing is stored
    Plan {
        /// YAML or JSON; `-` is standard input
        file: PathBuf,
        /// Refuse what has a warning
        #[arg(long)]
        strict: bool,
    },
    /// Freeze all runs of an agent, and those that are started meanwhile
    Pause {
        /// Its name
        name: String,
        #[command(flatten)]
        pause: PauseArgs,
    },
    /// Let a paused agent go on
    Resume {
        /// Its name
        name: String,
        /// How waits go on: with the time left, to the old due time, from the start, or ending now
        #[arg(long, value_parser = parsers::resume_mode())]
        mode: Option<String>,
    },
    /// Delete an agent; its open runs fail
    Delete {
        /// Its name
        name: String,
    },
}

/// Commands about runs.
#[derive(Subcommand)]
pub(crate) enum RunCommand {
    /// Start a run, or one for each row of a file
    Start(StartArgs),
    /// List runs, newest first
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// Only later ones, RFC 3339
        #[arg(long, value_name = "INSTANT")]
        created_after: Option<DateTime<Utc>>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Show one run: what it waits for, who paused it, its steps
    Show {
        /// Its id
        run: String,
    },
    /// Follow a run until it ends; exits 0 completed, 1 failed, 4 cancelled
    Watch {
        /// Its id
        run: String,
    },
    /// Freeze runs: their clocks stop
    Pause(ManyArgs),
    /// Let paused runs go on
    Resume {
        #[command(flatten)]
        which: ManyArgs,
        /// How waits go on: with the time left, to the old due time, from the start, or ending now
        #[arg(long, value_parser = parsers::resume_mode())]
        mode: Option<String>,
    },
    /// End runs for good
    Cancel {
        #[command(flatten)]
        which: ManyArgs,
        /// Why, for people
        #[arg(long)]
        reason: Option<String>,
    },
}

/// What to start.
#[derive(Args)]
pub(crate) struct StartArgs {
    /// Which agent
    pub(crate) agent: String,
    /// What its steps see as `$input`: JSON, or a file that holds it
    #[arg(long, value_name = "JSON", value_parser = parsers::json_or_file)]
    pub(crate) input: Option<Value>,
    /// Whom it is about: the id of a contact, or a JSON object with `id`
    #[arg(long, value_name = "JSON|ID", value_parser = parsers::contact)]
    pub(crate) contact: Option<Value>,
    /// To find it again; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parsers::label)]
    pub(crate) labels: Vec<(String, String)>,
    /// One run a row: column `id` is the contact, other columns are its fields
    #[arg(long, value_name = "FILE", conflicts_with = "contact")]
    pub(crate) csv: Option<PathBuf>,
    /// Skip contacts that have a run of this agent
    #[arg(long)]
    pub(crate) once: bool,
    /// Follow until it ends
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Which runs, by what they have in common.
#[derive(Args, Default)]
pub(crate) struct FilterArgs {
    /// Only of this agent
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only with this status
    #[arg(long)]
    pub(crate) status: Option<RunStatus>,
    /// Only with this label
    #[arg(long, value_name = "NAME=VALUE", value_parser = parsers::label)]
    pub(crate) label: Option<(String, String)>,
}

/// Runs by id, or all that a filter finds.
#[derive(Args)]
pub(crate) struct ManyArgs {
    /// Ids or their unique beginnings; or say which with --agent, --status, --label
    #[arg(
        value_name = "RUN",
        required_unless_present_any = ["agent", "status", "label"],
        conflicts_with_all = ["agent", "status", "label"]
    )]
    pub(crate) runs: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// Which part of a list.
#[derive(Args)]
pub(crate) struct PageArgs {
    /// At most so many, 1 to 500
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=500))]
    pub(crate) limit: u64,
    /// Go on where the page before ended
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

/// Commands about contacts.
#[derive(Subcommand)]
pub(crate) enum ContactCommand {
    /// Store a contact; what was known of it before is replaced
    Put {
        /// A JSON object with `id`, or a file that holds one
        #[arg(value_name = "FILE|JSON", value_parser = parsers::contact_object)]
        contact: Value,
    },
    /// Show one contact
    Show {
        /// Its id
        id: String,
    },
    /// List contacts
    List(PageArgs),
    /// Change some fields: `replied=true score=7 note=` (empty removes; JSON is taken as JSON)
    Set {
        /// Its id
        id: String,
        /// What changes
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = parsers::field)]
        fields: Vec<(String, Value)>,
    },
}

/// Commands about the clock.
#[derive(Subcommand)]
pub(crate) enum ClockCommand {
    /// Show what time it is for Holdpoint
    Show,
    /// Move a test clock on; everything due until then happens in order
    Advance {
        /// How far, for example `5d` or `1d12h`
        #[arg(value_parser = parsers::duration)]
        by: String,
    },
}

#[cfg(test)]
mod tests;
