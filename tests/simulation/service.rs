//! A service on the simulated bus: its real core and translations in a kernel in memory. It follows the rules of
//! the real kernel and may crash between any two of its steps.
//!
//! The order is decide, commit (states, facts, desired states, outbox), publish, reply, ack. Committed data survives a
//! crash. Desired states are sent again until their receiver replies.

mod given;
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
    DecodedCommand, DesiredState, EffectOf, FactOf, InputOf, KeyOf, NeedOf, ReplyOf, Service,
    StateOf,
};
use serde_json::Value;

use self::given::Given;
use crate::bus::{Delivery, SimBus};
use crate::chance::Chance;
use crate::features::{Feature, Features};
use crate::tables::Tables;

/// Until a command is redelivered.
pub(crate) const ACK_WAIT: TimeDelta = TimeDelta::seconds(10);

/// Until an unacknowledged desired state is sent again.
const AGAIN_AFTER: TimeDelta = TimeDelta::seconds(5);

/// One commit in so many loses a race against another replica of its service.
const RACES: u64 = 20;

/// Most messages that one commit takes.
const MESSAGES_MAX: usize = 4;

/// How often one input may ask for more facts.
const ROUNDS_MAX: usize = 4;

/// A rule that is broken on purpose, to show that the simulation would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    None,
    /// A message is answered and acked before its commit.
    ReplyBeforeCommit,
    /// Messages leave before the commit.
    PublishBeforeCommit,
    /// Unpublished messages are forgotten, and no sweep dispatches a step again.
    DispatchOnce,
    /// Desired states are sent once.
    DesiredStateOnce,
    /// A worker starts each delivered step without a grant.
    StartWithoutGrant,
    /// A worker forgets which steps it has started.
    ForgetStartedSteps,
    /// Leases never end.
    EndlessLease,
    /// The cell *decided × open* of the hold table: the desired state replaces the decision.
    DecisionReplaced,
    /// The cell *timed out × frozen earlier* of the hold table: the timeout stays.
    TimeoutStays,
    /// A timeout is reported as later than any deadline, so that an old one ends a hold with time left.
    TimeoutOfOldDeadline,
    /// The executor is told that a rejected call is approved.
    RejectionApproves,
    /// The executor is not told of edited arguments.
    EditsIgnored,
    /// The uses of a standing approval are not counted.
    UsesUncounted,
    /// An approval counts although its approver lost the right to give it.
    LostRightsCount,
    /// Inbox entries of an ended request stay unread.
    EntriesStayUnread,
    /// A failed webhook call is not attempted again.
    WebhookCallOnce,
    /// The end of a run is recorded, and no webhook is called.
    RunEndWithoutWebhooks,
}

/// The step after which the process dies.
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
    fn by(chance: &mut Chance, chaos: bool) -> Self {
        if !chaos || !chance.one_in(12) {
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

/// The surroundings of a service while it handles a message.
pub(crate) struct Env<'a> {
    pub(crate) bus: &'a mut SimBus,
    pub(crate) chance: &'a mut Chance,
    /// Replies that are not delivered yet: inbox and body.
    pub(crate) replies: &'a mut Vec<(String, Value)>,
    pub(crate) now: DateTime<Utc>,
    pub(crate) mutation: Mutation,
    pub(crate) chaos: bool,
    pub(crate) features: Features,
}

/// A desired state that is not acknowledged yet.
struct Kept {
    desired_state: DesiredState,
    sent_at: Option<DateTime<Utc>>,
}

type DesiredStateKey = (String, Workspace, String);

/// Changes a decision, which breaks a rule of a core.
pub(crate) type Rewrite<S> =
    fn(Option<&StateOf<S>>, &InputOf<S>, &mut Decided<<S as Service>::Domain>);

/// Refuses some inputs.
pub(crate) type Refuses<S> =
    fn(&InputOf<S>) -> Option<<<S as Service>::Domain as Decider>::Refusal>;

/// One service.
pub(crate) struct SimService<S: Tables> {
    pub(crate) core: S,
    pub(crate) states: HashMap<KeyOf<S>, StateOf<S>>,
    /// Committed effects in order. The checks take them.
    pub(crate) effects: Vec<EffectOf<S>>,
    /// Rows beside the states.
    pub(crate) rows: S::Rows,
    /// The mutation of its core.
    pub(crate) rewrite: Option<Rewrite<S>>,
    /// Inputs that it refuses although its core would accept them.
    pub(crate) refuses: Option<Refuses<S>>,
    /// How far its clock is behind.
    pub(crate) clock_lag: TimeDelta,
    facts: HashMap<NeedOf<S>, FactOf<S>>,
    desired_states: BTreeMap<DesiredStateKey, Kept>,
    outbox: BTreeMap<u64, Vec<Outgoing>>,
    numbers: u64,
    /// Replies that it waits for. A crash loses them.
    awaited_replies: BTreeMap<String, Vec<(DesiredStateKey, u64)>>,
}

/// The decisions of one commit before it is stored.
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
            clock_lag: TimeDelta::zero(),
            facts: HashMap::new(),
            desired_states: BTreeMap::new(),
            outbox: BTreeMap::new(),
            numbers: 0,
            awaited_replies: BTreeMap::new(),
        }
    }

    /// Handles stored commands in one commit. False: there are none.
    pub(crate) fn take(&mut self, env: &mut Env<'_>) -> bool {
        let queue = subject::commands_stream(S::NAME);
        let takes_many = env.chaos && env.features.has(Feature::Batches);
        let most = match takes_many && env.chance.one_in(3) {
            true => 1 + env.chance.place(MESSAGES_MAX),
            false => 1,
        };
        let mut taken: Vec<(Delivery, DecodedCommand<InputOf<S>>)> = Vec::new();
        while taken.len() < most {
            let chance = env.chaos.then_some(&mut *env.chance);
            let Some(delivery) = env.bus.pull(&queue, env.now, ACK_WAIT, chance) else {
                break;
            };
            let parts = subject::parse(&delivery.subject).unwrap();
            let request = self.core.decode(&parts, delivery.body.as_bytes());
            let request = request.unwrap_or_else(|problem| {
                panic!("{} cannot read {}: {problem}", S::NAME, delivery.body);
            });
            taken.push((delivery, request));
        }
        if taken.is_empty() {
            return false;
        }
        let (deliveries, requests): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        if env.chaos && env.features.has(Feature::Races) && env.chance.one_in(RACES) {
            // Another replica commits first. The states have other versions then, so nothing of this decision is
            // stored.
            self.decide(&requests, env.now);
            self.take(env);
        }
        for (delivery, reply) in deliveries.into_iter().zip(self.commit_all(&requests, env)) {
            if let Some(inbox) = delivery.reply {
                env.replies.push((inbox, reply));
            }
            env.bus.ack(delivery.seq);
        }
        true
    }

    /// A core request. `None`: the request or its reply was lost. The caller cannot know which.
    pub(crate) fn ask(&mut self, subject: &str, body: &str, env: &mut Env<'_>) -> Option<Value> {
        if env.chaos && env.chance.one_in(10) {
            return None;
        }
        let parts = subject::parse(subject).unwrap();
        let request = match self.core.decode(&parts, body.as_bytes()) {
            Ok(request) => request,
            // The token of a step has expired.
            Err(problem) => return serde_json::to_value(Reply::<()>::from(Err(problem))).ok(),
        };
        let reply = self.commit(&request, env)?;
        (!env.chaos || !env.chance.one_in(10)).then_some(reply)
    }

    /// Commits inputs of its timers and sweeps.
    pub(crate) fn submit(&mut self, inputs: Vec<InputOf<S>>, env: &mut Env<'_>) -> bool {
        self.commit(&DecodedCommand::many(inputs), env).is_some()
    }

    /// Decides, commits and publishes. `None`: it died and was restarted.
    fn commit(&mut self, request: &DecodedCommand<InputOf<S>>, env: &mut Env<'_>) -> Option<Value> {
        self.commit_all(std::slice::from_ref(request), env).pop()
    }

    /// The reply to each request. Empty: it died and was restarted.
    fn commit_all(
        &mut self,
        requests: &[DecodedCommand<InputOf<S>>],
        env: &mut Env<'_>,
    ) -> Vec<Value> {
        let crash = Crash::by(env.chance, env.chaos);
        if crash == Crash::Fetched {
            return self.restart(env);
        }
        let now = env.now - self.clock_lag;
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
            if env.mutation == Mutation::PublishBeforeCommit {
                publish(self.core.messages(&batch.effects), env);
            }
            let nothing = self.restart(env);
            return match env.mutation {
                Mutation::ReplyBeforeCommit => replies,
                _ => nothing,
            };
        }
        S::observe(&mut self.rows, &self.states, &batch.states);
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
            return self.restart(env);
        }
        let mut messages = self.outbox.get(&row).cloned().unwrap_or_default();
        if crash == Crash::HalfPublished {
            messages.truncate(messages.len() / 2);
            publish(messages, env);
            return self.restart(env);
        }
        publish(messages, env);
        if crash == Crash::Published {
            return self.restart(env);
        }
        self.outbox.remove(&row);
        self.send_desired_states(env);
        if crash == Crash::Replied {
            return self.restart(env);
        }
        replies
    }

    /// Loses what is only in memory, and publishes the outbox.
    fn restart(&mut self, env: &mut Env<'_>) -> Vec<Value> {
        self.awaited_replies.clear();
        for (_, messages) in std::mem::take(&mut self.outbox) {
            if env.mutation != Mutation::DispatchOnce {
                publish(messages, env);
            }
        }
        Vec::new()
    }

    fn decide(&self, requests: &[DecodedCommand<InputOf<S>>], now: DateTime<Utc>) -> Batch<S> {
        let mut given = Given::<S>::default();
        let mut states: BTreeMap<KeyOf<S>, StateOf<S>> = BTreeMap::new();
        let (mut facts, mut effects, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for input in requests.iter().flat_map(|request| &request.inputs) {
            let key = S::Domain::key(input);
            let known = states.get(&key).or_else(|| self.states.get(&key)).cloned();
            given.aggregate(key.clone(), known.as_ref());
            let mut rounds = 0;
            let outcome = loop {
                let refused = self.refuses.and_then(|refuses| refuses(input));
                if let Some(refusal) = refused {
                    break Err(refusal);
                }
                match S::Domain::decide(known.as_ref(), input, &|need| given.lookup(need), now) {
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
                    // Also a run that applies a command for all runs gets a new version.
                    let rises = known
                        .as_ref()
                        .is_none_or(|it| S::Domain::version(it) < version);
                    assert!(rises, "{key:?}: the version does not rise");
                    given.aggregate(key.clone(), Some(&decision.state));
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
        given: &mut Given<S>,
    ) {
        match S::Domain::aggregate(&need) {
            Some(key) => {
                let state = states.get(&key).or_else(|| self.states.get(&key));
                given.aggregate(key.clone(), state);
            }
            None => {
                let fact = S::look_up(&self.rows, &self.states, &need);
                let fact = fact.or_else(|| self.facts.get(&need).cloned());
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
        assert!(newest, "{desired_state:?} has an old rev");
        self.desired_states.insert(
            key,
            Kept {
                desired_state,
                sent_at: None,
            },
        );
    }

    /// Sends new desired states, and repeats those that are unacknowledged for too long.
    pub(crate) fn send_desired_states(&mut self, env: &mut Env<'_>) {
        let mut groups: BTreeMap<_, Vec<(DesiredStateKey, u64)>> = BTreeMap::new();
        for (key, kept) in &mut self.desired_states {
            let is_due = match kept.sent_at {
                None => true,
                Some(at) => {
                    at + AGAIN_AFTER <= env.now && env.mutation != Mutation::DesiredStateOnce
                }
            };
            if is_due {
                kept.sent_at = Some(env.now);
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
            self.awaited_replies.insert(inbox.clone(), keys);
            let now = env.now;
            env.bus
                .publish(&message.subject, message.body, Some(inbox), now);
        }
    }

    /// A stored fact.
    pub(crate) fn fact(&self, need: &NeedOf<S>) -> Option<&FactOf<S>> {
        self.facts.get(need)
    }

    /// Desired states that are not acknowledged.
    pub(crate) fn unconfirmed(&self) -> Vec<&DesiredState> {
        self.desired_states
            .values()
            .map(|kept| &kept.desired_state)
            .collect()
    }
}

/// Publishes all messages, some of them twice.
fn publish(messages: Vec<Outgoing>, env: &mut Env<'_>) {
    for message in messages {
        let copies = if env.chaos && env.chance.one_in(15) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let body = message.body.clone();
            env.bus.publish(&message.subject, body, None, env.now);
        }
    }
}
