//! `serve`: one service as a process of its own, for production.
//!
//! It has nothing of its own beside its tables: the bus, the database and the secrets are given. It
//! leaves on SIGTERM when the batch in its hands is through; what it did not take goes to the others.

mod health;
pub(crate) mod secrets;
pub(crate) mod tables;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_auth::Signer;
use holdpoint_clock::Clock;
use holdpoint_ids::Workspace;
use holdpoint_kernel::Deps;
use holdpoint_notification::PublicUrl;
use holdpoint_scheduler::KernelRegistry;
use holdpoint_worker::targets::{self, EgressPolicy};
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cli::{ServeArgs, Service};
use crate::connection::WORKSPACE_DEFAULT;
use crate::exit::Outcome;
use crate::output;
use crate::private;
use crate::up::tools::{self, Inline};

/// Longest time for what is in its hands; what is left then comes again from the tables.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Runs one service until it is told to stop.
pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Info);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    private::raise_file_limit();
    let name = args.service.name();
    let _lock = args.database_url.lock(name)?;
    let running = Running::default();
    let mut ready = tokio::select! {
        ready = Box::pin(running.start(&args)) => ready?,
        _ = interrupt.recv() => return Ok(Outcome::Interrupted.into()),
        _ = terminate.recv() => return Ok(Outcome::Ok.into()),
    };
    ready.insert("service".to_owned(), name.into());
    ready.insert("ready".to_owned(), true.into());
    output::line(&Value::Object(ready).to_string())?;
    let outcome = tokio::select! {
        _ = interrupt.recv() => Outcome::Interrupted,
        _ = terminate.recv() => Outcome::Ok,
    };
    running.stop.cancel();
    running.tracker.close();
    if tokio::time::timeout(STOP_WITHIN, running.tracker.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            service = name,
            "did not finish in time; the next start goes on from the tables"
        );
    }
    Ok(outcome.into())
}

/// What runs in this process.
#[derive(Default)]
struct Running {
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Running {
    /// Starts the service; returns what else there is to say of it.
    async fn start(&self, args: &ServeArgs) -> anyhow::Result<Map<String, Value>> {
        let name = args.service.name();
        let mut said = Map::new();
        let secrets = secrets::read(&args.secrets)?;
        let deps = Deps {
            bus: args
                .nats
                .connect(&args.nats_url, name, args.nats_replicas.map(usize::from))
                .await?,
            clock: Clock::system(),
            store: args.database_url.of(name),
            keys: secrets.keys()?,
        };
        let stop = self.stop.clone();
        let mut activity = None;
        match args.service {
            Service::Executor => {
                let allowed = std::env::var(targets::ALLOW_PRIVATE).ok();
                let targets = EgressPolicy::of_serve(allowed.as_deref());
                let (bus, clock) = (deps.bus.clone(), deps.clock.clone());
                let inline = Inline::new(bus, clock, targets, &args.mails)?;
                let runs = holdpoint_executor::start(&deps, Some(inline), stop, &self.tracker);
                activity = Some(runs.await?.status());
            }
            Service::Scheduler => {
                let kernels = KernelRegistry::default();
                let timers = holdpoint_scheduler::start(&deps, kernels, stop, &self.tracker);
                activity = Some(timers.await?.status());
            }
            Service::Handoff => {
                let requests = holdpoint_handoff::start(&deps, stop, &self.tracker);
                activity = Some(requests.await?.status());
            }
            Service::Notification => {
                let allowed = std::env::var(targets::ALLOW_PRIVATE).ok();
                let targets = EgressPolicy::of_serve(allowed.as_deref());
                let url = tools::public_url();
                if url.is_none() {
                    tracing::warn!("HOLDPOINT_PUBLIC_URL is not set: mails have no links");
                }
                let outside = tools::outside(targets, &args.mails, PublicUrl::of(url))?;
                let told = holdpoint_notification::start(&deps, outside, stop, &self.tracker);
                activity = Some(told.await?.status());
            }
            Service::Gateway => {
                let signer = secrets.signer()?;
                self.gateway(args, &deps, signer, &mut said).await?;
            }
        }
        if let Some(address) = args.health {
            let stop = self.stop.clone();
            let watched = health::Watched {
                bus: deps.bus,
                activity,
            };
            let address = health::start(address, watched, stop, &self.tracker).await?;
            said.insert("health".to_owned(), url(address));
        }
        Ok(said)
    }

    async fn gateway(
        &self,
        args: &ServeArgs,
        deps: &Deps,
        signer: Signer,
        said: &mut Map<String, Value>,
    ) -> anyhow::Result<()> {
        let gateway = holdpoint_gateway::Deps {
            bus: deps.bus.clone(),
            clock: deps.clock.clone(),
            store: deps.store.clone(),
            signer: Arc::new(signer),
            keys: deps.keys.clone(),
            mails: None,
            not_ready: None,
        };
        let config = holdpoint_gateway::Config { http: args.http };
        let gateway = holdpoint_gateway::start(gateway, config).await?;
        said.insert("http".to_owned(), url(gateway.address()));
        if args.owner_token {
            let workspace: Workspace = WORKSPACE_DEFAULT.parse()?;
            let token = gateway.owner_token(&workspace).await?;
            said.insert("token".to_owned(), json!(token));
        }
        let stop = self.stop.clone();
        self.tracker.spawn(gateway.serve(stop));
        Ok(())
    }
}

fn url(address: SocketAddr) -> Value {
    json!(format!("http://{address}"))
}
