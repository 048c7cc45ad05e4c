//! The steps that this worker holds: deliveries before the grant, leases after it.
//!
//! Owns the list of held steps, with the reply subject of each until its delivery is acked. Before the
//! grant, progress acks keep the delivery. After it, the lease is a row of the executor that `heartbeat`
//! renews. It must never ack by itself: a delivery that is dropped without an ack is redelivered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::AckKind;
use holdpoint_bus::Bus;
use holdpoint_contracts::steps::{LEASE_DEFAULT_MS, LEASE_MIN_MS, StepDispatch, StepRef};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::suspension::SuspendableStep;
use crate::suspension::CallSuspension;

/// Two progress acks may be lost within [`STEPS_ACK_WAIT`](holdpoint_bus::STEPS_ACK_WAIT) before a delivery is.
const PROGRESS: Duration = Duration::from_millis(700);

/// Dispatches that are remembered, because a server may have lost their acks.
const KNOWN_MAX: usize = 100_000;

/// All held steps. Cheap to clone.
#[derive(Clone)]
pub(super) struct LeaseTable {
    shared: Arc<Shared>,
}

struct Shared {
    busy: Arc<AtomicUsize>,
    bus: Bus,
    given_up: CancellationToken,
    steps: Mutex<HashMap<StepRef, HeldStep>>,
    known: Mutex<KnownDispatches>,
    /// The shortest lease that the last heartbeat reported.
    sent_lease_ms: AtomicU64,
    heartbeat_now: Notify,
}

/// The newest dispatches that this worker was granted or has finished. The server can lose an ack and reset
/// a delivery count, and the executor would take a repeated request of the same node for one whose reply
/// was lost.
#[derive(Default)]
struct KnownDispatches {
    dispatches: HashSet<StepRef>,
    order: VecDeque<StepRef>,
}

impl KnownDispatches {
    fn add(&mut self, claimed: &StepRef) {
        if !self.dispatches.insert(claimed.clone()) {
            return;
        }
        self.order.push_back(claimed.clone());
        if self.order.len() > KNOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.dispatches.remove(&oldest);
        }
    }
}

struct HeldStep {
    /// The reply subject of the delivery. `None`: it is acked.
    reply: Option<String>,
    /// `None` before the grant.
    lease_ms: Option<u64>,
    stop: CancellationToken,
    suspension: CallSuspension,
    token: Option<String>,
    /// Its tool has ended, and only its result is not acknowledged.
    has_ended: bool,
    /// It was reported for a suspension.
    is_reported: bool,
}

/// The leases of the node, for its heartbeat.
pub(super) struct HeldLeases {
    pub(super) steps: Vec<StepRef>,
    /// The shortest of them, or the default if there is none.
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
            known: Mutex::default(),
            sent_lease_ms: AtomicU64::new(LEASE_DEFAULT_MS),
            heartbeat_now: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Holds a delivery. `None`: this worker holds or has finished the same dispatch already. A held step
    /// continues and answers the newer delivery.
    pub(super) async fn take(
        &self,
        step_dispatch: &StepDispatch,
        reply: &str,
        suspension: &CallSuspension,
    ) -> Option<Delivery> {
        let claimed = StepRef {
            workspace: step_dispatch.workspace.clone(),
            run: step_dispatch.run,
            step: step_dispatch.step.clone(),
            dispatch: step_dispatch.dispatch,
        };
        let token = step_dispatch.token.clone();
        let saved = SavedBy {
            suspension: suspension.clone(),
            token,
        };
        let stop = match self.join(&claimed, reply, saved) {
            TakeResult::New(stop) => stop,
            TakeResult::Unacked => return None,
            TakeResult::Acked => {
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

    fn join(&self, claimed: &StepRef, reply: &str, saved: SavedBy) -> TakeResult {
        let mut steps = self.steps();
        if let Some(step) = steps.get_mut(claimed) {
            if step.reply.is_none() {
                return TakeResult::Acked;
            }
            step.reply = Some(reply.to_owned());
            return TakeResult::Unacked;
        }
        if self.known().dispatches.contains(claimed) {
            return TakeResult::Acked;
        }
        let stop = self.shared.given_up.child_token();
        let step = HeldStep {
            reply: Some(reply.to_owned()),
            lease_ms: None,
            stop: stop.clone(),
            suspension: saved.suspension,
            token: saved.token,
            has_ended: false,
            is_reported: false,
        };
        steps.insert(claimed.clone(), step);
        self.shared.busy.store(steps.len(), Ordering::Release);
        TakeResult::New(stop)
    }

    /// Sends progress acks for all unacked deliveries until it is aborted.
    pub(super) async fn keep_deliveries(self) {
        let mut ticks = tokio::time::interval(PROGRESS);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let replies: Vec<_> = self
                .steps()
                .values()
                .filter_map(|step| step.reply.clone())
                .collect();
            for reply in replies {
                self.answer(reply, AckKind::Progress).await;
            }
        }
    }

    pub(super) async fn answer(&self, reply: String, kind: AckKind) {
        if let Err(error) = self.shared.bus.send(reply, kind.into()).await {
            tracing::debug!(%error, "ack not sent; the delivery will be redelivered");
        }
    }

    /// The leases for a heartbeat. A later grant of a shorter lease triggers another heartbeat.
    pub(super) fn leases(&self) -> HeldLeases {
        let (steps, leases): (Vec<_>, Vec<_>) = self
            .steps()
            .iter()
            .filter_map(|(claimed, step)| Some((claimed.clone(), step.lease_ms?)))
            .unzip();
        let lease_ms = leases.into_iter().min().unwrap_or(LEASE_DEFAULT_MS);
        self.shared.sent_lease_ms.store(lease_ms, Ordering::SeqCst);
        HeldLeases { steps, lease_ms }
    }

    /// Triggers a heartbeat, so that the executor learns of the tools.
    pub(super) fn heartbeat_now(&self) {
        self.shared.heartbeat_now.notify_one();
    }

    /// Ends when a heartbeat is due at once.
    pub(super) async fn wait_for_trigger(&self) {
        self.shared.heartbeat_now.notified().await;
    }

    /// Stops the tools of steps that this node does not hold any more.
    pub(super) fn stop(&self, steps_to_stop: &[StepRef]) {
        let steps = self.steps();
        for step in steps_to_stop
            .iter()
            .filter_map(|claimed| steps.get(claimed))
        {
            step.stop.cancel();
        }
    }

    /// Asks the tools of suspended steps to save what they know. Returns the steps that are to be reported.
    pub(super) fn suspend(&self, suspended: &[StepRef]) -> Vec<SuspendableStep> {
        let mut steps = self.steps();
        let mut open = Vec::new();
        for claimed in suspended {
            let Some(step) = steps.get_mut(claimed) else {
                continue;
            };
            if step.has_ended || step.is_reported {
                continue;
            }
            step.is_reported = true;
            step.suspension.request();
            open.push(step.suspendable(claimed));
        }
        open
    }

    /// Asks the tools of all granted steps to save what they know.
    pub(super) fn request_all(&self) {
        for step in self.steps().values() {
            step.suspension.request();
        }
    }

    /// The granted steps whose tools have not ended.
    pub(super) fn granted(&self) -> Vec<SuspendableStep> {
        let steps = self.steps();
        let open = steps
            .iter()
            .filter(|(_, step)| step.lease_ms.is_some() && !step.has_ended);
        open.map(|(claimed, step)| step.suspendable(claimed))
            .collect()
    }

    fn known(&self) -> MutexGuard<'_, KnownDispatches> {
        self.shared
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn steps(&self) -> MutexGuard<'_, HashMap<StepRef, HeldStep>> {
        self.shared
            .steps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldStep {
    fn suspendable(&self, claimed: &StepRef) -> SuspendableStep {
        SuspendableStep {
            claimed: claimed.clone(),
            suspension: self.suspension.clone(),
            token: self.token.clone(),
        }
    }
}

/// What the tool of a delivery saves, and the token that is removed from it.
struct SavedBy {
    suspension: CallSuspension,
    token: Option<String>,
}

enum TakeResult {
    New(CancellationToken),
    Unacked,
    Acked,
}

/// One held step. Dropped before its ack it is redelivered. Dropped after a grant its lease expires by the
/// executor's clock.
pub(super) struct Delivery {
    claimed: StepRef,
    lease_ms: u64,
    stop: CancellationToken,
    held: LeaseTable,
}

impl Delivery {
    /// Cancelled when the executor stops the step, and when the worker gives up.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Acks a granted step: from here on heartbeats keep the lease.
    pub(super) async fn set_granted(&self) {
        self.held.known().add(&self.claimed);
        if let Some(step) = self.held.steps().get_mut(&self.claimed) {
            step.lease_ms = Some(self.lease_ms);
        }
        let shared = &self.held.shared;
        if self.lease_ms < shared.sent_lease_ms.load(Ordering::SeqCst) {
            shared.heartbeat_now.notify_one();
        }
        self.answer_once(AckKind::Ack).await;
    }

    /// The tool has ended. The step is held until its result is acknowledged.
    pub(super) fn set_ended(&self) {
        if let Some(step) = self.held.steps().get_mut(&self.claimed) {
            step.has_ended = true;
        }
    }

    pub(super) fn is_granted(&self) -> bool {
        let steps = self.held.steps();
        let step = steps.get(&self.claimed);
        step.is_some_and(|step| step.lease_ms.is_some())
    }

    /// The step and what its tool saves.
    pub(super) fn suspendable(&self) -> Option<SuspendableStep> {
        let steps = self.held.steps();
        Some(steps.get(&self.claimed)?.suspendable(&self.claimed))
    }

    /// Acks a step whose result is stored. The step is still held.
    pub(super) async fn set_stored(&self) {
        self.answer_once(AckKind::Ack).await;
    }

    /// Ends the step: it has no delivery and no lease any more.
    pub(super) async fn end(self) {
        self.held.known().add(&self.claimed);
        self.answer_once(AckKind::Ack).await;
    }

    /// Naks the step; it is redelivered after `delay`.
    pub(super) async fn give_back(self, delay: Duration) {
        self.answer_once(AckKind::Nak(Some(delay))).await;
    }

    /// Removes the reply subject first, because a progress ack after the final ack could undo it.
    async fn answer_once(&self, kind: AckKind) {
        let reply = self
            .held
            .steps()
            .get_mut(&self.claimed)
            .and_then(|step| step.reply.take());
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
