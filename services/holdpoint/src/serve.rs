//! `serve`: one service as a separate process, for production.
//!
//! The process owns only its tables: bus, database and secrets are given. On SIGTERM it finishes its
//! current batch; other replicas get what it did not fetch.

mod health;
pub(crate) mod secrets;
pub(crate) mod tables;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_auth::Signer;
use holdpoint_clock::Clock;
use holdpoint_gateway::Gateway;
use holdpoint_kernel::{Deps, KernelStatus};
use holdpoint_notification::PublicUrl;
use holdpoint_scheduler::KernelRegistry;
use holdpoint_worker::targets::EgressPolicy;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::cli::processes::{ServeArgs, Service};
use crate::connection::WORKSPACE_DEFAULT;
use crate::service_group::ServiceGroup;
use crate::stop_signal::StopSignal;
use crate::up::builtin_tools::{self, InlineBuiltins};
use crate::{file_privacy, output};

/// Longest time to finish the current batch; after that the tables restore it at the next start.
const STOP_WITHIN: Duration = Duration::from_secs(10);

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Info);
    let mut signal = StopSignal::listen()?;
    file_privacy::raise_file_limit();
    let name: &str = args.service.into();
    let _lock = args.database.database_url.lock(name)?;
    let group = ServiceGroup::default();
    let mut ready = tokio::select! {
        ready = Box::pin(start(&args, &group)) => ready?,
        kind = signal.received() => return Ok(kind.into()),
    };
    ready.insert("service".to_owned(), name.into());
    ready.insert("ready".to_owned(), true.into());
    output::line(&Value::Object(ready).to_string())?;
    let kind = signal.received().await;
    group.stop(name, Instant::now() + STOP_WITHIN).await;
    Ok(kind.into())
}

/// Surroundings of the services of one process.
pub(crate) struct Environment {
    /// Addresses that tools and notifications may reach.
    pub(crate) targets: EgressPolicy,
    pub(crate) mails: PathBuf,
    pub(crate) public_url: PublicUrl,
    /// The kernels that a test clock waits for.
    pub(crate) kernels: KernelRegistry,
}

/// Starts a service that runs on the kernel; the gateway does not.
pub(crate) async fn start_on_kernel(
    service: Service,
    deps: &Deps,
    environment: &Environment,
    group: &ServiceGroup,
) -> anyhow::Result<Option<KernelStatus>> {
    let (targets, mails) = (environment.targets, &environment.mails);
    let (stop, tracker) = (group.stop.clone(), &group.tracker);
    let status = match service {
        Service::Executor => {
            let (bus, clock) = (deps.bus.clone(), deps.clock.clone());
            let inline = InlineBuiltins::new(bus, clock, targets, mails)?;
            let executor = holdpoint_executor::start(deps, Some(inline), stop, tracker);
            executor.await?.status()
        }
        Service::Scheduler => {
            let kernels = environment.kernels.clone();
            let scheduler = holdpoint_scheduler::start(deps, kernels, stop, tracker);
            scheduler.await?.status()
        }
        Service::Handoff => {
            let handoff = holdpoint_handoff::start(deps, stop, tracker);
            handoff.await?.status()
        }
        Service::Notification => {
            let url = environment.public_url.clone();
            let outside = builtin_tools::notification_outside(targets, mails, url)?;
            let notification = holdpoint_notification::start(deps, outside, stop, tracker);
            notification.await?.status()
        }
        Service::Gateway => return Ok(None),
    };
    Ok(Some(status))
}

/// Starts the service; returns additional fields of the line that says it is ready.
async fn start(args: &ServeArgs, group: &ServiceGroup) -> anyhow::Result<Map<String, Value>> {
    let name: &str = args.service.into();
    let mut fields = Map::new();
    let secrets = secrets::read(&args.secrets)?;
    let replicas = args.nats_replicas.map(usize::from);
    let deps = Deps {
        bus: args.nats.connect(&args.nats_url, name, replicas).await?,
        clock: Clock::system(),
        store: args.database.database_url.of(name),
        keys: secrets.keys()?,
        kept_for: args.retention.kept_for,
    };
    let status = if matches!(args.service, Service::Gateway) {
        let gateway = start_gateway(args, &deps, secrets.signer()?).await?;
        fields.insert("http".to_owned(), url(gateway.address()));
        if args.owner_token {
            let token = gateway.owner_token(&WORKSPACE_DEFAULT.parse()?).await?;
            fields.insert("token".to_owned(), json!(token));
        }
        group.tracker.spawn(gateway.serve(group.stop.clone()));
        None
    } else {
        let public_url = builtin_tools::public_url();
        if matches!(args.service, Service::Notification) && public_url.is_none() {
            tracing::warn!("HOLDPOINT_PUBLIC_URL is not set; mails have no links");
        }
        let environment = Environment {
            targets: builtin_tools::production_egress(),
            mails: args.mails.clone(),
            public_url: PublicUrl::of(public_url),
            kernels: KernelRegistry::default(),
        };
        start_on_kernel(args.service, &deps, &environment, group).await?
    };
    if let Some(address) = args.health {
        let bus = deps.bus;
        let address = health::start(address, health::Health { bus, status }, group).await?;
        fields.insert("health".to_owned(), url(address));
    }
    Ok(fields)
}

async fn start_gateway(args: &ServeArgs, deps: &Deps, signer: Signer) -> anyhow::Result<Gateway> {
    let deps = holdpoint_gateway::Deps {
        bus: deps.bus.clone(),
        clock: deps.clock.clone(),
        store: deps.store.clone(),
        signer: Arc::new(signer),
        keys: deps.keys.clone(),
        mails: None,
        not_ready: None,
    };
    let config = holdpoint_gateway::Config { http: args.http };
    Ok(holdpoint_gateway::start(deps, config).await?)
}

fn url(address: SocketAddr) -> Value {
    json!(format!("http://{address}"))
}
