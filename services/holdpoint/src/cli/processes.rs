//! Options of the commands that run or prepare processes: services, workers, NATS and `bench`.

use std::net::SocketAddr;
use std::path::PathBuf;

use chrono::TimeDelta;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use holdpoint_bus::{Access, Bus, BusError};
use holdpoint_ids::RunId;

use crate::parsers;
use crate::serve::tables::Tables;

/// A service that can be a separate process. Its text is its name in subjects, files and schemas.
#[derive(ValueEnum, Debug, Clone, Copy, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Service {
    /// Agents, contacts, runs, steps, history
    Executor,
    /// Timers
    Scheduler,
    /// Users, requests, policies
    Handoff,
    /// Notifications
    Notification,
    /// HTTP
    Gateway,
}

/// Identity of a process on the bus.
#[derive(Args)]
pub(crate) struct NatsAccess {
    /// Seed of this process's NATS key (see `nats-config`); `@FILE` reads it from a file
    #[arg(
        long,
        value_name = "SEED",
        env = "HOLDPOINT_NATS_SEED",
        hide_env_values = true,
        value_parser = parsers::secret
    )]
    pub(crate) nats_seed: Option<String>,
    /// Credentials file of a server in operator mode
    #[arg(
        long,
        value_name = "FILE",
        env = "HOLDPOINT_NATS_CREDS",
        conflicts_with = "nats_seed"
    )]
    pub(crate) nats_creds: Option<PathBuf>,
    /// PEM file of the CAs that the server's certificate must come from; requires TLS
    #[arg(long, value_name = "FILE", env = "HOLDPOINT_NATS_CA")]
    pub(crate) nats_ca: Option<PathBuf>,
    /// PEM file of this process's client certificate
    #[arg(
        long,
        value_name = "FILE",
        env = "HOLDPOINT_NATS_CERT",
        requires = "nats_key"
    )]
    pub(crate) nats_cert: Option<PathBuf>,
    /// PEM file of the client certificate's key
    #[arg(
        long,
        value_name = "FILE",
        env = "HOLDPOINT_NATS_KEY",
        requires = "nats_cert"
    )]
    pub(crate) nats_key: Option<PathBuf>,
}

impl NatsAccess {
    /// Connects under a name; `replicas` is the number of copies of each stream that it creates.
    pub(crate) async fn connect(
        &self,
        url: &str,
        name: &str,
        replicas: Option<usize>,
    ) -> Result<Bus, BusError> {
        let access = Access {
            seed: self.nats_seed.clone(),
            creds: self.nats_creds.clone(),
            ca: self.nats_ca.clone(),
            certificate: self.nats_cert.clone().zip(self.nats_key.clone()),
            replicas,
        };
        Bus::connect_with(url, name, &access).await
    }
}

#[derive(Args)]
pub(crate) struct RetentionArgs {
    /// How long ended runs, notifications, timers and dead letters are kept: 7 to 3650 days
    #[arg(
        id = "retention",
        long = "retention",
        value_name = "DURATION",
        env = "HOLDPOINT_RETENTION",
        default_value = "30 days",
        value_parser = parsers::retention
    )]
    pub(crate) kept_for: TimeDelta,
}

#[derive(Args)]
pub(crate) struct DatabaseArgs {
    /// Database: `postgres://…` (one schema per service), or `sqlite:DIR` (one process per service);
    /// `@FILE` reads it from a file
    #[arg(
        long,
        value_name = "URL",
        env = "HOLDPOINT_DATABASE_URL",
        hide_env_values = true,
        value_parser = parsers::tables
    )]
    pub(crate) database_url: Tables,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Service
    pub(crate) service: Service,
    /// NATS server, or the servers of a cluster separated by commas
    #[arg(
        long,
        value_name = "URL",
        env = "HOLDPOINT_NATS_URL",
        hide_env_values = true,
        value_parser = parsers::secret
    )]
    pub(crate) nats_url: String,
    #[command(flatten)]
    pub(crate) nats: NatsAccess,
    /// Copies of each stream: 1, 3 or 5 [default: 1 for a new stream; an existing one keeps its number]
    #[arg(
        long,
        value_name = "COPIES",
        env = "HOLDPOINT_NATS_REPLICAS",
        value_parser = clap::value_parser!(u8).range(1..=5)
    )]
    pub(crate) nats_replicas: Option<u8>,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// File with the output of `holdpoint secrets new`, the same for all services
    #[arg(long, value_name = "FILE", env = "HOLDPOINT_SECRETS")]
    pub(crate) secrets: PathBuf,
    /// Directory for mails of executor and notification if HOLDPOINT_SMTP_URL is not set
    #[arg(long, value_name = "DIR", default_value = "holdpoint-data/mails")]
    pub(crate) mails: PathBuf,
    /// Address on which the gateway listens; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) http: SocketAddr,
    /// Let the gateway print a new token of the workspace's owner
    #[arg(long)]
    pub(crate) owner_token: bool,
    #[command(flatten)]
    pub(crate) retention: RetentionArgs,
    /// Address on which to serve `/livez` and `/readyz`
    #[arg(long, value_name = "ADDR")]
    pub(crate) health: Option<SocketAddr>,
}

#[derive(Args)]
pub(crate) struct MigrateArgs {
    /// Instead create a Postgres role and schema per service and print their URLs; no role sees
    /// another service's tables
    #[arg(long)]
    pub(crate) roles: bool,
    /// Only this service
    #[arg(long)]
    pub(crate) service: Option<Service>,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
}

#[derive(Args)]
pub(crate) struct NatsConfigArgs {
    /// Directory for `nats.conf` and `<client>.seed` per client; existing seeds are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Workspace whose programs may publish commands; repeatable
    #[arg(long = "program", value_name = "WORKSPACE")]
    pub(crate) programs: Vec<holdpoint_ids::Workspace>,
    /// Name of an additional worker key besides `worker.seed`; repeatable
    #[arg(long = "worker", value_name = "NAME")]
    pub(crate) workers: Vec<holdpoint_ids::NodeName>,
    /// Address on which the server listens
    #[arg(long, default_value = "127.0.0.1:4222")]
    pub(crate) listen: SocketAddr,
    /// Directory in which the server keeps its streams
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nats")]
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) tls: Option<ServerTls>,
}

#[derive(Args)]
pub(crate) struct ServerTls {
    /// PEM file of the server's certificate
    #[arg(long, value_name = "FILE", required = false, requires = "tls_key")]
    pub(crate) tls_cert: PathBuf,
    /// PEM file of that certificate's key
    #[arg(long, value_name = "FILE", required = false, requires = "tls_cert")]
    pub(crate) tls_key: PathBuf,
    /// PEM file of the CAs that client certificates must come from
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true).args(["tools", "builtin", "remove_sandbox"])))]
pub(crate) struct WorkerArgs {
    /// Tools file in YAML or JSON: `{node, tools: [{name, risk, command: [..] | http: {..}, idempotent}]}`
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,
    /// Offer the built-in tools (log, set, http_request, send_email, add_tag, remove_tag,
    /// update_contact, search_contacts, create_task) and the registered HTTP tools
    #[arg(long)]
    pub(crate) builtin: bool,
    /// Directory for mails if HOLDPOINT_SMTP_URL is not set
    #[arg(long, value_name = "DIR", default_value = "holdpoint-data/mails")]
    pub(crate) mails: PathBuf,
    /// Directory for the sandboxes of commands
    #[arg(long, value_name = "DIR", default_value = "holdpoint-data/sandboxes")]
    pub(crate) sandboxes: PathBuf,
    /// Remove the sandboxes of a run below --sandboxes on this machine, and exit
    #[arg(long, value_name = "RUN")]
    pub(crate) remove_sandbox: Option<RunId>,
    /// NATS server or cluster [default: from cli.json of a running `up`]
    #[arg(
        long,
        value_name = "URL",
        env = "HOLDPOINT_NATS_URL",
        hide_env_values = true,
        value_parser = parsers::secret
    )]
    pub(crate) nats_url: Option<String>,
    #[command(flatten)]
    pub(crate) nats: NatsAccess,
}

#[derive(Subcommand)]
pub(crate) enum SecretsCommand {
    /// Print new secrets as JSON; only services may read them
    New,
}

/// A measurement of `bench`.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Throughput: runs of three dispatched steps, submitted as fast as possible
    P1,
    /// Latency: the same runs, with a fixed number in flight
    P2,
    /// Timers: how late they fire, and how soon a killed scheduler is back
    P3,
    /// Answers: runs that wait for a person are answered over HTTP
    P4,
    /// Take-over: one of two workers is killed while each step takes 5 s
    P5,
    /// Memory and CPU of the services at rest, without requests and with open ones
    Rest,
    /// Inbox: the first page of open approvals over HTTP
    Inbox,
    /// Starts over HTTP, one in a request and 500 in a request
    Start,
}

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Measurement
    pub(crate) shape: Shape,
    /// `sqlite`, or a Postgres server, on which a temporary database is created
    #[arg(long, value_name = "sqlite|URL", default_value = "sqlite")]
    pub(crate) database: String,
    /// Number of runs or due timers [default: p1 20000, p2 2000, p3 100000, p4 5000,
    /// p5 1000, rest 1000, inbox 10000, start 10000]
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u64>,
    /// Maximum of unanswered starts (p1), incomplete runs (p2) or unanswered calls (p4, start)
    /// [default: 1000, 1, 128]
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<usize>,
    /// Maximum of submitted runs (p1, p2, start) or answers (p4) per second
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u64>,
    /// Seconds over which the timers come due (p3), or of each measurement (rest)
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub(crate) over: u64,
    /// Number of additional timers that are due a day later (p3)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) far: u64,
    /// Runs that are completed before the measurement, besides a few (p1, p2, p4, inbox)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) history: u64,
    /// Requests that stay open during the measurement (p4)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) open: u64,
    /// All services in one process (not p3)
    #[arg(long)]
    pub(crate) up: bool,
    /// Keep the directory with tables and logs
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Args)]
pub(crate) struct BenchChildArgs {
    /// Address of the bus
    #[arg(long)]
    pub(crate) nats_url: String,
}
