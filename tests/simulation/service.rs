//! A service on the simulated bus: its real core and translations, in a kernel kept in memory that
//! follows the rules of the real one and may crash between any two of them.
//!
//! Decide, commit (states, facts, desired states, outbox), publish, answer, ack: in this order. What is
//! committed survives a crash; desired states are sent again until their receiver's reply has come.

mod replies;

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject;
use holdpoint_decision::{Decided, Decider, Outcome, Undecided};
use holdpoint_ids::{Workspace, partition};
use holdpoint_kernel::{
    DecodedCommand, DesiredState, EffectOf, FactOf, FixedFacts, InputOf, KeyOf, NeedOf, ReplyOf,
    Service, StateOf,
};
use serde_json::Value;

use crate::bus::{Delivery, SimBus};
use crate::chance::Chance;
use crate::features::{Feature, Features};
use crate::tables::Tables;

/// Until a command comes again.
pub(crate) const ACK_WAIT: TimeDelta = TimeDelta::seconds(10);

/// Until a desired state that nobody has confirmed is sent again.
const AGAIN_AFTER: TimeDelta = TimeDelta::seconds(5);

/// One commit in so many loses a race against another player of its service.
const RACES: u64 = 20;

/// Most messages that one commit takes.
const MESSAGES_MAX: usize = 4;

/// How often one input may ask for more.
const ROUNDS_MAX: usize = 4;

/// A rule that is broken on purpose, to show that the simulation would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A message is answered and acked, and what it led to is not committed.
    AnswerBeforeCommit,
    /// Messages leave before the commit.
    PublishBeforeCommit,
    /// What was committed and not published is forgotten, and no sweep hands it out again.
    HandOutOnce,
    /// Desired states are sent once.
    DesiredStateOnce,
    /// A worker does what it is delivered, and asks nobody.
    NeverAsk,
    /// A worker forgets what it has begun.
    ForgetBegun,
    /// Leases never end.
    LeaseForEver,
    /// The cell *decided × open* of the hold table: the desired state is taken over.
    DecisionTakenOver,
    /// The cell *timed out × frozen since before* of the hold table: the timeout stays.
    TimeOutStays,
    /// The executor is told of a timeout as if no deadline could be later: that of an old one ends a
    /// hold that has time left.
    TimeOutOfOldDeadline,
    /// The copies of what is over stay unread.
    NothingIsSettled,
}

/// Where the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Crash {
    Fetched,
    Decided,
    Committed,
    HalfPublished,
    Published,
    Replied,
    Never,
}

impl Crash {
    fn by(chance: &mut Chance, cruel: bool) -> Self {
        if !cruel || !chance.one_in(12) {
            return Self::Never;
        }
        let points = [
            Self::Fetched,
            Self::Decided,
            Self::Committed,
            Self::HalfPublished,
            Self::Published,
            Self::Replied,
        ];
        points[chance.place(points.len())]
    }
}

/// What surrounds a service while it handles something.
pub(crate) struct Around<'a> {
    pub(crate) bus: &'a mut SimBus,
    pub(crate) chance: &'a mut Chance,
    /// Replies on their way: inbox and body.
    pub(crate) replies: &'a mut Vec<(String, Value)>,
    pub(crate) now: DateTime<Utc>,
    pub(crate) fault: Fault,
    pub(crate) cruel: bool,
    pub(crate) features: Features,
}

/// A desired state that is not confirmed yet.
struct Kept {
    desired_state: DesiredState,
    sent_at: Option<DateTime<Utc>>,
}

type DesiredStateKey = (String, Workspace, String);

/// Changes a decision: how a broken rule is planted in a core.
pub(crate) type Rewrite<S> =
    fn(Option<&StateOf<S>>, &InputOf<S>, &mut Decided<<S as Service>::Domain>);

/// Refuses some inputs.
pub(crate) type Refuses<S> =
    fn(&InputOf<S>) -> Option<<<S as Service>::Domain as Decider>::Refusal>;

/// One service.
pub(crate) struct SimService<S: Tables> {
    pub(crate) core: S,
    pub(crate) states: HashMap<KeyOf<S>, StateOf<S>>,
    /// Committed, in order, and taken by the checks.
    pub(crate) effects: Vec<EffectOf<S>>,
    /// What it stores beside the states.
    pub(crate) rows: S::Rows,
    /// A fault that is planted in its core.
    pub(crate) rewrite: Option<Rewrite<S>>,
    /// What it refuses, where its core would not.
    pub(crate) refuses: Option<Refuses<S>>,
    /// How much its clock is slow.
    pub(crate) slow: TimeDelta,
    facts: HashMap<NeedOf<S>, FactOf<S>>,
    desired_states: BTreeMap<DesiredStateKey, Kept>,
    outbox: BTreeMap<u64, Vec<Outgoing>>,
    numbers: u64,
    /// What replies are waited for: lost in a crash.
    asked: BTreeMap<String, Vec<(DesiredStateKey, u64)>>,
}

/// What one message came to, before the commit.
struct Batch<S: Service> {
    states: Vec<(KeyOf<S>, StateOf<S>)>,
    facts: Vec<(NeedOf<S>, FactOf<S>)>,
    effects: Vec<EffectOf<S>>,
    answers: Vec<Result<ReplyOf<S>, Problem>>,
}

impl<S: Tables> SimService<S> {
    pub(crate) fn new(core: S) -> Self {
        Self {
            core,
            states: HashMap::new(),
            effects: Vec::new(),
            rows: S::Rows::default(),
            rewrite: None,
            refuses: None,
            slow: TimeDelta::zero(),
            facts: HashMap::new(),
            desired_states: BTreeMap::new(),
            outbox: BTreeMap::new(),
            numbers: 0,
            asked: BTreeMap::new(),
        }
    }

    /// Takes stored commands into one commit, if there are any.
    pub(crate) fn take(&mut self, around: &mut Around<'_>) -> bool {
        let queue = subject::commands_stream(S::NAME);
        let takes_many = around.cruel && around.features.has(Feature::Batches);
        let most = match takes_many && around.chance.one_in(3) {
            true => 1 + around.chance.place(MESSAGES_MAX),
            false => 1,
        };
        let mut taken: Vec<(Delivery, DecodedCommand<InputOf<S>>)> = Vec::new();
        while taken.len() < most {
            let chance = around.cruel.then_some(&mut *around.chance);
            let Some(delivery) = around.bus.pull(&queue, around.now, ACK_WAIT, chance) else {
                break;
            };
            let parts = subject::parse(&delivery.subject).unwrap();
            let request = self.core.decode(&parts, delivery.body.as_bytes());
            let request = request.unwrap_or_else(|problem| {
                panic!("{} reads no {}: {problem}", S::NAME, delivery.body);
            });
            taken.push((delivery, request));
        }
        if taken.is_empty() {
            return false;
        }
        let (deliveries, requests): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        if around.cruel && around.features.has(Feature::Races) && around.chance.one_in(RACES) {
            // Another player of the service was first: the states have other versions by now, so that
            // nothing of this decision is stored.
            self.decide(&requests, around.now);
            self.take(around);
        }
        for (delivery, reply) in deliveries
            .into_iter()
            .zip(self.commit_all(&requests, around))
        {
            if let Some(inbox) = delivery.reply {
                around.replies.push((inbox, reply));
            }
            around.bus.ack(delivery.seq);
        }
        true
    }

    /// A core request. None: it, or its answer, was lost; the caller cannot tell which.
    pub(crate) fn ask(
        &mut self,
        subject: &str,
        body: &str,
        around: &mut Around<'_>,
    ) -> Option<Value> {
        if around.cruel && around.chance.one_in(10) {
            return None;
        }
        let parts = subject::parse(subject).unwrap();
        let request = match self.core.decode(&parts, body.as_bytes()) {
            Ok(request) => request,
            // The token of a step has expired.
            Err(problem) => return serde_json::to_value(Reply::<()>::from(Err(problem))).ok(),
        };
        let reply = self.commit(&request, around)?;
        (!around.cruel || !around.chance.one_in(10)).then_some(reply)
    }

    /// Its own wheels and sweepers.
    pub(crate) fn submit(&mut self, inputs: Vec<InputOf<S>>, around: &mut Around<'_>) -> bool {
        self.commit(&DecodedCommand::many(inputs), around).is_some()
    }

    /// Decides, commits and publishes. None: it died on the way, and was started again.
    fn commit(
        &mut self,
        request: &DecodedCommand<InputOf<S>>,
        around: &mut Around<'_>,
    ) -> Option<Value> {
        self.commit_all(std::slice::from_ref(request), around).pop()
    }

    /// The reply to each request; none: it died on the way, and was started again.
    fn commit_all(
        &mut self,
        requests: &[DecodedCommand<InputOf<S>>],
        around: &mut Around<'_>,
    ) -> Vec<Value> {
        let crash = Crash::by(around.chance, around.cruel);
        if crash == Crash::Fetched {
            return self.restart(around);
        }
        let now = around.now - self.slow;
        let mut batch = self.decide(requests, now);
        let mut answers = std::mem::take(&mut batch.answers)
            .into_iter()
            .map(Reply::from);
        let replies = requests.iter().map(|request| {
            let mut replies: Vec<_> = answers.by_ref().take(request.inputs.len()).collect();
            match request.many {
                true => serde_json::to_value(Reply::Ok(replies)).unwrap(),
                false => serde_json::to_value(replies.remove(0)).unwrap(),
            }
        });
        let replies: Vec<_> = replies.collect();
        if crash == Crash::Decided {
            if around.fault == Fault::PublishBeforeCommit {
                publish(self.core.messages(&batch.effects), around);
            }
            let nothing = self.restart(around);
            return match around.fault {
                Fault::AnswerBeforeCommit => replies,
                _ => nothing,
            };
        }
        let stored = batch.states.into_iter();
        self.states
            .extend(stored.map(|(key, state)| (key, S::stored(state))));
        self.facts.extend(batch.facts);
        self.numbers += 1;
        let row = self.numbers;
        self.outbox.insert(row, self.core.messages(&batch.effects));
        for desired_state in self.core.desired_states(&batch.effects) {
            self.keep(desired_state);
        }
        S::keep_rows(&mut self.rows, &batch.effects, now);
        S::make_states(&mut self.states, &batch.effects, now);
        self.effects.extend(batch.effects);
        if crash == Crash::Committed {
            return self.restart(around);
        }
        let mut messages = self.outbox.get(&row).cloned().unwrap_or_default();
        if crash == Crash::HalfPublished {
            messages.truncate(messages.len() / 2);
            publish(messages, around);
            return self.restart(around);
        }
        publish(messages, around);
        if crash == Crash::Published {
            return self.restart(around);
        }
        self.outbox.remove(&row);
        self.send_desired_states(around);
        if crash == Crash::Replied {
            return self.restart(around);
        }
        replies
    }

    /// What is committed stays, what was only in memory is gone.
    fn restart(&mut self, around: &mut Around<'_>) -> Vec<Value> {
        self.asked.clear();
        for (_, messages) in std::mem::take(&mut self.outbox) {
            if around.fault != Fault::HandOutOnce {
                publish(messages, around);
            }
        }
        Vec::new()
    }

    fn decide(&self, requests: &[DecodedCommand<InputOf<S>>], now: DateTime<Utc>) -> Batch<S> {
        let mut given = FixedFacts::<S>::none();
        let mut states: BTreeMap<KeyOf<S>, StateOf<S>> = BTreeMap::new();
        let (mut facts, mut effects, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for input in requests.iter().flat_map(|request| &request.inputs) {
            let key = S::Domain::key(input);
            let known = states.get(&key).or_else(|| self.states.get(&key)).cloned();
            given.aggregate(key.clone(), known.clone());
            let mut rounds = 0;
            let outcome = loop {
                let refused = self.refuses.and_then(|refuses| refuses(input));
                if let Some(refusal) = refused {
                    break Err(refusal);
                }
                let facts = given.facts();
                match S::Domain::decide(known.as_ref(), input, &|need| facts.lookup(need), now) {
                    Err(Undecided::NeedsMore(needs)) => {
                        rounds += 1;
                        assert!(rounds <= ROUNDS_MAX, "{input:?} always needs {needs:?}");
                        needs
                            .into_iter()
                            .for_each(|need| self.provide(need, &states, &mut given));
                    }
                    Err(Undecided::Refused(refusal)) => break Err(refusal),
                    Ok(outcome) => break Ok(outcome),
                }
            };
            answers.push(match outcome {
                Ok(Outcome::Decided(mut decision)) => {
                    let rewrite = self.rewrite.unwrap_or(|_, _, _| ());
                    rewrite(known.as_ref(), input, &mut decision);
                    let version = S::Domain::version(&decision.state);
                    // A run follows what was commanded for all at the same time: one version each.
                    let rises = known
                        .as_ref()
                        .is_none_or(|it| S::Domain::version(it) < version);
                    assert!(rises, "{key:?}: the version rises");
                    given.aggregate(key.clone(), Some(decision.state.clone()));
                    states.insert(key, decision.state);
                    effects.extend(decision.effects);
                    for (need, fact) in decision.facts {
                        given.fact(need.clone(), Some(fact.clone()));
                        facts.push((need, fact));
                    }
                    S::Domain::problem_after_commit(&decision.reply).map_or(Ok(decision.reply), Err)
                }
                Ok(Outcome::Unchanged(answer)) => Ok(answer),
                Err(refusal) => Err(S::Domain::problem(&refusal)),
            });
        }
        Batch {
            states: states.into_iter().collect(),
            facts,
            effects,
            answers,
        }
    }

    fn provide(
        &self,
        need: NeedOf<S>,
        states: &BTreeMap<KeyOf<S>, StateOf<S>>,
        given: &mut FixedFacts<S>,
    ) {
        match S::Domain::aggregate(&need) {
            Some(key) => {
                let state = states.get(&key).or_else(|| self.states.get(&key)).cloned();
                given.aggregate(key, state);
            }
            None => {
                let fact = self.facts.get(&need).cloned();
                let fact = fact.or_else(|| S::look_up(&self.rows, &self.states, &need));
                given.fact(need, fact);
            }
        }
    }

    fn keep(&mut self, desired_state: DesiredState) {
        let key = (
            desired_state.kind.to_owned(),
            desired_state.workspace.clone(),
            desired_state.id.clone(),
        );
        let newest = self
            .desired_states
            .get(&key)
            .is_none_or(|kept| desired_state.rev >= kept.desired_state.rev);
        assert!(newest, "{desired_state:?} would not be heeded");
        self.desired_states.insert(
            key,
            Kept {
                desired_state,
                sent_at: None,
            },
        );
    }

    /// Sends what was never sent, and again what nobody has confirmed for too long.
    pub(crate) fn send_desired_states(&mut self, around: &mut Around<'_>) {
        let mut groups: BTreeMap<_, Vec<(DesiredStateKey, u64)>> = BTreeMap::new();
        for (key, kept) in &mut self.desired_states {
            let is_due = match kept.sent_at {
                None => true,
                Some(at) => {
                    at + AGAIN_AFTER <= around.now && around.fault != Fault::DesiredStateOnce
                }
            };
            if is_due {
                kept.sent_at = Some(around.now);
                let (kind, workspace, id) = key.clone();
                let group = groups.entry((kind, workspace, partition(&id)));
                group
                    .or_default()
                    .push((key.clone(), kept.desired_state.rev));
            }
        }
        for ((kind, workspace, _), keys) in groups {
            let bodies: Vec<_> = keys
                .iter()
                .map(|(key, _)| self.desired_states[key].desired_state.body.as_str())
                .collect();
            let message = self
                .core
                .desired_state_command(&kind, &workspace, &bodies)
                .unwrap();
            self.numbers += 1;
            let inbox = format!("{}.{}", S::NAME, self.numbers);
            self.asked.insert(inbox.clone(), keys);
            let now = around.now;
            around
                .bus
                .publish(&message.subject, message.body, Some(inbox), now);
        }
    }

    /// Something that it stores beside the states.
    pub(crate) fn fact(&self, need: &NeedOf<S>) -> Option<&FactOf<S>> {
        self.facts.get(need)
    }

    /// Desired states that nobody has confirmed.
    pub(crate) fn unconfirmed(&self) -> Vec<&DesiredState> {
        self.desired_states
            .values()
            .map(|kept| &kept.desired_state)
            .collect()
    }
}

/// Everything is stored, now and then twice.
fn publish(messages: Vec<Outgoing>, around: &mut Around<'_>) {
    for message in messages {
        let copies = if around.cruel && around.chance.one_in(15) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let body = message.body.clone();
            around.bus.publish(&message.subject, body, None, around.now);
        }
    }
}
