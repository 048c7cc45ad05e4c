//! Carries desired states to their receivers and brings their confirmations back.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use holdpoint_bus::{Bus, BusError};
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::{KEPT_HEADER, REPLY_HEADER};
use holdpoint_ids::Workspace;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::batching::{Unsendable, pack};
use super::in_flight::InFlight;
use super::unaccepted::Unaccepted;
use super::{DesiredStateKey, Sent, Unacknowledged};
use crate::activity::KernelStatus;
use crate::commit::write;
use crate::outbox::message_bytes_max;
use crate::publisher::Published;
use crate::task::{Origin, Raw, Task};
use crate::writer::chain;
use crate::{Acknowledged, AfterRefusal, InputOf, RefusedState, Service};

/// Desired states known to need a message of their own; beyond it they are found out again.
const ALONE_MAX: usize = 10_000;

/// Status of an answer that says nothing about the message: the receiver's database is away.
const UNAVAILABLE: u16 = 503;

/// Sends desired states with an inbox of this kernel as their return address. Cheap to clone.
pub(crate) struct Sender<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) bus: Bus,
    pub(crate) published: Published,
    pub(crate) activity: KernelStatus,
    /// For what no message can carry. Weak: the writer ends when nobody else sends.
    pub(crate) tasks: mpsc::WeakSender<Task<S>>,
    inbox: String,
    post: Arc<Mutex<Post>>,
    /// The bus has refused desired states of a kind that it took before.
    is_refused: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Post {
    open: InFlight,
    /// Their message was refused whole: each is sent by itself, so that none holds up another.
    alone: HashSet<DesiredStateKey>,
    /// No receiver has accepted these: they are sent again rarely.
    unaccepted: Unaccepted,
    /// Kinds of which the bus did not store the last ones, and whether it said nothing to them: each kind has its
    /// own receiver, and so its own stream.
    refused: BTreeMap<String, bool>,
}

/// What the bus made of the letters of one kind.
#[derive(Default)]
struct Outcomes {
    any_stored: bool,
    refused: Vec<Sent>,
    /// Why the last of them was refused.
    why: Option<BusError>,
}

impl<S: Service> Clone for Sender<S> {
    fn clone(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            bus: self.bus.clone(),
            published: self.published.clone(),
            activity: self.activity.clone(),
            tasks: self.tasks.clone(),
            inbox: self.inbox.clone(),
            post: Arc::clone(&self.post),
            is_refused: Arc::clone(&self.is_refused),
        }
    }
}

impl<S: Service> Sender<S> {
    pub(crate) fn new(
        service: Arc<S>,
        bus: Bus,
        published: Published,
        activity: KernelStatus,
        tasks: mpsc::WeakSender<Task<S>>,
    ) -> Self {
        let inbox = bus.client().new_inbox();
        Self {
            service,
            bus,
            published,
            activity,
            tasks,
            inbox,
            post: Arc::default(),
            is_refused: Arc::default(),
        }
    }

    /// Opens the subscription for confirmations.
    pub(crate) async fn subscribe(&self) -> Result<async_nats::Subscriber, BusError> {
        let filter = format!("{}.*", self.inbox);
        Ok(self.bus.client().subscribe(filter).await?)
    }

    /// Sends desired states that were just committed. While the bus stores none of their kind they wait with the others: a
    /// bus that says nothing would be waited for, and whoever asked would wait with us.
    pub(crate) async fn send(&self, mut desired_states: Vec<Unacknowledged>) {
        {
            let refused = &self.post().refused;
            desired_states
                .retain(|desired_state| !refused.contains_key(&*desired_state.sent.key.kind));
        }
        self.try_to_send(desired_states).await;
    }

    /// Whether the bus did not store the last desired states of a kind.
    pub(super) fn is_refused(&self, kind: &str) -> bool {
        self.post().refused.contains_key(kind)
    }

    /// All kinds of which it is so.
    pub(super) fn refused(&self) -> Vec<String> {
        self.post().refused.keys().cloned().collect()
    }

    /// Ends when the bus refuses desired states of one more kind.
    pub(super) async fn until_refused(&self) {
        self.is_refused.notified().await;
    }

    /// What became of the last desired states of a kind.
    pub(super) fn note(&self, kind: &str, why: Option<&BusError>) {
        let mut post = self.post();
        let was_refused = match why {
            Some(why) => post.refused.insert(kind.to_owned(), why.is_silence()),
            None => post.refused.remove(kind),
        };
        let by_silence = post.refused.values().any(|by_silence| *by_silence);
        self.activity
            .set_desired_states_refused(!post.refused.is_empty(), by_silence);
        drop(post);
        match (why, was_refused) {
            (Some(error), None) => {
                tracing::warn!(service = S::NAME, %kind, error = %chain(error), "desired states were not stored; they are sent again until they are");
                self.is_refused.notify_one();
            }
            (None, Some(_)) => {
                tracing::info!(service = S::NAME, %kind, "desired states are stored again");
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Sends desired states once. Whether they arrive shows in the confirmation; without one they are sent
    /// again, so that no failure here is more than a delay.
    pub(super) async fn try_to_send(&self, desired_states: Vec<Unacknowledged>) {
        if desired_states.is_empty() || !self.bus.is_connected() {
            return;
        }
        let bytes_max = message_bytes_max(&self.bus);
        let (mut messages, mut sent) = (Vec::new(), Vec::new());
        let unsendable = {
            let mut post = self.post();
            let packed = pack(&*self.service, desired_states, &post.alone, bytes_max);
            for letter in packed.letters {
                sent.push(letter.carried.clone());
                let token = post.open.note(letter.carried);
                let inbox = format!("{}.{token}", self.inbox);
                let message = letter.message.header(REPLY_HEADER, inbox);
                messages.push(message.header(KEPT_HEADER, "1"));
            }
            packed.unsendable
        };
        for (desired_state, why) in unsendable {
            match why {
                Unsendable::TooLarge(reason) => self.bury(desired_state, reason),
                Unsendable::Unreadable(reason) => {
                    let problem = Problem::new(422, "unreadable", reason);
                    self.keep_unaccepted(desired_state.sent, &problem);
                }
            }
        }
        let stored = self.bus.publish_each(&messages).await;
        self.judge(sent, stored);
    }

    /// Sends desired states once, each in a message of its own.
    pub(super) async fn try_each(&self, desired_states: Vec<Unacknowledged>) {
        self.send_alone(
            desired_states
                .iter()
                .map(|desired_state| desired_state.sent.clone())
                .collect(),
        );
        self.try_to_send(desired_states).await;
    }

    /// What the bus made of letters. A kind is refused where the bus stored none of its letters. Where it
    /// stored others, the refused letters have something wrong themselves: their desired states go alone.
    fn judge(&self, sent: Vec<Vec<Sent>>, stored: Vec<Result<(), BusError>>) {
        let mut outcomes: BTreeMap<Cow<'static, str>, Outcomes> = BTreeMap::new();
        for (carried, stored) in sent.into_iter().zip(stored) {
            let Some(first) = carried.first() else {
                continue;
            };
            let of_kind = outcomes.entry(first.key.kind.clone()).or_default();
            match stored {
                Ok(()) => of_kind.any_stored = true,
                Err(why) => {
                    of_kind.refused.extend(carried);
                    of_kind.why = Some(why);
                }
            }
        }
        for (kind, outcome) in outcomes {
            if !outcome.any_stored {
                self.note(&kind, outcome.why.as_ref());
                continue;
            }
            self.note(&kind, None);
            if let Some(error) = outcome.why {
                tracing::warn!(service = S::NAME, %kind, error = %chain(&error), desired_states = outcome.refused.len(), "some desired states were not stored; each is sent again by itself");
                self.send_alone(outcome.refused);
            }
        }
    }

    /// Has desired states sent each in a message of its own from now on.
    fn send_alone(&self, desired_states: Vec<Sent>) {
        let mut post = self.post();
        if post.alone.len() > ALONE_MAX {
            post.alone.clear();
        }
        post.alone
            .extend(desired_states.into_iter().map(|sent| sent.key));
    }

    /// Takes confirmations until it is told to stop.
    pub(crate) async fn confirmations(
        self,
        mut replies: async_nats::Subscriber,
        stop: CancellationToken,
    ) {
        while let Some(Some(message)) = stop.run_until_cancelled(replies.next()).await {
            let token = message.subject.rsplit('.').next();
            let Some(token) = token.and_then(|token| token.parse().ok()) else {
                continue;
            };
            let Some(carried) = self.post().open.take(token) else {
                continue;
            };
            match serde_json::from_slice(&message.payload) {
                Ok(reply) => self.answered(carried, reply),
                Err(error) => {
                    tracing::warn!(service = S::NAME, %error, "an answer to desired states that cannot be read");
                }
            }
        }
    }

    fn answered(&self, carried: Vec<Sent>, reply: Reply<Vec<Reply<Value>>>) {
        match reply {
            Reply::Ok(answers) => {
                let told = carried.into_iter().zip(answers);
                let confirmed = told.filter_map(|(sent, answer)| match answer {
                    Reply::Ok(answer) => self.heard(sent, &answer),
                    Reply::Problem(problem) => self.refusal(sent, &problem),
                });
                self.confirm(confirmed.collect());
            }
            Reply::Problem(problem) if problem.status == UNAVAILABLE => {
                tracing::debug!(service = S::NAME, %problem, "desired states have to wait for their receiver");
            }
            Reply::Problem(problem) if carried.len() > 1 => {
                tracing::warn!(service = S::NAME, %problem, desired_states = carried.len(), "refused together; each is sent by itself");
                self.send_alone(carried);
            }
            // The receiver could not read it: a later version of it may.
            Reply::Problem(problem) => {
                for sent in carried {
                    self.keep_unaccepted(sent, &problem);
                }
            }
        }
    }

    /// Has the service say what becomes of a desired state whose receiver has refused it; gives back what is to
    /// be let go.
    fn refusal(&self, sent: Sent, problem: &Problem) -> Option<Sent> {
        if problem.status == UNAVAILABLE {
            return None;
        }
        let workspace: Option<Workspace> = sent.key.workspace.parse().ok();
        let known = workspace.zip(u64::try_from(sent.rev).ok());
        let after = known.map_or(AfterRefusal::Keep, |(workspace, rev)| {
            self.service.refused(&RefusedState {
                kind: &sent.key.kind,
                workspace: &workspace,
                id: &sent.key.id,
                rev,
                problem,
            })
        });
        let (kind, id) = (&sent.key.kind, &sent.key.id);
        match after {
            AfterRefusal::Keep => {
                self.keep_unaccepted(sent, problem);
                None
            }
            AfterRefusal::LetGo => {
                tracing::warn!(service = S::NAME, %kind, id, rev = sent.rev, %problem, "a desired state was refused, and nothing waits for it; it is let go");
                Some(sent)
            }
            AfterRefusal::Decide(input) => {
                tracing::warn!(service = S::NAME, %kind, id, rev = sent.rev, %problem, "a desired state was refused; its service decides what follows");
                let subject = format!("desired_state.{id}.refused");
                let body = write(&Reply::<()>::Problem(problem.clone()));
                self.submit(sent, vec![input], None, Raw { subject, body });
                None
            }
        }
    }

    /// Keeps a desired state that was not accepted: it is sent again rarely.
    fn keep_unaccepted(&self, sent: Sent, problem: &Problem) {
        let mut post = self.post();
        post.unaccepted.add(S::NAME, sent, problem);
        post.unaccepted.report(S::NAME, &self.activity);
    }

    /// Whether this desired state was not accepted when it was sent last.
    pub(super) fn is_unaccepted(&self, sent: &Sent) -> bool {
        self.post().unaccepted.contains(sent)
    }

    /// Forgets of the desired states that were not accepted those whose rows are gone.
    pub(super) fn retain_unaccepted(&self, is_there: impl Fn(&DesiredStateKey) -> bool) {
        let mut post = self.post();
        post.unaccepted.retain(is_there);
        post.unaccepted.report(S::NAME, &self.activity);
    }

    /// Has the service decide what an answer means to it, where it means anything: the desired state's row goes
    /// once that is committed, so that the answer is not lost with this process. Gives the others back.
    fn heard(&self, sent: Sent, answer: &Value) -> Option<Sent> {
        {
            let mut post = self.post();
            post.unaccepted.remove(&sent.key);
            post.unaccepted.report(S::NAME, &self.activity);
        }
        let workspace: Option<Workspace> = sent.key.workspace.parse().ok();
        let input = workspace.zip(u64::try_from(sent.rev).ok());
        let input = input.and_then(|(workspace, rev)| {
            self.service.acknowledged(&Acknowledged {
                kind: &sent.key.kind,
                workspace: &workspace,
                id: &sent.key.id,
                rev,
                answer,
            })
        });
        let Some(input) = input else {
            return Some(sent);
        };
        let subject = format!("desired_state.{}.confirmed", sent.key.id);
        let body = answer.to_string().into();
        self.submit(sent, vec![input], None, Raw { subject, body });
        None
    }

    fn confirm(&self, confirmed: Vec<Sent>) {
        let mut post = self.post();
        for sent in &confirmed {
            post.alone.remove(&sent.key);
            post.unaccepted.remove(&sent.key);
        }
        post.unaccepted.report(S::NAME, &self.activity);
        drop(post);
        self.published.confirmed(confirmed);
    }

    /// Has a desired state that no message can carry kept as a dead letter. Never waits: the writer may be
    /// waiting for the publisher, and the next round finds it again.
    fn bury(&self, desired_state: Unacknowledged, reason: String) {
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
        self.submit(sent, Vec::new(), poison, raw);
    }

    /// Never waits: what finds no room is found again in the next round.
    fn submit(&self, sent: Sent, inputs: Vec<InputOf<S>>, poison: Option<Problem>, raw: Raw) {
        let task = Task {
            inputs,
            many: false,
            whole: false,
            asked: None,
            origin: Origin::DesiredState {
                sent,
                published: self.published.clone(),
            },
            poison,
            is_unread: false,
            is_isolated: self.activity.isolation.is_isolated(),
            raw,
            room: None,
        };
        let Some(tasks) = self.tasks.upgrade() else {
            return;
        };
        if tasks.try_send(task).is_ok() {
            self.activity.in_flight.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn post(&self) -> MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
