//! Builds the parts of a kernel and starts them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chrono::TimeDelta;
use holdpoint_auth::Keys;
use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_store::{Checkpoints, Location, StoreError, TableWriter, open_readers};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::completion::CompletionQueue;
use crate::dead_letters::requests::{DeadLetterCommand, Requests, WAITING_MAX};
use crate::desired_states::{resend::resend, sender::Sender};
use crate::intake::{BYTES_MAX, Intake};
use crate::origin::Origin;
use crate::outbox::publisher::{CommittedBatch, Publisher, UNPUBLISHED_MAX};
use crate::outbox::recovery::adopt_orphaned;
use crate::outbox::rows::{self, OutboxEntry};
use crate::service::{InputOf, Service, vital};
use crate::status::KernelStatus;
use crate::suspects::Suspects;
use crate::task::{Raw, Task};
use crate::writer::{Writer, commit::StateCache, delayed_replies::DelayedReplies};

/// Tasks in the channel to the database thread. Beyond it senders wait.
const TASKS_MAX: usize = 4_096;

/// How long the product keeps what has ended, unless its user chooses another time (S0-NFR).
pub const RETENTION_DEFAULT: TimeDelta = TimeDelta::days(30);

/// What a service needs to run.
#[derive(Debug, Clone)]
pub struct Deps {
    pub bus: Bus,
    pub clock: Clock,
    pub store: Location,
    pub keys: Keys,
    /// How long the service keeps what has ended, and dead letters (B-11).
    pub kept_for: TimeDelta,
}

#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("cannot open the tables of the {service} service")]
    Store {
        service: &'static str,
        #[source]
        source: StoreError,
    },
    #[error("cannot attach the {service} service to the bus")]
    Bus {
        service: &'static str,
        #[source]
        source: BusError,
    },
    #[error("cannot start the database thread of the {service} service")]
    Thread {
        service: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// The database thread ended before it was ready.
    #[error("the database thread of the {service} service ended while starting")]
    Ended { service: &'static str },
}

/// Submits inputs of a service's own wheels and sweeps to its kernel. Cheap to clone.
pub struct Handle<S: Service>(Arc<Intake<S>>);

impl<S: Service> std::fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle").field(&S::NAME).finish()
    }
}

impl<S: Service> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Service> Handle<S> {
    /// Has inputs decided in one batch; returns whether it was committed. By then its messages are published,
    /// or wait in the outbox for the bus. `false`: nothing has happened, because the database is unavailable or
    /// the service stops.
    pub async fn submit(&self, inputs: Vec<InputOf<S>>) -> bool {
        self.submit_from(S::NAME, inputs).await
    }

    /// As [`Handle::submit`], for the inputs of a sweep. Its name is their verb at a crash point.
    pub(crate) async fn submit_from(&self, source: &'static str, inputs: Vec<InputOf<S>>) -> bool {
        let (done, committed) = oneshot::channel();
        let raw = Raw {
            subject: format!("internal.{source}"),
            body: Bytes::new(),
        };
        self.0
            .submit(Task {
                many: true,
                is_isolated: self.0.status.isolation.is_isolated(),
                ..Task::new(inputs, Origin::Internal { done }, raw)
            })
            .await;
        // An error means that the service stops.
        committed.await.unwrap_or(false)
    }

    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.0.bus
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.not_ready().is_none()
    }

    /// Why the kernel is not ready, if it is not.
    #[must_use]
    pub fn not_ready(&self) -> Option<&'static str> {
        if !self.0.bus.is_connected() {
            return Some("the bus is disconnected");
        }
        self.0.status.not_ready()
    }

    #[must_use]
    pub fn status(&self) -> KernelStatus {
        self.0.status.clone()
    }
}

/// Starts a service's kernel: its stream, database thread, publisher and intake. When `stop` is cancelled it
/// finishes and publishes what it has received, and leaves the rest to the next start.
///
/// # Errors
/// [`KernelError`]: the tables or the bus are not available.
pub async fn start<S: Service>(
    deps: &Deps,
    service: Arc<S>,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<S>, KernelError> {
    let (bus, store) = (&deps.bus, &deps.store);
    let on_bus = on_bus::<S>;
    let stream = bus.provide_stream(StreamUse::Commands(S::NAME)).await;
    stream.map_err(on_bus)?;
    let Started {
        sender,
        tasks,
        batches,
        batch_inbox,
        commands,
        owner,
        pending,
    } = start_writer(deps, &service, tracker).await?;
    let db = open_readers(store, 1).await.map_err(on_store::<S>)?;
    let rows_owner = (!store.is_exclusive()).then(|| owner.clone());
    let publisher = Publisher::new(
        sender.clone(),
        db.clone(),
        rows_owner,
        pending,
        stop.clone(),
    );
    tracker.spawn(vital::<S>("publisher").run(publisher.run(batch_inbox)));
    if !store.is_exclusive() {
        let adopting = adopt_orphaned(batches, sender.clone(), db.clone(), owner, stop.clone());
        tracker.spawn(vital::<S>("recovery").run(adopting));
    }
    let requests = Requests {
        bus: bus.clone(),
        db: db.clone(),
        commands,
        stop: stop.clone(),
    };
    requests.start(S::NAME, tracker).await.map_err(on_bus)?;
    let replies = sender.subscribe().await.map_err(on_bus)?;
    let handling = sender.clone().handle_replies(replies, stop.clone());
    tracker.spawn(vital::<S>("acknowledgements").run(handling));
    let status = sender.status.clone();
    tracker.spawn(vital::<S>("resend").run(resend(sender, db, stop.clone())));
    let intake = Arc::new(Intake {
        service,
        bus: bus.clone(),
        tasks,
        permits: Arc::new(Semaphore::new(BYTES_MAX)),
        status,
        stop,
    });
    let opened = intake.open(store.is_exclusive(), tracker).await;
    opened.map_err(on_bus)?;
    Ok(Handle(intake))
}

/// The other ends of the writer's channels, and what it found in the tables.
struct Started<S: Service> {
    sender: Arc<Sender<S>>,
    tasks: mpsc::Sender<Task<S>>,
    batches: mpsc::Sender<CommittedBatch>,
    batch_inbox: mpsc::Receiver<CommittedBatch>,
    commands: mpsc::Sender<DeadLetterCommand>,
    /// This kernel's name on its outbox rows.
    owner: String,
    pending: VecDeque<OutboxEntry>,
}

async fn start_writer<S: Service>(
    deps: &Deps,
    service: &Arc<S>,
    tracker: &TaskTracker,
) -> Result<Started<S>, KernelError> {
    let status = KernelStatus::default();
    let completions = CompletionQueue::default();
    let (tasks, task_inbox) = mpsc::channel(TASKS_MAX);
    let (batches, batch_inbox) = mpsc::channel(UNPUBLISHED_MAX);
    let (commands, dead_letter_commands) = mpsc::channel(WAITING_MAX);
    let owner = deps.bus.client().new_inbox();
    let sender = Arc::new(Sender::new(
        Arc::clone(service),
        deps.bus.clone(),
        completions.clone(),
        status.clone(),
        tasks.downgrade(),
    ));
    let (is_exclusive, at_thread) = (deps.store.is_exclusive(), status.clone());
    let (service, bus, clock) = (Arc::clone(service), deps.bus.clone(), deps.clock.clone());
    let kept_for = deps.kept_for;
    let (name, to_publisher) = (owner.clone(), batches.clone());
    let make_writer = move |db, suspects| Writer {
        service,
        db,
        bus,
        clock,
        kept_for,
        cache: StateCache::new(is_exclusive),
        delayed_replies: DelayedReplies::default(),
        tasks: task_inbox,
        batches: to_publisher,
        completions,
        owner: name,
        status,
        suspects,
        suspect: None,
        dead_letter_commands,
        replayed: None,
        may_have_committed: false,
        next_trim: None,
        incidents: Vec::new(),
    };
    let (deps, token) = (deps.clone(), tracker.token());
    let started = start_thread(deps, owner.clone(), at_thread, token, make_writer);
    Ok(Started {
        sender,
        tasks,
        batches,
        batch_inbox,
        commands,
        owner,
        pending: started.await?,
    })
}

const fn on_bus<S: Service>(source: BusError) -> KernelError {
    KernelError::Bus {
        service: S::NAME,
        source,
    }
}

const fn on_store<S: Service>(source: StoreError) -> KernelError {
    KernelError::Store {
        service: S::NAME,
        source,
    }
}

/// Starts the database thread; returns the outbox rows of an earlier process. `token` keeps the process alive
/// until the thread has closed the tables.
async fn start_thread<S: Service>(
    deps: Deps,
    owner: String,
    status: KernelStatus,
    token: TaskTrackerToken,
    make_writer: impl FnOnce(TableWriter, Suspects) -> Writer<S> + Send + 'static,
) -> Result<VecDeque<OutboxEntry>, KernelError> {
    let (ready, started) = oneshot::channel();
    let io = |source| KernelError::Thread {
        service: S::NAME,
        source,
    };
    // The store is used on its own thread and runtime only: blocking on it inside another runtime
    // would panic.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io)?;
    std::thread::Builder::new()
        .name(format!("{}-db", S::NAME))
        .spawn(move || {
            let work = async move {
                let (db, checkpoints, suspects, pending) = match open(&deps, owner, &status).await {
                    Ok(opened) => opened,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                if ready.send(Ok(pending)).is_ok() {
                    make_writer(db, suspects).run().await;
                }
                drop(checkpoints);
                drop(token);
            };
            runtime.block_on(vital::<S>("database thread").run(work));
        })
        .map_err(io)?;
    started
        .await
        .map_err(|_gone| KernelError::Ended { service: S::NAME })?
        .map_err(on_store::<S>)
}

type Opened = (TableWriter, Checkpoints, Suspects, VecDeque<OutboxEntry>);

async fn open(deps: &Deps, owner: String, status: &KernelStatus) -> Result<Opened, StoreError> {
    let db = TableWriter::open(&deps.store).await?;
    let checkpoints = Checkpoints::start(&deps.store).await?;
    // In shared tables another live kernel may own a row, so rows are adopted by lease only.
    let mut pending = VecDeque::new();
    if deps.store.is_exclusive() {
        let tx = db.begin().await?;
        pending = rows::load_pending(&tx).await?;
        tx.commit().await?;
    }
    let (isolation, now) = (status.isolation.clone(), deps.clock.now());
    let suspects = Suspects::enter(&db, &deps.store, owner, isolation, now).await?;
    Ok((db, checkpoints, suspects, pending))
}
