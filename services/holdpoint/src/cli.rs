//! Commands, options and help of the command line. It holds no behaviour.
//!
//! Help of a command is a verb and an object; help of an option is a noun phrase or a verb and an
//! object. Each is one sentence without a full stop.

pub(crate) mod arguments;
pub(crate) mod library;
pub(crate) mod notifications;
pub(crate) mod processes;
pub(crate) mod rehearsals;
pub(crate) mod requests;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod standing_approvals;
pub(crate) mod workspace;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use self::library::{CalendarCommand, TemplateCommand};
use self::notifications::{FollowCommand, NotificationsArgs, PreferencesCommand, WebhooksCommand};
use self::processes::{
    BenchArgs, BenchChildArgs, MigrateArgs, NatsConfigArgs, RetentionArgs, SecretsCommand,
    ServeArgs, WorkerArgs,
};
use self::rehearsals::RehearsalCommand;
use self::requests::RequestCommand;
use self::runs::{AgentCommand, ContactCommand, OperationCommand, RunCommand};
use self::schedules::ScheduleCommand;
use self::standing_approvals::StandingApprovalCommand;
use self::workspace::{
    ClockCommand, DeadCommand, MeshCommand, PoliciesCommand, TokenCommand, ToolCommand,
    UserCommand, WorkspaceCommand,
};
use crate::parsers;
use crate::serve::tables::Tables;

/// Default data directory of `up`, in which clients look for its address.
pub(crate) const DATA_DIR_DEFAULT: &str = "holdpoint-data";

/// At most 80 columns, because clap does not break these lines well.
const AFTER_HELP: &str = "\
Connection: --url and --token, else HOLDPOINT_URL and HOLDPOINT_TOKEN, else the
file cli.json that a running `holdpoint up` keeps in its data directory.
A unique prefix is enough for ids of runs, requests, notifications and webhooks.
Instants are shown in the time zone of this machine.
Other users of this machine can read command lines. Pass a secret in the
environment or as @FILE.

Exit codes:
  0    ok                        5    timed out, or accepted but not done yet
  1    failed                    6    conflict
  2    invalid usage             7    Holdpoint is not reachable
  3    not found                 75   parked: `ask --park` has no answer yet
  4    rejected or forbidden     130  interrupted

NO_COLOR turns colour off. CLICOLOR_FORCE=1 turns it on without a terminal.";

/// Run AI agents durably: they wait, ask people, hand off work and survive restarts
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
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Address of Holdpoint [default: http://127.0.0.1:7878]
    #[arg(long, global = true, env = "HOLDPOINT_URL")]
    pub(crate) url: Option<String>,
    /// Token for that address; `@FILE` reads it from a file
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
    /// Print JSON bodies of the API instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl GlobalArgs {
    /// The option, else `HOLDPOINT_DATA`, else `./holdpoint-data`.
    pub(crate) fn data_dir(&self) -> PathBuf {
        let from_environment = || {
            let dir = std::env::var_os("HOLDPOINT_DATA").filter(|dir| !dir.is_empty())?;
            Some(PathBuf::from(dir))
        };
        let dir = self.data.clone().or_else(from_environment);
        dir.unwrap_or_else(|| PathBuf::from(DATA_DIR_DEFAULT))
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process
    Up(UpArgs),
    /// Play a story with waits, questions, approvals and real mails
    Demo(DemoArgs),
    /// Run one service as a separate process
    Serve(ServeArgs),
    /// Run steps with the tools of a file or the built-in tools
    Worker(WorkerArgs),
    /// Migrate the tables
    Migrate(MigrateArgs),
    /// Create the secrets that services share
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Measure a temporary system; print one JSON line per result
    Bench(BenchArgs),
    /// Run the worker of `bench`, which starts it
    #[command(hide = true)]
    BenchWorker(BenchChildArgs),
    /// Run the load of `bench`, which starts it
    #[command(hide = true)]
    BenchLoad(BenchChildArgs),
    /// Manage agents
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Manage the rehearsals of agents
    #[command(subcommand)]
    Rehearsal(RehearsalCommand),
    /// Start, watch and control runs
    #[command(subcommand)]
    Run(RunCommand),
    /// Follow actions on many runs
    #[command(subcommand)]
    Operation(OperationCommand),
    /// Manage the contacts that runs are about
    #[command(subcommand)]
    Contact(ContactCommand),
    #[command(flatten)]
    Request(RequestCommand),
    /// Manage users
    #[command(subcommand)]
    User(UserCommand),
    /// Manage tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Manage tools
    #[command(subcommand)]
    Tool(ToolCommand),
    /// Manage mail templates, which agents use by name
    #[command(subcommand)]
    Template(TemplateCommand),
    /// Manage calendars, which agents use by name
    #[command(subcommand)]
    Calendar(CalendarCommand),
    /// List your notifications, or mark them as read
    Notifications(NotificationsArgs),
    #[command(flatten)]
    Follow(FollowCommand),
    /// Show or change how you are notified
    #[command(subcommand)]
    Preferences(PreferencesCommand),
    /// Manage webhooks, which notify programs and chats of requests
    #[command(subcommand)]
    Webhooks(WebhooksCommand),
    /// Manage approval and escalation policies
    #[command(subcommand)]
    Policies(PoliciesCommand),
    /// Approve calls of tools in advance
    #[command(subcommand)]
    StandingApproval(StandingApprovalCommand),
    /// Start runs by a cron expression
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Create a workspace, or pause and resume this one
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    #[command(flatten)]
    Mesh(MeshCommand),
    /// Manage dead letters: messages that could not be handled
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Show the clock, or advance a test clock
    #[command(subcommand)]
    Clock(ClockCommand),
    /// Write a NATS configuration with a key per client
    NatsConfig(NatsConfigArgs),
    /// Print completions for a shell
    Completions {
        /// Shell
        shell: Shell,
    },
}

/// Options of `up`.
#[derive(Args)]
pub(crate) struct UpArgs {
    /// Address to listen on; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) http: SocketAddr,
    /// NATS server to use instead of starting one; `@FILE` reads it from a file
    #[arg(long, value_name = "URL", value_parser = parsers::secret)]
    pub(crate) nats_url: Option<String>,
    /// Database: `postgres://…` or `sqlite:DIR` [default: the data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "HOLDPOINT_DATABASE_URL",
        hide_env_values = true,
        value_parser = parsers::tables
    )]
    pub(crate) database_url: Option<Tables>,
    #[command(flatten)]
    pub(crate) retention: RetentionArgs,
    /// Use a clock that moves only by `clock advance`
    #[arg(long)]
    pub(crate) test_clock: bool,
    /// Replace the owner's token and revoke the old one
    #[arg(long)]
    pub(crate) new_token: bool,
}

/// Options of `demo`.
#[derive(Args)]
#[command(
    after_help = "The demo runs in a temporary directory. With --data DIR it keeps a new directory."
)]
pub(crate) struct DemoArgs {
    /// Omit the pauses between scenes
    #[arg(long)]
    pub(crate) fast: bool,
    /// File with your contacts: a column `id`; other columns become fields
    #[arg(long, value_name = "CSV")]
    pub(crate) contacts: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
