//! A service on the simulated bus: its real core and translations, in a kernel kept in memory that
//! follows the rules of the real one and may crash between any two of them.
//!
//! Decide, commit (states, facts, wishes, outbox), publish, answer, ack: in this order. What is
//! committed survives a crash; wishes are sent again until their receiver's reply has come.

mod replies;

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject;
use holdpoint_ids::{Workspace, partition};
use holdpoint_kernel::{Decision, GivenFacts, Outcome, Request, Service, Wish};
use serde_json::Value;

use crate::bus::{Delivery, SimBus};
use crate::chance::Chance;
use crate::features::{Feature, Features};
use crate::tables::Tables;

/// Until a command comes again.
pub(crate) const ACK_WAIT: TimeDelta = TimeDelta::seconds(10);

/// Until a wish that nobody has confirmed is sent again.
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
    /// Wishes are sent once.
    WishOnce,
    /// A worker does what it is delivered, and asks nobody.
    NeverAsk,
    /// A worker forgets what it has begun.
    ForgetBegun,
    /// Leases never end.
    LeaseForEver,
    /// The cell *decided × open* of the hold table: the wish is taken over.
    DecisionTakenOver,
    /// The cell *timed out × frozen since before* of the hold table: the time-out stays.
    TimeOutStays,
    /// The executor is told of a time-out as if no deadline could be later: that of an old one ends a
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
    /// Whether processes die.
    pub(crate) cruel: bool,
    pub(crate) features: Features,
}

/// A wish that is not confirmed yet.
struct Kept {
    wish: Wish,
    sent_at: Option<DateTime<Utc>>,
}

type WishKey = (String, Workspace, String);

/// Changes a decision: how a broken rule is planted in a core.
pub(crate) type Rewrite<S> =
    fn(Option<&<S as Service>::State>, &<S as Service>::Input, &mut Decision<S>);

/// Refuses some inputs.
pub(crate) type Refuses<S> = fn(&<S as Service>::Input) -> Option<<S as Service>::Refusal>;

/// One service.
pub(crate) struct SimService<S: Tables> {
    pub(crate) core: S,
    pub(crate) states: HashMap<S::Key, S::State>,
    /// Committed, in order, and taken by the checks.
    pub(crate) effects: Vec<S::Effect>,
    /// What it stores beside the states.
    pub(crate) rows: S::Rows,
    /// A fault that is planted in its core.
    pub(crate) rewrite: Option<Rewrite<S>>,
    /// What it refuses, where its core would not.
    pub(crate) refuses: Option<Refuses<S>>,
    /// How much its clock is slow.
    pub(crate) slow: TimeDelta,
    facts: HashMap<S::Need, S::Fact>,
    wishes: BTreeMap<WishKey, Kept>,
    outbox: BTreeMap<u64, Vec<Outgoing>>,
    numbers: u64,
    /// What replies are waited for: lost in a crash.
    asked: BTreeMap<String, Vec<(WishKey, u64)>>,
}

/// What one message came to, before the commit.
struct Batch<S: Service> {
    states: Vec<(S::Key, S::State)>,
    facts: Vec<(S::Need, S::Fact)>,
    effects: Vec<S::Effect>,
    answers: Vec<Result<S::Answer, Problem>>,
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
            wishes: BTreeMap::new(),
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
        let mut taken: Vec<(Delivery, Request<S::Input>)> = Vec::new();
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
    pub(crate) fn submit(&mut self, inputs: Vec<S::Input>, around: &mut Around<'_>) -> bool {
        self.commit(&Request::many(inputs), around).is_some()
    }

    /// Decides, commits and publishes. None: it died on the way, and was started again.
    fn commit(&mut self, request: &Request<S::Input>, around: &mut Around<'_>) -> Option<Value> {
        self.commit_all(std::slice::from_ref(request), around).pop()
    }

    /// The reply to each request; none: it died on the way, and was started again.
    fn commit_all(
        &mut self,
        requests: &[Request<S::Input>],
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
                publish(self.core.outbound(&batch.effects), around);
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
        self.outbox.insert(row, self.core.outbound(&batch.effects));
        for wish in self.core.wishes(&batch.effects) {
            self.keep(wish);
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
        self.send_wishes(around);
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

    fn decide(&self, requests: &[Request<S::Input>], now: DateTime<Utc>) -> Batch<S> {
        let mut given = GivenFacts::<S>::none();
        let mut states: BTreeMap<S::Key, S::State> = BTreeMap::new();
        let (mut facts, mut effects, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for input in requests.iter().flat_map(|request| &request.inputs) {
            let key = S::key(input);
            let known = states.get(&key).or_else(|| self.states.get(&key)).cloned();
            given.aggregate(key.clone(), known.clone());
            let mut rounds = 0;
            let outcome = loop {
                let refused = self.refuses.and_then(|refuses| refuses(input));
                if let Some(refusal) = refused {
                    break Outcome::Refused(refusal);
                }
                match self.core.decide(known.as_ref(), input, &given.facts(), now) {
                    Outcome::Need(needs) => {
                        rounds += 1;
                        assert!(rounds <= ROUNDS_MAX, "{input:?} always needs {needs:?}");
                        needs
                            .into_iter()
                            .for_each(|need| self.provide(need, &states, &mut given));
                    }
                    outcome => break outcome,
                }
            };
            answers.push(match outcome {
                Outcome::Decided(mut decision) => {
                    let rewrite = self.rewrite.unwrap_or(|_, _, _| ());
                    rewrite(known.as_ref(), input, &mut decision);
                    let version = S::version(&decision.state);
                    // A run follows what was commanded for all at the same time: one version each.
                    let rises = known.as_ref().is_none_or(|it| S::version(it) < version);
                    assert!(rises, "{key:?}: the version rises");
                    given.aggregate(key.clone(), Some(decision.state.clone()));
                    states.insert(key, decision.state);
                    effects.extend(decision.effects);
                    for (need, fact) in decision.facts {
                        given.fact(need.clone(), Some(fact.clone()));
                        facts.push((need, fact));
                    }
                    S::told_as_problem(&decision.answer).map_or(Ok(decision.answer), Err)
                }
                Outcome::Unchanged(answer) => Ok(answer),
                Outcome::Refused(refusal) => Err(self.core.problem(&refusal)),
                Outcome::Need(_) => unreachable!("asked for above"),
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
        need: S::Need,
        states: &BTreeMap<S::Key, S::State>,
        given: &mut GivenFacts<S>,
    ) {
        match S::aggregate(&need) {
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

    fn keep(&mut self, wish: Wish) {
        let key = (
            wish.kind.to_owned(),
            wish.workspace.clone(),
            wish.id.clone(),
        );
        let newest = self
            .wishes
            .get(&key)
            .is_none_or(|kept| wish.rev >= kept.wish.rev);
        assert!(newest, "{wish:?} would not be heeded");
        self.wishes.insert(
            key,
            Kept {
                wish,
                sent_at: None,
            },
        );
    }

    /// Sends what was never sent, and again what nobody has confirmed for too long.
    pub(crate) fn send_wishes(&mut self, around: &mut Around<'_>) {
        let mut groups: BTreeMap<_, Vec<(WishKey, u64)>> = BTreeMap::new();
        for (key, kept) in &mut self.wishes {
            let is_due = match kept.sent_at {
                None => true,
                Some(at) => at + AGAIN_AFTER <= around.now && around.fault != Fault::WishOnce,
            };
            if is_due {
                kept.sent_at = Some(around.now);
                let (kind, workspace, id) = key.clone();
                let group = groups.entry((kind, workspace, partition(&id)));
                group.or_default().push((key.clone(), kept.wish.rev));
            }
        }
        for ((kind, workspace, _), keys) in groups {
            let bodies: Vec<_> = keys
                .iter()
                .map(|(key, _)| self.wishes[key].wish.body.as_str())
                .collect();
            let message = self.core.wish_message(&kind, &workspace, &bodies).unwrap();
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
    pub(crate) fn fact(&self, need: &S::Need) -> Option<&S::Fact> {
        self.facts.get(need)
    }

    /// Wishes that nobody has confirmed.
    pub(crate) fn unconfirmed(&self) -> Vec<&Wish> {
        self.wishes.values().map(|kept| &kept.wish).collect()
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
