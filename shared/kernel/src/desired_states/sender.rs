//! Sends desired states to their receivers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdpoint_bus::{Bus, BusError};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::{KEPT_HEADER, REPLY_HEADER};
use tokio::sync::{Notify, mpsc};

use super::batching::{Unsendable, pack};
use super::in_flight::InFlight;
use super::rows::{DesiredStateKey, Sent, Unacknowledged};
use super::unaccepted::Unaccepted;
use crate::completion::CompletionQueue;
use crate::error_chain::error_chain;
use crate::origin::Origin;
use crate::outbox::rows::message_bytes_max;
use crate::service::{InputOf, Service};
use crate::status::KernelStatus;
use crate::task::{Raw, Task};

/// Desired states known to need a message of their own. Beyond it the set starts again empty.
const SENT_ALONE_MAX: usize = 10_000;

/// Sends desired states with an inbox of this kernel as reply address.
pub(crate) struct Sender<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) bus: Bus,
    pub(crate) completions: CompletionQueue,
    pub(crate) status: KernelStatus,
    /// Weak, so that the writer ends when all other senders are dropped.
    tasks: mpsc::WeakSender<Task<S>>,
    pub(super) inbox: String,
    state: Mutex<SenderState>,
    /// Notified when the bus refuses a kind that it stored before.
    kind_refused: Notify,
}

#[derive(Debug, Default)]
pub(super) struct SenderState {
    pub(super) in_flight: InFlight,
    /// Their message was refused as a whole. Each gets a separate message, so that none blocks another.
    pub(super) sent_alone: HashSet<DesiredStateKey>,
    pub(super) unaccepted: Unaccepted,
    /// Kinds whose last messages the bus did not store, and whether it was silent. Each kind has a separate
    /// receiver and therefore a separate stream.
    refused_kinds: BTreeMap<String, bool>,
}

/// How the bus took the messages of one kind.
#[derive(Default)]
struct PublishResult {
    any_stored: bool,
    refused: Vec<Sent>,
    /// The error of the last refused one.
    why: Option<BusError>,
}

impl<S: Service> Sender<S> {
    pub(crate) fn new(
        service: Arc<S>,
        bus: Bus,
        completions: CompletionQueue,
        status: KernelStatus,
        tasks: mpsc::WeakSender<Task<S>>,
    ) -> Self {
        let inbox = bus.client().new_inbox();
        Self {
            service,
            bus,
            completions,
            status,
            tasks,
            inbox,
            state: Mutex::default(),
            kind_refused: Notify::default(),
        }
    }

    /// Sends desired states that were just committed. Those of a refused kind are left to the resend loop:
    /// a silent bus would delay the callers of this batch.
    pub(crate) async fn send(&self, mut desired_states: Vec<Unacknowledged>) {
        {
            let refused = &self.state().refused_kinds;
            desired_states.retain(|one| !refused.contains_key(&*one.sent.key.kind));
        }
        self.try_to_send(desired_states).await;
    }

    /// Whether the bus did not store the last messages of a kind.
    pub(super) fn is_kind_refused(&self, kind: &str) -> bool {
        self.state().refused_kinds.contains_key(kind)
    }

    pub(super) fn refused_kinds(&self) -> Vec<String> {
        self.state().refused_kinds.keys().cloned().collect()
    }

    /// Ends when the bus refuses another kind.
    pub(super) async fn wait_for_refused_kind(&self) {
        self.kind_refused.notified().await;
    }

    /// Records how the bus took the last messages of a kind; `None`: it stored some.
    pub(super) fn record_publish(&self, kind: &str, why: Option<&BusError>) {
        let mut state = self.state();
        let refused = &mut state.refused_kinds;
        let was_refused = match why {
            Some(why) => refused.insert(kind.to_owned(), why.is_silence()),
            None => refused.remove(kind),
        };
        let by_silence = refused.values().any(|by_silence| *by_silence);
        self.status
            .set_desired_states_refused(!refused.is_empty(), by_silence);
        drop(state);
        match (why, was_refused) {
            (Some(error), None) => {
                tracing::warn!(service = S::NAME, %kind, error = %error_chain(error), "desired states not stored by the bus; they are sent again until it stores them");
                self.kind_refused.notify_one();
            }
            (None, Some(_)) => {
                tracing::info!(service = S::NAME, %kind, "desired states are stored again");
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Sends desired states once. A failure is only a delay: without an acknowledgement they are sent again.
    pub(super) async fn try_to_send(&self, desired_states: Vec<Unacknowledged>) {
        if desired_states.is_empty() || !self.bus.is_connected() {
            return;
        }
        let bytes_max = message_bytes_max(&self.bus);
        let (mut messages, mut sent) = (Vec::new(), Vec::new());
        let unsendable = {
            let mut state = self.state();
            let packed = pack(&*self.service, desired_states, &state.sent_alone, bytes_max);
            for batch in packed.messages {
                sent.push(batch.carried.clone());
                let token = state.in_flight.add(batch.carried);
                let inbox = format!("{}.{token}", self.inbox);
                let message = batch.message.header(REPLY_HEADER, inbox);
                messages.push(message.header(KEPT_HEADER, "1"));
            }
            packed.unsendable
        };
        for (desired_state, why) in unsendable {
            match why {
                Unsendable::TooLarge(reason) => self.submit_dead_letter(desired_state, reason),
                Unsendable::Unreadable(reason) => {
                    let problem = Problem::new(422, "unreadable", reason);
                    self.keep_unaccepted(desired_state.sent, &problem);
                }
            }
        }
        let stored = self.bus.publish_each(&messages).await;
        self.record_results(sent, stored);
    }

    /// Sends desired states once, each in a separate message.
    pub(super) async fn try_each(&self, desired_states: Vec<Unacknowledged>) {
        let sent = desired_states.iter().map(|one| one.sent.clone());
        self.send_alone(sent.collect());
        self.try_to_send(desired_states).await;
    }

    /// Records what the bus stored, by kind. A kind is refused if the bus stored none of its messages. If it
    /// stored some, the refused messages themselves are wrong: their desired states are sent alone.
    fn record_results(&self, sent: Vec<Vec<Sent>>, stored: Vec<Result<(), BusError>>) {
        let mut results: BTreeMap<Cow<'static, str>, PublishResult> = BTreeMap::new();
        for (carried, stored) in sent.into_iter().zip(stored) {
            let Some(first) = carried.first() else {
                continue;
            };
            let of_kind = results.entry(first.key.kind.clone()).or_default();
            match stored {
                Ok(()) => of_kind.any_stored = true,
                Err(why) => {
                    of_kind.refused.extend(carried);
                    of_kind.why = Some(why);
                }
            }
        }
        for (kind, result) in results {
            if !result.any_stored {
                self.record_publish(&kind, result.why.as_ref());
                continue;
            }
            self.record_publish(&kind, None);
            if let Some(error) = result.why {
                tracing::warn!(service = S::NAME, %kind, error = %error_chain(&error), desired_states = result.refused.len(), "some desired states not stored; each is sent again alone");
                self.send_alone(result.refused);
            }
        }
    }

    /// From now on these desired states get separate messages.
    pub(super) fn send_alone(&self, desired_states: Vec<Sent>) {
        let mut state = self.state();
        if state.sent_alone.len() > SENT_ALONE_MAX {
            state.sent_alone.clear();
        }
        let keys = desired_states.into_iter().map(|sent| sent.key);
        state.sent_alone.extend(keys);
    }

    /// Keeps a desired state that was not accepted: it is sent again rarely.
    pub(super) fn keep_unaccepted(&self, sent: Sent, problem: &Problem) {
        self.update_unaccepted(|unaccepted| unaccepted.add(S::NAME, sent, problem));
    }

    /// Whether this desired state was not accepted when it was last sent.
    pub(super) fn is_unaccepted(&self, sent: &Sent) -> bool {
        self.state().unaccepted.contains(sent)
    }

    pub(super) fn update_unaccepted(&self, change: impl FnOnce(&mut Unaccepted)) {
        let mut state = self.state();
        change(&mut state.unaccepted);
        state.unaccepted.report(S::NAME, &self.status);
    }

    /// Has a desired state that no message can carry stored as a dead letter.
    fn submit_dead_letter(&self, desired_state: Unacknowledged, reason: String) {
        let Unacknowledged { sent, body } = desired_state;
        let DesiredStateKey {
            kind,
            workspace,
            id,
        } = &sent.key;
        let raw = Raw {
            subject: format!("desired_state.{workspace}.{kind}.{id}"),
            body: body.into(),
        };
        let poison = Some(Problem::new(422, "unsendable", reason));
        let task = Task::new(Vec::new(), self.origin(sent), raw);
        self.submit(Task { poison, ..task });
    }

    /// Has the service decide an input that follows from a reply.
    pub(super) fn submit_input(&self, sent: Sent, input: InputOf<S>, raw: Raw) {
        self.submit(Task::new(vec![input], self.origin(sent), raw));
    }

    fn origin(&self, sent: Sent) -> Origin {
        let completions = self.completions.clone();
        Origin::DesiredState { sent, completions }
    }

    /// Never waits, because the writer may be waiting for the publisher, which calls this. If there is no room
    /// the next round finds the desired state again.
    fn submit(&self, task: Task<S>) {
        let task = Task {
            is_isolated: self.status.isolation.is_isolated(),
            ..task
        };
        let Some(tasks) = self.tasks.upgrade() else {
            return;
        };
        if tasks.try_send(task).is_ok() {
            self.status.in_flight.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SenderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
