//! What this worker holds: deliveries before a grant, leases after it.
//!
//! Owns which steps are this worker's, and for each the way back to the server until its delivery
//! is acked. Before the grant progress acks keep the delivery; from the grant on the lease is the
//! executor's row, kept by `heartbeat`, which reads here what is worked on. It must never ack by
//! itself: a delivery that is dropped unanswered is left to be delivered again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::AckKind;
use holdpoint_bus::Bus;
use holdpoint_contracts::steps::{LEASE_DEFAULT_MS, LEASE_MIN_MS, StepDispatch, StepRef};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Two progress acks may be lost within [`STEPS_ACK_WAIT`](holdpoint_bus::STEPS_ACK_WAIT) before a delivery is.
const PROGRESS: Duration = Duration::from_millis(700);

/// Hand-outs that are remembered: what a server may have forgotten the acks of.
const BEGUN_MAX: usize = 100_000;

/// All steps that are held.
#[derive(Clone)]
pub(super) struct LeaseTable {
    shared: Arc<Shared>,
}

struct Shared {
    /// How many steps are held, for whoever wants to know.
    busy: Arc<AtomicUsize>,
    bus: Bus,
    given_up: CancellationToken,
    steps: Mutex<HashMap<StepRef, Holding>>,
    begun: Mutex<Begun>,
    /// The lease that the last beat named.
    beaten_lease_ms: AtomicU64,
    heartbeat_now: Notify,
}

/// The dispatches that this worker was granted or is done with, the newest of them: an ack can be
/// undone and a delivery count go back, and the executor would take the same question of the same
/// node for one whose answer was lost.
#[derive(Default)]
struct Begun {
    known: HashSet<StepRef>,
    order: VecDeque<StepRef>,
}

impl Begun {
    fn add(&mut self, claimed: &StepRef) {
        if !self.known.insert(claimed.clone()) {
            return;
        }
        self.order.push_back(claimed.clone());
        if self.order.len() > BEGUN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

struct Holding {
    /// Where the delivery is answered; none once it is acked.
    reply: Option<String>,
    /// Length of the lease in milliseconds; none before the grant.
    lease_ms: Option<u64>,
    stop: CancellationToken,
}

/// What the node works on, for its heartbeat.
pub(super) struct Working {
    pub(super) claimed: Vec<StepRef>,
    /// The shortest lease among them; the default when there is none.
    pub(super) lease_ms: u64,
}

impl LeaseTable {
    /// `given_up` stops all tools at once.
    pub(super) fn new(bus: Bus, given_up: CancellationToken, busy: Arc<AtomicUsize>) -> Self {
        let shared = Shared {
            busy,
            bus,
            given_up,
            steps: Mutex::default(),
            begun: Mutex::default(),
            beaten_lease_ms: AtomicU64::new(LEASE_DEFAULT_MS),
            heartbeat_now: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Holds a delivery from now on. None: this worker holds the same dispatch already and was
    /// thought lost (or its ack was); it goes on, and answers the newer delivery.
    pub(super) async fn take(&self, step_dispatch: &StepDispatch, reply: &str) -> Option<Delivery> {
        let claimed = StepRef {
            workspace: step_dispatch.workspace.clone(),
            run: step_dispatch.run,
            step: step_dispatch.step.clone(),
            dispatch: step_dispatch.dispatch,
        };
        let stop = match self.join(&claimed, reply) {
            Joined::New(stop) => stop,
            Joined::Unacked => return None,
            Joined::Acked => {
                self.answer(reply.to_owned(), AckKind::Ack).await;
                return None;
            }
        };
        Some(Delivery {
            claimed,
            lease_ms: step_dispatch.claim_timeout_ms.max(LEASE_MIN_MS),
            stop,
            held: self.clone(),
        })
    }

    fn join(&self, claimed: &StepRef, reply: &str) -> Joined {
        let mut steps = self.steps();
        if let Some(holding) = steps.get_mut(claimed) {
            if holding.reply.is_none() {
                return Joined::Acked;
            }
            holding.reply = Some(reply.to_owned());
            return Joined::Unacked;
        }
        if self.begun().known.contains(claimed) {
            return Joined::Acked;
        }
        let stop = self.shared.given_up.child_token();
        let holding = Holding {
            reply: Some(reply.to_owned()),
            lease_ms: None,
            stop: stop.clone(),
        };
        steps.insert(claimed.clone(), holding);
        self.shared.busy.store(steps.len(), Ordering::Release);
        Joined::New(stop)
    }

    /// Sends progress for all deliveries that are not acked, until it is aborted.
    pub(super) async fn keep_deliveries(self) {
        let mut ticks = tokio::time::interval(PROGRESS);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let replies: Vec<_> = self
                .steps()
                .values()
                .filter_map(|holding| holding.reply.clone())
                .collect();
            for reply in replies {
                self.answer(reply, AckKind::Progress).await;
            }
        }
    }

    pub(super) async fn answer(&self, reply: String, kind: AckKind) {
        if let Err(error) = self.shared.bus.send(reply, kind.into()).await {
            tracing::debug!(%error, "an ack was not sent; the delivery comes again");
        }
    }

    /// What a beat says. From here on a grant of a shorter lease than it names asks for another.
    pub(super) fn working(&self) -> Working {
        let (claimed, leases): (Vec<_>, Vec<_>) = self
            .steps()
            .iter()
            .filter_map(|(claimed, holding)| Some((claimed.clone(), holding.lease_ms?)))
            .unzip();
        let lease_ms = leases.into_iter().min().unwrap_or(LEASE_DEFAULT_MS);
        self.shared
            .beaten_lease_ms
            .store(lease_ms, Ordering::SeqCst);
        Working { claimed, lease_ms }
    }

    /// Asks for a beat at once: the executor is to know of the tools.
    pub(super) fn heartbeat_now(&self) {
        self.shared.heartbeat_now.notify_one();
    }

    /// Ends when a lease was granted that the last beat does not keep.
    pub(super) async fn shorter_lease(&self) {
        self.shared.heartbeat_now.notified().await;
    }

    /// Stops the tools of steps that are not this node's any more.
    pub(super) fn stop(&self, claims: &[StepRef]) {
        let steps = self.steps();
        for holding in claims.iter().filter_map(|claimed| steps.get(claimed)) {
            holding.stop.cancel();
        }
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.shared
            .begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn steps(&self) -> MutexGuard<'_, HashMap<StepRef, Holding>> {
        self.shared
            .steps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

enum Joined {
    New(CancellationToken),
    Unacked,
    Acked,
}

/// One held step. Dropped before it is acked it is no longer kept, and comes again; dropped after
/// a grant its lease ends by the executor's clock.
pub(super) struct Delivery {
    claimed: StepRef,
    lease_ms: u64,
    stop: CancellationToken,
    held: LeaseTable,
}

impl Delivery {
    /// Cancelled when the executor wants the step stopped, and when the worker gives up.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// How long its lease will be.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The start is the executor's row: the server forgets the delivery, heartbeats keep the lease.
    pub(super) async fn granted(&self) {
        self.held.begun().add(&self.claimed);
        if let Some(holding) = self.held.steps().get_mut(&self.claimed) {
            holding.lease_ms = Some(self.lease_ms);
        }
        let shared = &self.held.shared;
        if self.lease_ms < shared.beaten_lease_ms.load(Ordering::SeqCst) {
            shared.heartbeat_now.notify_one();
        }
        self.answer_once(AckKind::Ack).await;
    }

    /// Its result is kept elsewhere: the server forgets the delivery, the step is held on.
    pub(super) async fn stored(&self) {
        self.answer_once(AckKind::Ack).await;
    }

    /// It is done with: no delivery and no lease any more.
    pub(super) async fn end(self) {
        self.held.begun().add(&self.claimed);
        self.answer_once(AckKind::Ack).await;
    }

    /// It is given back, and delivered again after `delay`.
    pub(super) async fn give_back(self, delay: Duration) {
        self.answer_once(AckKind::Nak(Some(delay))).await;
    }

    /// Takes the reply off the list first: a progress ack after the last word could undo it.
    async fn answer_once(&self, kind: AckKind) {
        let reply = self
            .held
            .steps()
            .get_mut(&self.claimed)
            .and_then(|holding| holding.reply.take());
        if let Some(reply) = reply {
            self.held.answer(reply, kind).await;
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let mut steps = self.held.steps();
        steps.remove(&self.claimed);
        self.held.shared.busy.store(steps.len(), Ordering::Release);
    }
}
