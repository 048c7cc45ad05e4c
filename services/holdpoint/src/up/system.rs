//! All services, the built-in worker and the bus in one process: started in order, stopped in reverse
//! order.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use chrono::TimeDelta;
use holdpoint_bus::Bus;
use holdpoint_bus::server::{self, Provided};
use holdpoint_clock::Clock;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::steps::Deregister;
use holdpoint_contracts::subject::SYSTEM_WORKSPACE;
use holdpoint_gateway::{Gateway, GatewayError};
use holdpoint_ids::Workspace;
use holdpoint_kernel::Deps;
use holdpoint_notification::PublicUrl;
use holdpoint_scheduler::KernelRegistry;
use holdpoint_worker::targets::EgressPolicy;
use holdpoint_worker::worker::new_node_name;
use strum::VariantArray as _;
use tokio::time::Instant;

use crate::cli::processes::Service;
use crate::connection::{Connection, WORKSPACE_DEFAULT};
use crate::file_privacy::create_private_dir;
use crate::serve::tables::{Tables, lock_file};
use crate::serve::{Environment, secrets, start_on_kernel};
use crate::service_group::ServiceGroup;

use super::builtin_tools;

/// Longest time in which all groups together stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// The part of it that is reserved for the services and the bus.
const STOP_SERVICES: Duration = Duration::from_secs(1);

/// Longest time until everything is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(20);

/// Polling interval for a stuck bus, and how long it must be stuck.
const STUCK_POLL: Duration = Duration::from_secs(1);
const STUCK_AFTER: Duration = Duration::from_secs(5);
/// Shortest time between two restarts of the bus. If a restart does not help, more do not help either.
const RESTART_EVERY: Duration = Duration::from_secs(60);
/// Longest time in which a restart is retried.
const RESTART_WITHIN: Duration = Duration::from_secs(60);
/// Free bytes of a disk that is not full.
const FREE_BYTES_MIN: u64 = 4 << 20;

/// File in the data directory that keeps the time of a test clock.
const CLOCK: &str = "clock";
/// Directory of mails in the data directory.
const MAILS: &str = "mails";
/// File in the data directory that names the built-in node.
const NODE: &str = "node";

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    /// Address to listen on; port 0 takes a free port.
    pub(crate) http: SocketAddr,
    /// A bus to use instead of starting one.
    pub(crate) nats_url: Option<String>,
    /// The default is the data directory.
    pub(crate) tables: Option<Tables>,
    pub(crate) test_clock: bool,
    /// How long ended runs and their notifications are kept.
    pub(crate) kept_for: TimeDelta,
    pub(crate) token: OwnerToken,
}

/// The owner's token after the start.
#[derive(Clone, Default)]
pub(crate) enum OwnerToken {
    /// A new one; earlier ones stay valid.
    #[default]
    New,
    /// This one, if it is still valid.
    Kept(String),
    /// A new one; earlier ones are revoked.
    Replaced,
}

pub(crate) struct System {
    pub(crate) running: RunningServices,
    nats: Provided,
    /// Data directory, which also has the data of the bus.
    data: PathBuf,
    restarted_at: Option<Instant>,
    _locks: Vec<File>,
}

/// Everything except the bus.
pub(crate) struct RunningServices {
    pub(crate) url: String,
    pub(crate) token: String,
    /// One-time link that signs a browser in.
    pub(crate) login: String,
    pub(crate) workspace: Workspace,
    /// Includes the key of the bus.
    pub(crate) nats_url: String,
    edge: ServiceGroup,
    worker: ServiceGroup,
    services: ServiceGroup,
    /// Status of all kernels of this process.
    kernels: KernelRegistry,
}

impl RunningServices {
    pub(crate) fn connection(&self) -> Connection {
        Connection {
            url: self.url.clone(),
            token: Some(self.token.clone()),
            workspace: self.workspace.to_string(),
        }
    }
}

impl System {
    /// Starts everything and returns once it is ready.
    ///
    /// # Errors
    /// When the data directory is in use, the bus is not available, or a service does not start.
    pub(crate) async fn start(settings: Settings) -> anyhow::Result<Self> {
        create_private_dir(&settings.data)?;
        let mut locks = vec![lock_data_dir(&settings.data)?];
        for service in Service::VARIANTS {
            locks.extend(settings.tables().lock(service.into())?);
        }
        refuse_test_data(&settings)?;
        check_address(settings.http).await?;
        let nats = server::provide(server::Settings {
            data_dir: settings.data.clone(),
            url: settings.nats_url.clone(),
        })
        .await?;
        match Box::pin(start_on_bus(&settings, &nats.url)).await {
            Ok(running) => Ok(Self {
                running,
                nats,
                data: settings.data,
                restarted_at: None,
                _locks: locks,
            }),
            Err(error) => {
                nats.stop().await;
                Err(error)
            }
        }
    }

    /// Waits until the bus that we started ends unexpectedly. A given bus is not watched.
    pub(crate) async fn bus_ended(&self) {
        self.nats.ended().await;
    }

    /// Waits until the bus that we started has not acknowledged stored messages for some time although
    /// its disk has space. After a full disk nats-server stays silent until it is restarted.
    pub(crate) async fn bus_is_stuck(&self) {
        let mut since = None;
        loop {
            tokio::time::sleep(STUCK_POLL).await;
            let has_space = rustix::fs::statvfs(&self.data)
                .is_ok_and(|disk| disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN);
            let is_stuck = self.running.kernels.is_bus_silent() && has_space;
            if !is_stuck || self.nats.pid().is_none() {
                since = None;
                continue;
            }
            let restarted_at = self.restarted_at;
            let is_too_soon = restarted_at.is_some_and(|at| at.elapsed() < RESTART_EVERY);
            if since.get_or_insert_with(Instant::now).elapsed() >= STUCK_AFTER && !is_too_soon {
                return;
            }
        }
    }

    /// Restarts the bus at the same address. It retries for some time, because the obstacle may be
    /// temporary, such as a lack of file descriptors.
    pub(crate) async fn restart_bus(&mut self) -> anyhow::Result<()> {
        tracing::warn!("nats-server stores nothing although its disk has space; restarting it");
        self.restarted_at = Some(Instant::now());
        let deadline = Instant::now() + RESTART_WITHIN;
        while let Err(error) = self.nats.start_anew().await {
            if Instant::now() > deadline {
                return Err(error.into());
            }
            tracing::warn!(%error, "nats-server did not start; retrying");
            tokio::time::sleep(STUCK_AFTER).await;
        }
        Ok(())
    }

    /// Stops everything in reverse order, so that no group loses what it calls.
    pub(crate) async fn stop(self) {
        let deadline = Instant::now() + STOP_WITHIN;
        let RunningServices {
            edge,
            worker,
            services,
            ..
        } = self.running;
        edge.stop("gateway", deadline - STOP_SERVICES).await;
        worker.stop("worker", deadline - STOP_SERVICES).await;
        services.stop("services", deadline).await;
        self.nats.stop().await;
    }
}

/// Finds a port in use before anything starts.
async fn check_address(address: SocketAddr) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(address).await;
    listener.map_err(|source| GatewayError::Listen { address, source })?;
    Ok(())
}

async fn start_on_bus(settings: &Settings, nats_url: &str) -> anyhow::Result<RunningServices> {
    let clock = if settings.test_clock {
        Clock::kept_in(&settings.data.join(CLOCK))?
    } else {
        Clock::system()
    };
    let services = ServiceGroup::default();
    let public_url = PublicUrl::default();
    let kernels = start_services(settings, nats_url, &clock, &services, &public_url).await?;
    deregister_previous_node(nats_url, &settings.data).await?;
    let worker = ServiceGroup::default();
    start_worker(settings, nats_url, &clock, &kernels, &worker).await?;
    let gateway = start_gateway(settings, nats_url, clock, kernels.clone()).await?;
    let workspace: Workspace = WORKSPACE_DEFAULT.parse()?;
    let token = match &settings.token {
        OwnerToken::New => gateway.owner_token(&workspace).await?,
        OwnerToken::Kept(kept) => gateway.kept_owner_token(&workspace, kept).await?,
        OwnerToken::Replaced => gateway.replace_owner_token(&workspace).await?,
    };
    let url = format!("http://{}", gateway.address());
    public_url.set(builtin_tools::public_url().or_else(|| Some(url.clone())));
    let login = format!("{url}{}", gateway.owner_login(&workspace).await?);
    let edge = ServiceGroup::default();
    edge.tracker.spawn(gateway.serve(edge.stop.clone()));
    wait_until_ready(&url).await?;
    Ok(RunningServices {
        url,
        token,
        login,
        workspace,
        nats_url: nats_url.to_owned(),
        edge,
        worker,
        services,
        kernels,
    })
}

async fn start_worker(
    settings: &Settings,
    nats_url: &str,
    clock: &Clock,
    kernels: &KernelRegistry,
    group: &ServiceGroup,
) -> anyhow::Result<()> {
    let bus = Bus::connect(nats_url, "worker").await?;
    let node = new_node_name("builtin")?;
    std::fs::write(settings.data.join(NODE), node.as_str())
        .context("cannot write the name of the built-in node")?;
    let mails = settings.data.join(MAILS);
    let targets = EgressPolicy::AllowPrivate;
    let worker = builtin_tools::worker(bus, clock.clone(), node, targets, &mails)?;
    kernels.watch("steps with the built-in worker", worker.busy());
    let stop = group.stop.clone();
    group.tracker.spawn(async move {
        if let Err(error) = worker.run(stop).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the worker ended; built-in tools do not run");
        }
    });
    Ok(())
}

/// Two processes on one directory would each assume to be the only writer of the tables.
fn lock_data_dir(data: &Path) -> anyhow::Result<File> {
    let in_use = || {
        format!(
            "{} is in use by another `holdpoint up`; stop it, or give another --data directory",
            data.display()
        )
    };
    lock_file(&data.join("up.lock"), in_use)
}

impl Settings {
    fn tables(&self) -> Tables {
        let in_data = || Tables::Sqlite(self.data.clone());
        self.tables.clone().unwrap_or_else(in_data)
    }
}

/// Data of a test clock may be from a future that real time has not reached.
fn refuse_test_data(settings: &Settings) -> anyhow::Result<()> {
    let clock = settings.data.join(CLOCK);
    if settings.test_clock || !clock.exists() {
        return Ok(());
    }
    let at = std::fs::read_to_string(&clock).unwrap_or_default();
    bail!(
        "{} was used with a test clock, which is at {at}; start with --test-clock, or give another \
         --data directory",
        settings.data.display()
    )
}

/// Each service has a separate connection and separate tables, as in a separate process. The executor
/// is last, because it uses the others.
async fn start_services(
    settings: &Settings,
    nats_url: &str,
    clock: &Clock,
    group: &ServiceGroup,
    public_url: &PublicUrl,
) -> anyhow::Result<KernelRegistry> {
    let secrets = secrets::read_or_create(&settings.data.join("secrets.json"))?;
    let environment = Environment {
        targets: EgressPolicy::AllowPrivate,
        mails: settings.data.join(MAILS),
        public_url: public_url.clone(),
        kernels: KernelRegistry::default(),
    };
    for service in [
        Service::Scheduler,
        Service::Handoff,
        Service::Notification,
        Service::Executor,
    ] {
        let name: &'static str = service.into();
        let deps = Deps {
            bus: Bus::connect(nats_url, name).await?,
            clock: clock.clone(),
            store: settings.tables().of(name),
            keys: secrets.keys()?,
            kept_for: settings.kept_for,
        };
        if let Some(status) = start_on_kernel(service, &deps, &environment, group).await? {
            environment.kernels.add(name, status);
        }
    }
    Ok(environment.kernels)
}

/// Ends the leases of the built-in node of the previous process now. We hold the lock of the directory,
/// so that process has ended.
async fn deregister_previous_node(nats_url: &str, data: &Path) -> anyhow::Result<()> {
    let name = std::fs::read_to_string(data.join(NODE)).unwrap_or_default();
    let Ok(node) = name.trim().parse() else {
        return Ok(());
    };
    let bus = Bus::connect(nats_url, "worker").await?;
    let deregister = Envelope::of_service("worker", Deregister { node });
    if let Err(problem) = bus.ask(&SYSTEM_WORKSPACE.parse()?, &deregister).await {
        tracing::warn!(%problem, "cannot deregister the previous node; its steps wait for their leases");
    }
    Ok(())
}

async fn start_gateway(
    settings: &Settings,
    nats_url: &str,
    clock: Clock,
    kernels: KernelRegistry,
) -> anyhow::Result<Gateway> {
    let secrets = secrets::read_or_create(&settings.data.join("secrets.json"))?;
    let deps = holdpoint_gateway::Deps {
        bus: Bus::connect(nats_url, "gateway").await?,
        clock,
        store: settings.tables().of("gateway"),
        signer: std::sync::Arc::new(secrets.signer()?),
        keys: secrets.keys()?,
        mails: Some(builtin_tools::mail_reader(settings.data.join(MAILS))),
        not_ready: Some(std::sync::Arc::new(move || kernels.not_ready())),
    };
    let http = settings.http;
    let config = holdpoint_gateway::Config { http };
    Ok(holdpoint_gateway::start(deps, config).await?)
}

async fn wait_until_ready(url: &str) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let started = std::time::Instant::now();
    loop {
        let response = client.get(format!("{url}/readyz")).send().await;
        let reason = match response {
            Ok(response) if response.status().is_success() => return Ok(()),
            Ok(response) => response.text().await.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        if started.elapsed() > READY_WITHIN {
            bail!("not ready after {} s: {reason}", READY_WITHIN.as_secs());
        }
        tokio::time::sleep(READY_POLL).await;
    }
}
