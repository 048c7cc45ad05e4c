//! All services, the built-in worker and the bus in one process: started in order, stopped in
//! reverse.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use holdpoint_bus::Bus;
use holdpoint_bus::server::{self, Provided};
use holdpoint_clock::Clock;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::steps::Deregister;
use holdpoint_contracts::subject::SYSTEM_WORKSPACE;
use holdpoint_gateway::Gateway;
use holdpoint_ids::Workspace;
use holdpoint_kernel::Deps;
use holdpoint_notification::PublicUrl;
use holdpoint_scheduler::KernelRegistry;
use holdpoint_worker::targets::EgressPolicy;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::WORKSPACE_DEFAULT;
use crate::private::make_folder;
use crate::serve::secrets;
use crate::serve::tables::{Tables, take};

use super::tools;

/// Longest time that everything together gets to finish what it took in.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Of that, what is left to the services and the bus once the edge and the worker have ended.
const STOP_SERVICES: Duration = Duration::from_secs(1);

/// Longest time until everything must be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How often readiness is looked at while starting.
const READY_LOOK: Duration = Duration::from_millis(20);

/// How often it is looked whether our own bus is stuck, and how long it must have been.
const STUCK_LOOK: Duration = Duration::from_secs(1);
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// It is started anew no more often: where that does not help, something else is wrong.
const ANEW_EVERY: Duration = Duration::from_secs(60);

/// How long it is tried to start it anew.
const ANEW_WITHIN: Duration = Duration::from_secs(60);

/// Free bytes with which a disk is no longer full.
const ROOM_BYTES: u64 = 4 << 20;

/// The file in the data folder that keeps the time of a test clock.
const CLOCK: &str = "clock";

/// The file in the data folder that names the built-in node.
const NODE: &str = "node";

/// What to start, and where.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Everything that is kept.
    pub(crate) data: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub(crate) http: SocketAddr,
    /// A bus to use instead of one of our own.
    pub(crate) nats_url: Option<String>,
    /// Where services keep their tables, if not in `data`.
    pub(crate) tables: Option<Tables>,
    /// Whether time stands still until it is moved.
    pub(crate) test_clock: bool,
    /// The owner's token of an earlier start, and whether it is replaced.
    pub(crate) token: OwnerToken,
}

/// Which token the owner gets.
#[derive(Clone, Default)]
pub(crate) enum OwnerToken {
    /// A new one; earlier ones stay.
    #[default]
    New,
    /// This one, while it opens the workspace.
    Kept(String),
    /// A new one; earlier ones are revoked.
    Replaced,
}

/// A running system.
pub(crate) struct System {
    pub(crate) url: String,
    pub(crate) token: String,
    /// Signs a browser in, once.
    pub(crate) login: String,
    pub(crate) workspace: Workspace,
    /// With the key of the bus.
    pub(crate) nats_url: String,
    edge: Part,
    worker: Part,
    services: Part,
    nats: Provided,
    /// How the kernels of this process are.
    kernels: KernelRegistry,
    /// Where the bus keeps what it stores.
    data: PathBuf,
    /// When the bus was started anew last.
    anew_at: Option<Instant>,
    _locks: Vec<File>,
}

/// Things that stop together.
#[derive(Default)]
struct Part {
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Part {
    /// Tells them to stop and waits until they have, within bounds.
    async fn stop(self, name: &str, by: Instant) {
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout_at(by, self.tracker.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                part = name,
                "did not stop in time; the next start goes on from the tables"
            );
        }
    }
}

impl System {
    /// Starts everything and returns once it is ready.
    ///
    /// # Errors
    /// When the folder is in use, the bus is not to be had, or a service does not start.
    pub(crate) async fn start(settings: Settings) -> anyhow::Result<Self> {
        make_folder(&settings.data)?;
        let mut locks = vec![lock(&settings.data)?];
        for service in [
            "executor",
            "scheduler",
            "handoff",
            "notification",
            "gateway",
        ] {
            locks.extend(settings.tables().lock(service)?);
        }
        refuse_test_data(&settings)?;
        let wanted = server::Settings {
            data_dir: settings.data.clone(),
            url: settings.nats_url.clone(),
        };
        let nats = server::provide(wanted).await?;
        match Box::pin(Self::start_on(&settings, &nats.url)).await {
            Ok(started) => Ok(started.on(nats, settings.data, locks)),
            Err(error) => {
                nats.stop().await;
                Err(error)
            }
        }
    }

    async fn start_on(settings: &Settings, nats_url: &str) -> anyhow::Result<Started> {
        let clock = if settings.test_clock {
            Clock::kept_in(&settings.data.join(CLOCK))?
        } else {
            Clock::system()
        };
        let services = Part::default();
        let public_url = PublicUrl::default();
        let part = (&services, &public_url);
        let kernels = start_services(settings, nats_url, &clock, part).await?;
        let worker = Part::default();
        let bus = Bus::connect(nats_url, "worker").await?;
        let mails = settings.data.join("mails");
        let node = tools::node()?;
        std::fs::write(settings.data.join(NODE), node.as_str())
            .context("cannot note the name of the built-in node")?;
        let targets = EgressPolicy::AllowPrivate;
        let builtin = tools::worker(bus, clock.clone(), node, targets, &mails)?;
        kernels.watch("steps with the built-in worker", builtin.busy());
        let stop = worker.stop.clone();
        worker.tracker.spawn(async move {
            if let Err(error) = builtin.run(stop).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the worker ended");
            }
        });
        let gateway = start_gateway(settings, nats_url, clock, kernels.clone()).await?;
        let workspace: Workspace = WORKSPACE_DEFAULT.parse()?;
        let token = match &settings.token {
            OwnerToken::New => gateway.owner_token(&workspace).await?,
            OwnerToken::Kept(kept) => gateway.kept_owner_token(&workspace, kept).await?,
            OwnerToken::Replaced => gateway.replace_owner_token(&workspace).await?,
        };
        let url = format!("http://{}", gateway.address());
        public_url.tell(tools::public_url().or_else(|| Some(url.clone())));
        let login = format!("{url}{}", gateway.owner_login(&workspace).await?);
        let edge = Part::default();
        let stop = edge.stop.clone();
        edge.tracker.spawn(gateway.serve(stop));
        until_ready(&url).await?;
        let nats_url = nats_url.to_owned();
        Ok(Started {
            url,
            token,
            login,
            workspace,
            nats_url,
            edge,
            worker,
            services,
            kernels,
        })
    }

    /// Waits until our own bus has ended without being asked to; a given one is not watched.
    pub(crate) async fn bus_ended(&self) {
        self.nats.ended().await;
    }

    /// Waits until our own bus has said nothing for a while to what it is to store, though its disk has room: one
    /// that has met a full disk stays silent until it is started anew.
    pub(crate) async fn bus_is_stuck(&self) {
        let mut since = None;
        loop {
            tokio::time::sleep(STUCK_LOOK).await;
            let is_stuck = self.kernels.is_bus_silent() && has_room(&self.data);
            if !is_stuck || self.nats.pid().is_none() {
                since = None;
                continue;
            }
            let is_soon = self.anew_at.is_some_and(|at| at.elapsed() < ANEW_EVERY);
            if since.get_or_insert_with(Instant::now).elapsed() >= STUCK_AFTER && !is_soon {
                return;
            }
        }
    }

    /// Starts our own bus anew; everybody finds it at the same address. What keeps it from starting may
    /// pass, such as a lack of file descriptors, so it is tried for a while.
    pub(crate) async fn start_bus_anew(&mut self) -> anyhow::Result<()> {
        tracing::warn!("our nats-server stores nothing though its disk has room: starting it anew");
        self.anew_at = Some(Instant::now());
        let by = Instant::now() + ANEW_WITHIN;
        while let Err(error) = self.nats.start_anew().await {
            if Instant::now() > by {
                return Err(error.into());
            }
            tracing::warn!(%error, "our nats-server does not start; trying again");
            tokio::time::sleep(STUCK_AFTER).await;
        }
        Ok(())
    }

    /// Stops everything in reverse: callers, the worker, the services, the bus.
    pub(crate) async fn stop(self) {
        let by = Instant::now() + STOP_WITHIN;
        self.edge.stop("gateway", by - STOP_SERVICES).await;
        self.worker.stop("worker", by - STOP_SERVICES).await;
        self.services.stop("services", by).await;
        self.nats.stop().await;
    }
}

/// A system without what it stands on.
struct Started {
    url: String,
    token: String,
    login: String,
    workspace: Workspace,
    nats_url: String,
    edge: Part,
    worker: Part,
    services: Part,
    kernels: KernelRegistry,
}

impl Started {
    fn on(self, nats: Provided, data: PathBuf, locks: Vec<File>) -> System {
        let Self {
            url,
            token,
            login,
            workspace,
            nats_url,
            edge,
            worker,
            services,
            kernels,
        } = self;
        System {
            url,
            token,
            login,
            workspace,
            nats_url,
            edge,
            worker,
            services,
            nats,
            kernels,
            data,
            anew_at: None,
            _locks: locks,
        }
    }
}

/// Whether what is stored there could grow.
fn has_room(data: &Path) -> bool {
    rustix::fs::statvfs(data).is_ok_and(|disk| disk.f_bavail * disk.f_frsize >= ROOM_BYTES)
}

/// Two processes on one folder would each believe that they alone write the tables.
fn lock(data: &Path) -> anyhow::Result<File> {
    let taken = || {
        format!(
            "{} is in use by another `holdpoint up`: stop that one, or take another --data folder",
            data.display()
        )
    };
    take(&data.join("up.lock"), taken)
}

impl Settings {
    fn tables(&self) -> Tables {
        let in_data = || Tables::Sqlite(self.data.clone());
        self.tables.clone().unwrap_or_else(in_data)
    }
}

/// What was done on virtual time lies in a future that real time has not reached.
fn refuse_test_data(settings: &Settings) -> anyhow::Result<()> {
    let clock = settings.data.join(CLOCK);
    if settings.test_clock || !clock.exists() {
        return Ok(());
    }
    let at = std::fs::read_to_string(&clock).unwrap_or_default();
    bail!(
        "{} was used with a test clock, which stands at {at}: start with --test-clock, or take \
         another --data folder",
        settings.data.display()
    )
}

/// Every service has its own connection and its own tables, as it would as a process of its own.
async fn start_services(
    settings: &Settings,
    nats_url: &str,
    clock: &Clock,
    (part, public_url): (&Part, &PublicUrl),
) -> anyhow::Result<KernelRegistry> {
    let secrets = secrets::read_or_make(&settings.data.join("secrets.json"))?;
    let tables = settings.tables();
    let deps = async |name: &str| -> anyhow::Result<Deps> {
        Ok(Deps {
            bus: Bus::connect(nats_url, name).await?,
            clock: clock.clone(),
            store: tables.of(name),
            keys: secrets.keys()?,
        })
    };
    let kernels = KernelRegistry::default();
    let scheduler = deps("scheduler").await?;
    let timers = holdpoint_scheduler::start(
        &scheduler,
        kernels.clone(),
        part.stop.clone(),
        &part.tracker,
    )
    .await?;
    kernels.add("scheduler", timers.status());
    let handoff = deps("handoff").await?;
    let requests = holdpoint_handoff::start(&handoff, part.stop.clone(), &part.tracker).await?;
    kernels.add("handoff", requests.status());
    let notification = deps("notification").await?;
    let mails = settings.data.join("mails");
    let outside = tools::outside(EgressPolicy::AllowPrivate, &mails, public_url.clone())?;
    let (stop, tracker) = (part.stop.clone(), &part.tracker);
    let notes = holdpoint_notification::start(&notification, outside, stop, tracker).await?;
    kernels.add("notification", notes.status());
    let executor = deps("executor").await?;
    let targets = EgressPolicy::AllowPrivate;
    let inline = tools::Inline::new(executor.bus.clone(), clock.clone(), targets, &mails)?;
    let stop = part.stop.clone();
    let runs = holdpoint_executor::start(&executor, Some(inline), stop, &part.tracker).await?;
    kernels.add("executor", runs.status());
    farewell(&executor.bus, &settings.data).await?;
    Ok(kernels)
}

/// The built-in node of the process before is gone for certain: the folder's lock is ours. Its steps
/// need not wait until their leases run out.
async fn farewell(bus: &Bus, data: &Path) -> anyhow::Result<()> {
    let Ok(node) = std::fs::read_to_string(data.join(NODE)) else {
        return Ok(());
    };
    let Ok(node) = node.trim().parse() else {
        return Ok(());
    };
    let deregister = Envelope::of_service("worker", Deregister { node });
    if let Err(problem) = bus.ask(&SYSTEM_WORKSPACE.parse()?, &deregister).await {
        tracing::warn!(%problem, "steps of the node before wait until their leases run out");
    }
    Ok(())
}

async fn start_gateway(
    settings: &Settings,
    nats_url: &str,
    clock: Clock,
    kernels: KernelRegistry,
) -> anyhow::Result<Gateway> {
    let secrets = secrets::read_or_make(&settings.data.join("secrets.json"))?;
    let deps = holdpoint_gateway::Deps {
        bus: Bus::connect(nats_url, "gateway").await?,
        clock,
        store: settings.tables().of("gateway"),
        signer: std::sync::Arc::new(secrets.signer()?),
        keys: secrets.keys()?,
        mails: Some(tools::mails(settings.data.join("mails"))),
        not_ready: Some(std::sync::Arc::new(move || kernels.not_ready())),
    };
    let config = holdpoint_gateway::Config {
        http: settings.http,
    };
    Ok(holdpoint_gateway::start(deps, config).await?)
}

async fn until_ready(url: &str) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let started = std::time::Instant::now();
    loop {
        let answer = client.get(format!("{url}/readyz")).send().await;
        let reason = match answer {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) => answer.text().await.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        if started.elapsed() > READY_WITHIN {
            bail!("not ready after {} s: {reason}", READY_WITHIN.as_secs());
        }
        tokio::time::sleep(READY_LOOK).await;
    }
}
