//! Options of services as processes of their own, and of measuring them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use holdpoint_bus::{Access, Bus, BusError};

use crate::parsers;
use crate::serve::tables::Tables;

/// A service that can be a process of its own.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// Agents, contacts, runs, steps, history
    Executor,
    /// Alarms
    Scheduler,
    /// People, requests, nodes
    Handoff,
    /// Notifications
    Notification,
    /// HTTP
    Gateway,
}

impl Service {
    /// As in subjects, files and schemas.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Executor => "executor",
            Self::Scheduler => "scheduler",
            Self::Handoff => "handoff",
            Self::Notification => "notification",
            Self::Gateway => "gateway",
        }
    }
}

/// Who a process is to the bus, and how it knows the bus.
#[derive(Args, Clone)]
pub(crate) struct NatsAccess {
    /// Seed of the key that the server knows this process by (`nats-config`); `@FILE` reads it from a file
    #[arg(
        long,
        value_name = "SEED",
        env = "HOLDPOINT_NATS_SEED",
        hide_env_values = true,
        value_parser = parsers::secret
    )]
    pub(crate) nats_seed: Option<String>,
    /// Credentials of a server in operator mode, instead of a seed
    #[arg(
        long,
        value_name = "FILE",
        env = "HOLDPOINT_NATS_CREDS",
        conflicts_with = "nats_seed"
    )]
    pub(crate) nats_creds: Option<PathBuf>,
    /// Certificates that vouch for the server, in PEM; requires TLS
    #[arg(long, value_name = "FILE", env = "HOLDPOINT_NATS_CA")]
    pub(crate) nats_ca: Option<PathBuf>,
    /// Certificate of this process, in PEM, where the server asks for one
    #[arg(
        long,
        value_name = "FILE",
        env = "HOLDPOINT_NATS_CERT",
        requires = "nats_key"
    )]
    pub(crate) nats_cert: Option<PathBuf>,
    /// The key of that certificate, in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "HOLDPOINT_NATS_KEY",
        requires = "nats_cert"
    )]
    pub(crate) nats_key: Option<PathBuf>,
}

impl NatsAccess {
    /// Connects under a name; `replicas` are the copies of streams that it makes.
    pub(crate) async fn connect(
        &self,
        url: &str,
        name: &str,
        replicas: Option<usize>,
    ) -> Result<Bus, BusError> {
        let certificate = self.nats_cert.clone().zip(self.nats_key.clone());
        let access = Access {
            seed: self.nats_seed.clone(),
            creds: self.nats_creds.clone(),
            ca: self.nats_ca.clone(),
            certificate,
            replicas,
        };
        Bus::connect_with(url, name, &access).await
    }
}

impl std::fmt::Debug for NatsAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The seed is a secret.
        f.debug_struct("NatsAccess").finish_non_exhaustive()
    }
}

/// How one service runs.
#[derive(Args, Debug, Clone)]
pub(crate) struct ServeArgs {
    /// Which service
    pub(crate) service: Service,
    /// The NATS server; the servers of a cluster separated by commas
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
    /// Copies of each stream that this service makes in a cluster: 1, 3 or 5 [default: as many as it has]
    #[arg(
        long,
        value_name = "COPIES",
        env = "HOLDPOINT_NATS_REPLICAS",
        value_parser = clap::value_parser!(u8).range(1..=5)
    )]
    pub(crate) nats_replicas: Option<u8>,
    /// `postgres://…`: a schema named like the service; `sqlite:DIR`: a file, and no replicas; `@FILE`
    /// reads it from a file
    #[arg(
        long,
        value_name = "URL",
        env = "HOLDPOINT_DATABASE_URL",
        hide_env_values = true,
        value_parser = parsers::tables
    )]
    pub(crate) database_url: Tables,
    /// What `holdpoint secrets new` printed; the same for all services
    #[arg(long, value_name = "FILE", env = "HOLDPOINT_SECRETS")]
    pub(crate) secrets: PathBuf,
    /// Executor and notification: where mails are kept as files while HOLDPOINT_SMTP_URL is not set
    #[arg(long, value_name = "DIR", default_value = "holdpoint-data/mails")]
    pub(crate) mails: PathBuf,
    /// Gateway: address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) http: SocketAddr,
    /// Gateway: print a new token of the workspace's owner when ready
    #[arg(long)]
    pub(crate) owner_token: bool,
    /// Answer `/livez` and `/readyz` here
    #[arg(long, value_name = "ADDR")]
    pub(crate) health: Option<SocketAddr>,
}

/// Whose tables to migrate.
#[derive(Args, Debug, Clone)]
pub(crate) struct MigrateArgs {
    /// First make a database role and a schema for each service, and print their addresses: each
    /// sees its own tables and no other's
    #[arg(long)]
    pub(crate) roles: bool,
    /// Only this service's
    #[arg(long)]
    pub(crate) service: Option<Service>,
    /// `postgres://…` or `sqlite:DIR`; `@FILE` reads it from a file
    #[arg(
        long,
        value_name = "URL",
        env = "HOLDPOINT_DATABASE_URL",
        hide_env_values = true,
        value_parser = parsers::tables
    )]
    pub(crate) database_url: Tables,
}

/// What to write for a NATS server.
#[derive(Args, Debug, Clone)]
pub(crate) struct NatsConfigArgs {
    /// Where: `nats.conf`, and `<client>.seed` for each client; keys that are there stay
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// A workspace whose programs may publish commands; may be repeated
    #[arg(long = "program", value_name = "WORKSPACE")]
    pub(crate) programs: Vec<holdpoint_ids::Workspace>,
    /// A further key for workers, beside `worker.seed`; may be repeated
    #[arg(long = "worker", value_name = "NAME")]
    pub(crate) workers: Vec<holdpoint_ids::NodeName>,
    /// Where the server listens
    #[arg(long, default_value = "127.0.0.1:4222")]
    pub(crate) listen: SocketAddr,
    /// Where the server keeps its streams
    #[arg(long, value_name = "DIR", default_value = "/var/lib/nats")]
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) tls: Option<ServerTls>,
}

/// How clients know the server, and talk to it unread.
#[derive(Args, Debug, Clone)]
pub(crate) struct ServerTls {
    /// The server's certificate, in PEM
    #[arg(long, value_name = "FILE", required = false, requires = "tls_key")]
    pub(crate) tls_cert: PathBuf,
    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", required = false, requires = "tls_cert")]
    pub(crate) tls_key: PathBuf,
    /// Take only clients whose certificate these vouch for, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

/// Where a worker takes steps from, and what it can do.
#[derive(Args, Debug, Clone)]
#[command(group(ArgGroup::new("what").required(true).args(["tools", "builtin"])))]
pub(crate) struct WorkerArgs {
    /// `{node, tools: [{name, command: [..] | http: {..}, idempotent}]}`, YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Option<PathBuf>,
    /// The tools that every installation has: log, http_request, send_email, update_contact,
    /// create_task, and those that are registered as HTTP calls
    #[arg(long)]
    pub(crate) builtin: bool,
    /// Where mails are kept as files while HOLDPOINT_SMTP_URL is not set
    #[arg(long, value_name = "DIR", default_value = "holdpoint-data/mails")]
    pub(crate) mails: PathBuf,
    /// The NATS server or cluster [default: that of a running `up`, by cli.json in its data directory]
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

/// Commands about secrets.
#[derive(Subcommand)]
pub(crate) enum SecretsCommand {
    /// Print fresh ones as JSON; keep them readable by the services alone
    New,
}

/// What `bench` measures.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Throughput: runs of three dispatched steps, submitted as fast as they are taken
    P1,
    /// Latency: the same runs, so many at a time
    P2,
    /// Alarms: how late they fire, and how soon a killed scheduler is back
    P3,
}

/// How `bench` measures.
#[derive(Args, Debug, Clone)]
pub(crate) struct BenchArgs {
    /// What to measure
    pub(crate) shape: Shape,
    /// `sqlite`, or a Postgres server: a database is made there and dropped again
    #[arg(long, value_name = "sqlite|URL", default_value = "sqlite")]
    pub(crate) database: String,
    /// Runs, or timers that come due [default: p1 20000, p2 2000, p3 100000]
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u64>,
    /// p1: starts that wait for their answer; p2: runs that are not completed [default: 1000, 1]
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<usize>,
    /// Submit at most so many runs a second
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<u64>,
    /// p3: over how many seconds the timers come due
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub(crate) over: u64,
    /// p3: timers beside them that are due a day later
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) far: u64,
    /// Keep the folder with tables and logs
    #[arg(long)]
    pub(crate) keep: bool,
}

/// What a part of `bench` needs to know.
#[derive(Args, Debug, Clone)]
pub(crate) struct BenchPartArgs {
    /// The bus
    #[arg(long)]
    pub(crate) nats_url: String,
}
