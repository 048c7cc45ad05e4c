//! Puts the pieces together and starts them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use holdpoint_auth::Keys;
use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_store::{Checkpoints, Location, StoreError, TableWriter, open_readers};
use holdpoint_telemetry::Vital;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::KernelStatus;
use crate::commit::StateCache;
use crate::dead_letters::requests::{LetterCommand, Requests, WAITING_MAX};
use crate::desired_states::Sender;
use crate::intake::{BYTES_MAX, Intake};
use crate::outbox::Kept;
use crate::publisher::{Published, Publisher, Publishing, UNPUBLISHED_MAX};
use crate::suspects::{Isolation, Suspects};
use crate::task::{Origin, Raw, Task};
use crate::writer::Writer;
use crate::{InputOf, Service, desired_states, outbox, recovery};

/// Tasks that wait for the database thread; senders wait beyond it.
const TASKS_MAX: usize = 4_096;

/// What a service runs on.
#[derive(Debug, Clone)]
pub struct Deps {
    pub bus: Bus,
    pub clock: Clock,
    pub store: Location,
    pub keys: Keys,
}

/// A kernel could not be started.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Its tables cannot be opened.
    #[error("cannot open the tables of the {service} service")]
    Store {
        service: &'static str,
        #[source]
        source: StoreError,
    },
    /// Its stream or consumer cannot be had.
    #[error("cannot attach the {service} service to the bus")]
    Bus {
        service: &'static str,
        #[source]
        source: BusError,
    },
    /// The database thread could not be started.
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

/// How a service's own wheels and sweepers reach its kernel. Cheap to clone.
pub struct Handle<S: Service>(Intake<S>);

impl<S: Service> std::fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle").field(&S::NAME).finish()
    }
}

impl<S: Service> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Service> Handle<S> {
    /// Has inputs decided in one batch, and tells whether that was committed. What follows from it is
    /// published by then, or waits in the outbox while the bus is away or refuses it. If not,
    /// nothing of it has happened: the database is away, or the service stops.
    pub async fn submit(&self, inputs: Vec<InputOf<S>>) -> bool {
        let (done, through) = oneshot::channel();
        let raw = Raw {
            subject: format!("internal.{}", S::NAME),
            body: Bytes::new(),
        };
        let origin = Origin::Internal { done };
        self.0
            .submit(Task {
                inputs,
                whole: false,
                many: true,
                asked: None,
                origin,
                poison: None,
                is_unread: false,
                is_isolated: self.0.activity.isolation.is_isolated(),
                raw,
                room: None,
            })
            .await;
        // An error means that the service stops.
        through.await.unwrap_or(false)
    }

    /// The bus that it is on.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.0.bus
    }

    /// Whether it can do work at this moment.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.not_ready().is_none()
    }

    /// What it lacks to do work at this moment, if anything.
    #[must_use]
    pub fn not_ready(&self) -> Option<&'static str> {
        if !self.0.bus.is_connected() {
            return Some("the bus is away");
        }
        self.0.activity.not_ready()
    }

    /// How busy it is.
    #[must_use]
    pub fn activity(&self) -> KernelStatus {
        self.0.activity.clone()
    }
}

/// Starts a service's kernel: its stream, its database thread, its publisher and its intake. It
/// ends with `stop`: finishes what it took in, publishes it, and leaves the rest to the next start.
///
/// # Errors
/// [`KernelError`] when the tables or the bus are not to be had.
pub async fn start<S: Service>(
    deps: &Deps,
    service: Arc<S>,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<Handle<S>, KernelError> {
    let on_bus = on_bus::<S>;
    deps.bus
        .provide_stream(StreamUse::Commands(S::NAME))
        .await
        .map_err(on_bus)?;
    let activity = KernelStatus::default();
    let published = Published::default();
    let (tasks, inbox) = mpsc::channel(TASKS_MAX);
    let (publishing, batches) = mpsc::channel(UNPUBLISHED_MAX);
    let (ended, end) = oneshot::channel();
    let (letter_commands, letters) = mpsc::channel(WAITING_MAX);
    let owner = deps.bus.client().new_inbox();
    let writer = Thread {
        service: Arc::clone(&service),
        bus: deps.bus.clone(),
        clock: deps.clock.clone(),
        tasks: inbox,
        publishing: publishing.clone(),
        published: published.clone(),
        owner: owner.clone(),
        activity: activity.clone(),
        letters,
        ended,
    };
    let left_behind = writer.start(deps.store.clone()).await?;
    let readers = open_readers(&deps.store, 1).await;
    let readers = readers.map_err(on_store::<S>)?;
    // The process must not end before the thread has closed its tables.
    tracker.spawn(end.map(drop));
    let courier = Sender::new(
        Arc::clone(&service),
        deps.bus.clone(),
        published.clone(),
        activity.clone(),
        tasks.downgrade(),
    );
    let owned = (!deps.store.is_exclusive()).then(|| owner.clone());
    let (db, on) = (readers.clone(), stop.clone());
    let publisher = Publisher::new(courier.clone(), db, owned, left_behind, on);
    tracker.spawn(vital::<S>("publisher").run(publisher.run(batches)));
    if !deps.store.is_exclusive() {
        let (db, on) = (readers.clone(), stop.clone());
        let taking = recovery::take_over(publishing, courier.clone(), db, owner, on);
        tracker.spawn(vital::<S>("recovery").run(taking));
    }
    let requests = Requests {
        bus: deps.bus.clone(),
        db: readers.clone(),
        commands: letter_commands,
        stop: stop.clone(),
    };
    requests.open(S::NAME, tracker).await.map_err(on_bus)?;
    let confirmations = courier.subscribe().await.map_err(on_bus)?;
    let heard = courier.clone().confirmations(confirmations, stop.clone());
    tracker.spawn(vital::<S>("confirmations").run(heard));
    tracker.spawn(vital::<S>("resend").run(desired_states::resend(courier, readers, stop.clone())));
    let intake = Intake {
        service,
        bus: deps.bus.clone(),
        tasks,
        room: Arc::new(Semaphore::new(BYTES_MAX)),
        activity,
        stop,
    };
    let opened = intake.open(deps.store.is_exclusive(), tracker).await;
    opened.map_err(on_bus)?;
    Ok(Handle(intake))
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

/// A part whose panic ends the process.
pub(crate) fn vital<S: Service>(part: &'static str) -> Vital {
    Vital {
        service: S::NAME,
        part,
    }
}

/// What the database thread is given.
struct Thread<S: Service> {
    service: Arc<S>,
    bus: Bus,
    clock: Clock,
    tasks: mpsc::Receiver<Task<S>>,
    publishing: mpsc::Sender<Publishing>,
    published: Published,
    owner: String,
    activity: KernelStatus,
    letters: mpsc::Receiver<LetterCommand>,
    /// Gone when the thread has closed the tables.
    ended: oneshot::Sender<()>,
}

impl<S: Service> Thread<S> {
    /// Starts the thread; returns the outbox rows that it found.
    async fn start(self, store: Location) -> Result<VecDeque<Kept>, KernelError> {
        let (ready, started) = oneshot::channel();
        let io = |source| KernelError::Thread {
            service: S::NAME,
            source,
        };
        // The store is used on its own thread and runtime only; blocking on it inside another
        // runtime would panic.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(io)?;
        std::thread::Builder::new()
            .name(format!("{}-db", S::NAME))
            .spawn(move || {
                runtime.block_on(vital::<S>("database thread").run(self.run(&store, ready)));
            })
            .map_err(io)?;
        started
            .await
            .map_err(|_gone| KernelError::Ended { service: S::NAME })?
            .map_err(on_store::<S>)
    }

    async fn run(
        self,
        store: &Location,
        ready: oneshot::Sender<Result<VecDeque<Kept>, StoreError>>,
    ) {
        let named = (self.owner.clone(), self.activity.isolation.clone());
        let opened = open(store, named, self.clock.now()).await;
        let (db, checkpoints, left_behind, suspects) = match opened {
            Ok(opened) => opened,
            Err(error) => return drop(ready.send(Err(error))),
        };
        if ready.send(Ok(left_behind)).is_err() {
            return;
        }
        let Self {
            service,
            bus,
            clock,
            tasks,
            publishing,
            published,
            owner,
            activity,
            letters,
            ended,
        } = self;
        let memory = StateCache::new(store.is_exclusive());
        Writer {
            service,
            db,
            bus,
            clock,
            memory,
            tasks,
            publishing,
            published,
            owner,
            activity,
            suspects,
            suspect: None,
            letters,
            replayed: None,
            may_have_committed: false,
            next_trim: None,
            incidents: Vec::new(),
        }
        .run()
        .await;
        drop(checkpoints);
        drop(ended);
    }
}

/// What the database thread opens.
type Opened = (TableWriter, Checkpoints, VecDeque<Kept>, Suspects);

async fn open(
    store: &Location,
    named: (String, Isolation),
    now: DateTime<Utc>,
) -> Result<Opened, StoreError> {
    let db = TableWriter::open(store).await?;
    let checkpoints = Checkpoints::start(store).await?;
    // Where several kernels share the tables, a row may still be in its owner's hands.
    let left_behind = match store.is_exclusive() {
        true => left_behind(&db).await?,
        false => VecDeque::new(),
    };
    let suspects = Suspects::enter(&db, store, named, now).await?;
    Ok((db, checkpoints, left_behind, suspects))
}

async fn left_behind(db: &TableWriter) -> Result<VecDeque<Kept>, StoreError> {
    let tx = db.begin().await?;
    let kept = outbox::left_behind(&tx).await?;
    tx.commit().await?;
    Ok(kept)
}
