//! Puts the pieces together and starts them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use holdpoint_auth::Keys;
use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_store::{Checkpoints, Location, StoreError, TableWriter, open_readers};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::commit::Memory;
use crate::intake::{BYTES_MAX, Intake};
use crate::outbox::Kept;
use crate::publisher::{Published, Publisher, Publishing, UNPUBLISHED_MAX};
use crate::task::{Origin, Raw, Task};
use crate::vital::Vital;
use crate::wishes::Courier;
use crate::writer::Writer;
use crate::{Service, outbox, recovery, wishes};

/// Tasks that wait for the database thread; senders wait beyond it.
const TASKS_MAX: usize = 4_096;

/// What a service runs on.
#[derive(Debug, Clone)]
pub struct Deps {
    /// The bus.
    pub bus: Bus,
    /// The time.
    pub clock: Clock,
    /// Its own tables.
    pub store: Location,
    /// Whose word counts.
    pub keys: Keys,
}

/// A kernel could not be started.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Its tables cannot be opened.
    #[error("cannot open the tables of the {service} service")]
    Store {
        /// Whose.
        service: &'static str,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// Its stream or consumer cannot be had.
    #[error("cannot attach the {service} service to the bus")]
    Bus {
        /// Whose.
        service: &'static str,
        /// Why.
        #[source]
        source: BusError,
    },
    /// The database thread could not be started.
    #[error("cannot start the database thread of the {service} service")]
    Thread {
        /// Whose.
        service: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The database thread ended before it was ready.
    #[error("the database thread of the {service} service ended while starting")]
    Ended {
        /// Whose.
        service: &'static str,
    },
}

/// How busy a kernel is; all clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// Tasks that were taken in and are not yet committed, published and answered.
    pub(crate) in_flight: Arc<AtomicUsize>,
    /// Tasks that are through, since the start.
    pub(crate) handled: Arc<AtomicUsize>,
    /// Whether the database did not answer the last time it was asked.
    pub(crate) is_database_away: Arc<AtomicBool>,
    /// Whether committed messages wait for the bus, because it is away or refuses them.
    is_behind: Arc<AtomicBool>,
    /// Whether the bus said nothing to the oldest message of the outbox when it was tried last.
    is_outbox_silent: Arc<AtomicBool>,
    /// Whether the bus did not store the last wishes of some kind.
    are_wishes_refused: Arc<AtomicBool>,
    /// Whether it said nothing to them.
    are_wishes_silent: Arc<AtomicBool>,
    /// Since when the database thread has one batch in its hands.
    at_work_since: Arc<Mutex<Option<Instant>>>,
}

/// How long the database thread may have one batch in its hands and be ready: it takes milliseconds.
const BATCH_WITHIN: Duration = Duration::from_secs(10);

impl Activity {
    /// Counts something in that no message stands for: pages of a sweep that are known to come.
    pub fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    /// The end of what was begun.
    pub fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Tasks on their way through.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(crate) fn database_answers(&self) -> bool {
        !self.is_database_away.load(Ordering::Acquire)
    }

    pub(crate) fn set_database_answers(&self, answers: bool) {
        self.is_database_away.store(!answers, Ordering::Release);
    }

    /// The database thread takes a batch in hand, or has none any more.
    pub(crate) fn set_at_work(&self, is_at_work: bool) {
        let mut since = self
            .at_work_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *since = is_at_work.then(Instant::now);
    }

    /// Whether the database thread had one batch in its hands for too long at this moment.
    fn stands_still(&self, now: Instant) -> bool {
        let since = *self
            .at_work_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| now.saturating_duration_since(since) > BATCH_WITHIN)
    }

    /// What a kernel lacks to do work, the connection to the bus aside: its database has not answered
    /// last time, its database thread stands still, or JetStream does not take what is to be published.
    #[must_use]
    pub fn not_ready(&self) -> Option<&'static str> {
        if !self.database_answers() {
            return Some("the database does not answer, or takes nothing");
        }
        if self.stands_still(Instant::now()) {
            return Some("the database thread stands still");
        }
        (self.is_behind() || self.are_wishes_refused.load(Ordering::Acquire))
            .then_some("JetStream does not take what is to be published; is its disk full?")
    }

    /// Whether JetStream, though it is there, says nothing to what it is to store.
    #[must_use]
    pub fn is_bus_silent(&self) -> bool {
        self.is_outbox_silent.load(Ordering::Acquire)
            || self.are_wishes_silent.load(Ordering::Acquire)
    }

    pub(crate) fn set_outbox_silent(&self, is_silent: bool) {
        self.is_outbox_silent.store(is_silent, Ordering::Release);
    }

    pub(crate) fn set_wishes_refused(&self, are_refused: bool, by_silence: bool) {
        self.are_wishes_refused
            .store(are_refused, Ordering::Release);
        self.are_wishes_silent.store(by_silence, Ordering::Release);
    }

    /// Whether something that was committed waits for the bus.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Acquire)
    }

    /// While something is behind the kernel is not at rest.
    pub(crate) fn set_behind(&self, is_behind: bool) {
        let was_behind = self.is_behind.swap(is_behind, Ordering::AcqRel);
        match (was_behind, is_behind) {
            (false, true) => self.begin(),
            (true, false) => self.end(),
            (true, true) | (false, false) => {}
        }
    }

    /// Tasks that are through, since the start; only rises.
    #[must_use]
    pub fn handled(&self) -> usize {
        self.handled.load(Ordering::Acquire)
    }
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
    pub async fn submit(&self, inputs: Vec<S::Input>) -> bool {
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
    pub fn activity(&self) -> Activity {
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
    let on_bus = |source| KernelError::Bus {
        service: S::NAME,
        source,
    };
    deps.bus
        .provide_stream(StreamUse::Commands(S::NAME))
        .await
        .map_err(on_bus)?;
    let activity = Activity::default();
    let published = Published::default();
    let (tasks, inbox) = mpsc::channel(TASKS_MAX);
    let (publishing, batches) = mpsc::channel(UNPUBLISHED_MAX);
    let (ended, end) = oneshot::channel();
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
        ended,
    };
    let left_behind = writer.start(deps.store.clone()).await?;
    let readers = open_readers(&deps.store, 1).await;
    let readers = readers.map_err(|source| KernelError::Store {
        service: S::NAME,
        source,
    })?;
    // The process must not end before the thread has closed its tables.
    tracker.spawn(end.map(drop));
    let courier = Courier::new(
        Arc::clone(&service),
        deps.bus.clone(),
        published.clone(),
        activity.clone(),
        tasks.downgrade(),
    );
    let owned = (!deps.store.is_exclusive()).then(|| owner.clone());
    let publisher = Publisher::new(
        courier.clone(),
        readers.clone(),
        owned,
        left_behind,
        stop.clone(),
    );
    tracker.spawn(vital::<S>("publisher").run(publisher.run(batches)));
    if !deps.store.is_exclusive() {
        let (db, on) = (readers.clone(), stop.clone());
        let taking = recovery::take_over(publishing, courier.clone(), db, owner, on);
        tracker.spawn(vital::<S>("recovery").run(taking));
    }
    let confirmations = courier.subscribe().await.map_err(on_bus)?;
    let heard = courier.clone().confirmations(confirmations, stop.clone());
    tracker.spawn(vital::<S>("confirmations").run(heard));
    tracker.spawn(vital::<S>("resend").run(wishes::resend(courier, readers, stop.clone())));
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
    activity: Activity,
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
            .map_err(|source| KernelError::Store {
                service: S::NAME,
                source,
            })
    }

    async fn run(
        self,
        store: &Location,
        ready: oneshot::Sender<Result<VecDeque<Kept>, StoreError>>,
    ) {
        let (db, checkpoints, left_behind) = match open(store).await {
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
            ended,
        } = self;
        let memory = Memory::new(store.is_exclusive());
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
            next_trim: None,
            incidents: Vec::new(),
        }
        .run()
        .await;
        drop(checkpoints);
        drop(ended);
    }
}

async fn open(store: &Location) -> Result<(TableWriter, Checkpoints, VecDeque<Kept>), StoreError> {
    let db = TableWriter::open(store).await?;
    let checkpoints = Checkpoints::start(store).await?;
    // Where several kernels share the tables, a row may still be in its owner's hands.
    let left_behind = match store.is_exclusive() {
        true => left_behind(&db).await?,
        false => VecDeque::new(),
    };
    Ok((db, checkpoints, left_behind))
}

async fn left_behind(db: &TableWriter) -> Result<VecDeque<Kept>, StoreError> {
    let tx = db.begin().await?;
    let kept = outbox::left_behind(&tx).await?;
    tx.commit().await?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend B-12: a thread that does not come back from a batch is not ready; one that does is.
    #[test]
    fn a_thread_that_stands_still_is_noticed() {
        let activity = Activity::default();
        let later = || Instant::now() + BATCH_WITHIN + Duration::from_secs(1);
        assert!(!activity.stands_still(later()), "idle");
        activity.set_at_work(true);
        assert!(!activity.stands_still(Instant::now()), "at work");
        assert!(activity.stands_still(later()));
        activity.set_at_work(true);
        assert!(!activity.stands_still(Instant::now() + BATCH_WITHIN / 2));
        activity.set_at_work(false);
        assert!(!activity.stands_still(later()), "idle again");
    }
}
