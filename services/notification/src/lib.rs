//! The notification service: who is notified of requests and run ends, and through which channels.
//!
//! The handoff service reports request events and their recipients, and the executor reports run ends that are
//! watched. This service resolves the people by its user directory and notifies each of them once. It decides
//! in `domain`, translates in `inbound` and `outbound`, keeps rows in `store` and replies to queries in
//! `queries`; the loop is the kernel's. It must never decide a request.

pub mod domain;
mod email_template;
mod inbound;
mod outbound;
mod queries;
mod sending;
mod service;
mod slack;
mod store;
mod sweeps;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdpoint_bus::BusError;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::UserChange;
use holdpoint_kernel::{Deps, Handle, KernelError, serve_queries, start_retention, start_sweep};
use holdpoint_store::{StoreError, migrate, open_readers};
use holdpoint_user_directory::{DirectoryWriter, UserDirectory};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use domain::Input;
use sending::Pool;
use service::vital;
use sweeps::digests::Digests;
use sweeps::due_deliveries::DueDeliveries;
use sweeps::fan_out::FanOut;
use sweeps::run_end_watches::RunEndWatches;

pub use sending::Outside;
pub use sending::post::{Jobs, PublicUrl};
pub use service::Notification;

/// Connections for queries and sweeps.
const READERS: u32 = 4;

/// The notification service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NotificationError {
    #[error("cannot prepare the notification service's tables")]
    Store(#[from] StoreError),
    #[error("cannot attach the notification service to the bus")]
    Bus(#[from] BusError),
    #[error("cannot start the notification service")]
    Kernel(#[from] KernelError),
    #[error("cannot prepare the client for callbacks; check the root certificates")]
    Callbacks(#[from] reqwest::Error),
}

/// Writes the user directory through the database thread, like all tables.
struct Kernel(Handle<Notification>);

impl DirectoryWriter for Kernel {
    fn apply(&self, changes: Vec<UserChange>) -> BoxFuture<'_, Result<(), Problem>> {
        async move {
            if self.0.submit(vec![Input::Users(changes)]).await {
                return Ok(());
            }
            let detail = "the user directory cannot be written now; try again";
            Err(Problem::unavailable(detail))
        }
        .boxed()
    }
}

/// Longest time for one callback with its response.
const CALLBACK_WITHIN: Duration = Duration::from_secs(15);

/// Starts the notification service; it ends with `stop`, when `tracker` is empty. What has ended is deleted after
/// `deps.kept_for`.
///
/// # Errors
/// [`NotificationError`] if tables or bus are unavailable.
pub async fn start(
    deps: &Deps,
    outside: Outside,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<Notification>, NotificationError> {
    migrate::<holdpoint_migrations::notification::Migrator>(&deps.store).await?;
    let client = outside.targets.client(CALLBACK_WITHIN)?;
    let (mut service, jobs) = Notification::new(
        deps.keys.trust.clone(),
        outside.targets,
        deps.clock.clone(),
        outside.public_url.clone(),
    );
    service.mailer = Some(outside.mailer.clone());
    let fan_out_wake = Arc::clone(&service.fan_out_wake);
    let delivery_wake = Arc::clone(&service.delivery_wake);
    let post = Arc::clone(&service.post);
    let service = Arc::new(service);
    let handle = holdpoint_kernel::start(deps, service, stop.clone(), tracker).await?;
    let readers = open_readers(&deps.store, READERS).await?;
    let sink = Arc::new(Kernel(handle.clone()));
    let people = UserDirectory::with(deps.bus.clone(), readers.clone(), sink);
    tracker.spawn(vital("users").run(people.clone().keep(stop.clone())));
    let sweep = FanOut {
        wake: Arc::clone(&fan_out_wake),
        people,
        events: store::FairQueue::new(false),
        run_ends: store::FairQueue::new(true),
    };
    let nudge = start_sweep(&handle, readers.clone(), sweep, stop.clone(), tracker);
    fan_out_wake.connect(nudge, handle.status());
    post.open(handle.status());
    let sweep = DueDeliveries {
        wake: Arc::clone(&delivery_wake),
        post: Arc::clone(&post),
        clock: deps.clock.clone(),
        since: None,
    };
    let nudge = start_sweep(&handle, readers.clone(), sweep, stop.clone(), tracker);
    delivery_wake.connect(nudge.clone(), handle.status());
    start_retention(&handle, deps, &readers, &stop, tracker);
    let sweep = Digests {
        clock: deps.clock.clone(),
        after: None,
    };
    start_sweep(&handle, readers.clone(), sweep, stop.clone(), tracker);
    let sweep = RunEndWatches::default();
    start_sweep(&handle, readers.clone(), sweep, stop.clone(), tracker);
    let pool = Pool {
        post,
        handle: handle.clone(),
        readers: readers.clone(),
        clock: deps.clock.clone(),
        outside,
        client,
        links: deps.keys.links.clone(),
        nudge,
    };
    pool.start(jobs, stop.clone(), tracker);
    let queries = Arc::new(queries::NotificationQueries::new(readers));
    serve_queries(&deps.bus, queries, stop, tracker).await?;
    Ok(handle)
}
