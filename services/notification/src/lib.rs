//! The notification service: who is told what of requests, and by which ways.
//!
//! The handoff service says what happened to a request and whom it concerns, the executor how runs ended
//! that somebody watches; this service knows who that is by its read copy of users, and tells each of them
//! once. It decides in `domain`, translates
//! in `inbound` and `outbound`, keeps rows in `store` and answers questions in `queries`; the loop
//! around all that is the kernel's. It never decides a request, and asks no other service for one.

pub mod domain;
mod inbound;
mod letter;
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
use holdpoint_kernel::{Deps, Handle, KernelError, Vital, serve_queries, start_sweep};
use holdpoint_store::{StoreError, migrate, open_readers};
use holdpoint_user_directory::{DirectoryWriter, UserDirectory};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sending::Pool;

pub use sending::{Jobs, Outside, PublicUrl};
pub use service::Notification;

/// Connections that answer queries and sweep.
const READERS: u32 = 4;

/// The notification service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NotificationError {
    /// Its tables are not to be had.
    #[error("cannot prepare the notification service's tables")]
    Store(#[from] StoreError),
    /// The bus refused.
    #[error("cannot attach the notification service to the bus")]
    Bus(#[from] BusError),
    /// The kernel did not start.
    #[error("cannot start the notification service")]
    Kernel(#[from] KernelError),
    /// No client for callbacks.
    #[error("cannot prepare what calls back; are there no root certificates?")]
    Callbacks(#[from] reqwest::Error),
}

/// The database thread writes the copy of users, like everything.
struct Kernel(Handle<Notification>);

impl DirectoryWriter for Kernel {
    fn apply(&self, facts: Vec<UserChange>) -> BoxFuture<'_, Result<(), Problem>> {
        async move {
            if self.0.submit(vec![domain::Input::Users(facts)]).await {
                return Ok(());
            }
            let detail = "the copy of the users cannot be written now; try again";
            Err(Problem::unavailable(detail))
        }
        .boxed()
    }
}

/// Longest time for one callback with its answer.
const CALLBACK_WITHIN: Duration = Duration::from_secs(15);

/// Starts the notification service; it ends with `stop`, when `tracker` is empty.
///
/// # Errors
/// [`NotificationError`] when tables or bus are not to be had.
pub async fn start(
    deps: &Deps,
    outside: Outside,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<Notification>, NotificationError> {
    migrate::<holdpoint_migrations::notification::Migrator>(&deps.store).await?;
    let client = outside.targets.client(CALLBACK_WITHIN)?;
    let (service, jobs) = Notification::new(
        deps.keys.trust.clone(),
        outside.targets,
        deps.clock.clone(),
        outside.public_url.clone(),
    );
    let telling = Arc::clone(&service.telling);
    let delivering = Arc::clone(&service.delivering);
    let post = Arc::clone(&service.post);
    let service = Arc::new(service);
    let handle = holdpoint_kernel::start(deps, service, stop.clone(), tracker).await?;
    let readers = open_readers(&deps.store, READERS).await?;
    let sink = Arc::new(Kernel(handle.clone()));
    let people = UserDirectory::with(deps.bus.clone(), readers.clone(), sink);
    tracker.spawn(vital("users").run(people.clone().keep(stop.clone())));
    let sweep = sweeps::Telling {
        wake: Arc::clone(&telling),
        people,
        facts: store::Turns::default(),
        ends: store::Turns::default(),
    };
    let nudge = start_sweep(&handle, readers.clone(), sweep, stop.clone(), tracker);
    telling.wakes(nudge, handle.status());
    post.open(handle.status());
    let sweep = sweeps::Delivering {
        wake: Arc::clone(&delivering),
        post: Arc::clone(&post),
        clock: deps.clock.clone(),
        since: None,
    };
    let nudge = start_sweep(&handle, readers.clone(), sweep, stop.clone(), tracker);
    delivering.wakes(nudge.clone(), handle.status());
    let sweep = sweeps::Forgetting {
        clock: deps.clock.clone(),
    };
    start_sweep(&handle, readers.clone(), sweep, stop.clone(), tracker);
    let sweep = sweeps::Digesting {
        clock: deps.clock.clone(),
        after: None,
    };
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

/// A part whose panic ends the process: people would not be told, and nothing would say so.
pub(crate) const fn vital(part: &'static str) -> Vital {
    Vital {
        service: "notification",
        part,
    }
}
