//! The notification service: its rows, its sweeps and its deliveries. Ada watches an agent from the beginning. Bob
//! watches runs and has a mail address.

mod checks;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::handoff::UserView;
use holdpoint_contracts::notification::{PendingReason, Unwatch, Watch, Watched};
use holdpoint_executor::domain::Key as RunKey;
use holdpoint_handoff::domain::Aggregate as HandoffAggregate;
use holdpoint_ids::{NotificationId, RunId, UserName, WebhookId};
use holdpoint_notification::Notification;
use holdpoint_notification::domain::{
    Aggregate, AttemptReport, Delivery, DeliveryKey, DeliveryRules, DeliveryTarget, Effect, Fact,
    Input, Key, Need, NewInboxEntries, NotificationEvent, Person, Phase,
};

use crate::service::{Env, SimService};
use crate::tables::{Tables, through_json};
use crate::webhooks::{Receiver, WebhookCalls, retry_now, subscriptions};
use crate::world::{World, env_of};

/// An unreported delivery is not dispatched again within this time (`LEASE` of the service).
const LEASE: TimeDelta = TimeDelta::minutes(2);

/// One person's inbox entry.
#[derive(Debug)]
struct Entry {
    is_read: bool,
    renews: bool,
}

/// Rows of the notification service.
#[derive(Default)]
pub(crate) struct NotificationRows {
    /// The user directory.
    users: BTreeMap<UserName, UserView>,
    entries: BTreeMap<(NotificationId, UserName), Entry>,
    pub(crate) webhook_calls: WebhookCalls,
}

impl Tables for Notification {
    type Rows = NotificationRows;

    fn keep_rows(rows: &mut NotificationRows, effects: &[Effect], _: DateTime<Utc>) {
        for effect in effects {
            if let Effect::AddInboxEntries(NewInboxEntries {
                id,
                people,
                read_at,
                renews,
                ..
            }) = effect
            {
                rows.add(*id, people, read_at.is_some(), *renews);
            }
        }
        for effect in effects {
            if let Effect::ReadRequestEntries { hold, .. } = effect {
                let all = rows.entries.iter_mut();
                all.filter(|((id, _), _)| id.hold == *hold)
                    .for_each(|(_, entry)| entry.is_read = true);
            }
        }
    }

    fn observe(
        rows: &mut NotificationRows,
        before: &HashMap<Key, Aggregate>,
        after: &[(Key, Aggregate)],
    ) {
        rows.webhook_calls.observe(before, after);
    }

    fn make_states(states: &mut HashMap<Key, Aggregate>, effects: &[Effect], now: DateTime<Utc>) {
        for effect in effects {
            if let Effect::StoreEvent(event) = effect {
                let stored = Aggregate::Event(event.clone());
                states.entry(Key::Event(event.key())).or_insert(stored);
            }
            retry_now(states, effect, now);
            let Effect::Deliver(all) = effect else {
                continue;
            };
            let has_delivery = |name: &UserName| {
                states.keys().any(|key| match key {
                    Key::Delivery(key) => key.note == all.id && key.to.name() == Some(name),
                    _ => false,
                })
            };
            let begins_twice = |to: &DeliveryTarget| to.name().is_some_and(has_delivery);
            let new = all.to.iter();
            let new = new.filter(|one| !one.after.is_empty() || !begins_twice(&one.to));
            let new = new.map(|one| all.delivery(one, now));
            for one in new.collect::<Vec<_>>() {
                let key = Key::Delivery(one.key.clone());
                let kept = states.entry(key);
                kept.or_insert_with(|| Aggregate::Delivery(Box::new(one)));
            }
        }
    }

    fn look_up(
        rows: &NotificationRows,
        states: &HashMap<Key, Aggregate>,
        need: &Need,
    ) -> Option<Fact> {
        Some(match need {
            Need::Members {
                role, after, limit, ..
            } => {
                let users = rows.users.values();
                let members = users.filter(|user| user.active && user.roles.contains(role));
                let names = members.map(|user| user.name.clone());
                let names = names.filter(|name| after.as_ref().is_none_or(|after| name > after));
                Fact::Names(names.take(*limit).collect())
            }
            Need::Person(_, name) => {
                let user = rows.users.get(name)?;
                Fact::Person(Person {
                    name: name.clone(),
                    active: user.active,
                    has_mail: user.email.is_some(),
                    may_look: true,
                    rules: DeliveryRules::default(),
                })
            }
            Need::Watchers {
                of, after, limit, ..
            } => {
                let watching: BTreeSet<_> = watches(states)
                    .filter(|(_, watched)| of.contains(watched))
                    .map(|(name, _)| name.clone())
                    .filter(|name| after.as_ref().is_none_or(|after| name > after))
                    .collect();
                Fact::Names(watching.into_iter().take(*limit).collect())
            }
            Need::WatchCount(_, person) => {
                let watching = watches(states).filter(|(name, _)| *name == person);
                Fact::Count(watching.count() as u64)
            }
            Need::Webhooks(_) => Fact::Webhooks(subscriptions(states)),
            Need::IsErased(..)
            | Need::LastErasure(..)
            | Need::ContactEvents { .. }
            | Need::RequestLifecycle(..)
            | Need::Unread { .. } => return None,
        })
    }

    /// Only events are stored as JSON.
    fn stored(state: Aggregate) -> Aggregate {
        match state {
            Aggregate::Event(it) => Aggregate::Event(through_json(&it)),
            other => other,
        }
    }
}

impl NotificationRows {
    /// An entry that exists stays as it is.
    fn add(&mut self, id: NotificationId, people: &[UserName], is_read: bool, renews: bool) {
        for name in people {
            let key = (id, name.clone());
            if self.entries.contains_key(&key) {
                continue;
            }
            if renews {
                self.entries.retain(|(other, person), entry| {
                    !(other.hold == id.hold && person == name && entry.renews)
                });
            }
            self.entries.insert(key, Entry { is_read, renews });
        }
    }
}

fn watches(states: &HashMap<Key, Aggregate>) -> impl Iterator<Item = (&UserName, &Watched)> {
    states.values().filter_map(|state| match state {
        Aggregate::Watch(watch) => watch.since.map(|_| (&watch.person, &watch.of)),
        _ => None,
    })
}

pub(crate) fn deliveries(states: &HashMap<Key, Aggregate>) -> Vec<&Delivery> {
    let mut all: Vec<_> = states
        .values()
        .filter_map(|state| match state {
            Aggregate::Delivery(one) => Some(&**one),
            _ => None,
        })
        .collect();
    all.sort_by(|one, other| one.key.cmp(&other.key));
    all
}

/// Events whose fan-out is pending.
fn pending_fan_outs(notification: &SimService<Notification>) -> Vec<Input> {
    let events = notification.states.values().filter_map(Aggregate::as_event);
    let pending = events.filter(|event| event.fan_out.is_pending());
    let mut keys: Vec<_> = pending.map(NotificationEvent::key).collect();
    keys.sort();
    keys.into_iter().map(Input::ContinueFanOut).collect()
}

/// Deliveries in the memory of the process, and what their receivers have accepted.
#[derive(Default)]
pub(crate) struct DeliveryPool {
    jobs: Vec<(DeliveryKey, u32)>,
    /// When each unreported delivery was dispatched last.
    dispatched_at: BTreeMap<DeliveryKey, DateTime<Utc>>,
    /// The attempts of each delivery that its receiver accepted.
    arrived: BTreeMap<DeliveryKey, Vec<u32>>,
    pub(crate) receivers: BTreeMap<WebhookId, Receiver>,
}

impl DeliveryPool {
    /// How often a receiver accepted a delivery.
    pub(crate) fn arrivals(&self, key: &DeliveryKey) -> usize {
        self.arrived.get(key).map_or(0, Vec::len)
    }
}

impl World {
    /// Ada watches an agent.
    pub(crate) fn watch_agent(&mut self) {
        let of = Watched::Agent("agent-0".parse().unwrap());
        self.signed(0, Watch { of });
    }

    /// Bob watches a run, or stops watching it. The gateway knows which runs exist.
    pub(crate) fn watch_run(&mut self) {
        let is_there = |run: &&RunId| self.executor.states.contains_key(&RunKey::Run(**run));
        let runs: Vec<_> = self.runs.iter().filter(is_there).copied().collect();
        if runs.is_empty() {
            return;
        }
        let run = runs[self.chance.place(runs.len())];
        let of = Watched::Run(run);
        match self.chance.one_in(4) {
            true => self.signed(1, Unwatch { of }),
            false => self.signed(1, Watch { of }),
        }
    }

    /// `sweeps.rs` of the service: pending fan-outs, due deliveries and watches of run ends.
    pub(crate) fn sweep_notification(&mut self) {
        self.notification.rows.users = self.users();
        let inputs = pending_fan_outs(&self.notification);
        if !inputs.is_empty() {
            self.notification.submit(inputs, &mut env_of!(self));
        }
        self.sweep_run_end_watches();
        let is_due = |one: &&Delivery| {
            let pending = one.phase.as_pending();
            pending.is_some_and(|(next_at, _)| next_at <= self.now)
        };
        let all = deliveries(&self.notification.states);
        let due = all.into_iter().filter(is_due);
        let inputs: Vec<_> = due
            .map(|one| Input::ClaimDelivery(one.key.clone()))
            .collect();
        if !inputs.is_empty() {
            self.notification.submit(inputs, &mut env_of!(self));
        }
    }

    fn users(&self) -> BTreeMap<UserName, UserView> {
        let states = self.handoff.states.values();
        let users = states.filter_map(HandoffAggregate::try_as_user_ref);
        users.map(|user| (user.name.clone(), user.view())).collect()
    }

    /// Takes new dispatches. A process that dies loses them.
    pub(crate) fn collect_deliveries(&mut self) {
        for effect in std::mem::take(&mut self.notification.effects) {
            let Effect::Send { key, attempt } = effect else {
                continue;
            };
            let before = self.pool.dispatched_at.insert(key.clone(), self.now);
            let is_over = before.is_none_or(|before| before + LEASE <= self.now);
            assert!(is_over, "{key:?} is dispatched twice at a time");
            if !(self.chaos && self.chance.one_in(8)) {
                self.pool.jobs.push((key, attempt));
            }
        }
    }

    /// Makes one attempt to deliver. False: none is dispatched.
    pub(crate) fn send(&mut self) -> bool {
        let Some((key, attempt)) = self.pool.jobs.pop() else {
            return false;
        };
        let report = match key.to {
            DeliveryTarget::Webhook(id) => self.call_webhook(&key, id),
            _ if self.chaos && self.chance.one_in(4) => {
                AttemptReport::Later("The mail server does not answer.".to_owned())
            }
            _ => AttemptReport::Sent {
                receipt: "250 taken".to_owned(),
            },
        };
        if let AttemptReport::Sent { .. } = report {
            let tries = self.pool.arrived.entry(key.clone()).or_default();
            assert!(!tries.contains(&attempt), "{key:?} {attempt} is sent twice");
            tries.push(attempt);
        }
        if self.chaos && self.chance.one_in(8) {
            return true;
        }
        let reported = Input::RecordAttempt {
            key: key.clone(),
            attempt,
            report,
        };
        self.notification.submit(vec![reported], &mut env_of!(self));
        // The process may have died after the commit, so the state tells whether it is reported.
        let state = self.notification.states.get(&Key::Delivery(key.clone()));
        let Some(Aggregate::Delivery(delivery)) = state else {
            panic!("{key:?} is gone");
        };
        if !matches!(
            delivery.phase,
            Phase::Pending {
                waits: PendingReason::Answer,
                ..
            }
        ) {
            self.pool.dispatched_at.remove(&key);
        }
        true
    }

    /// When the service has something to do. `None`: nothing is left.
    pub(crate) fn next_notification(&self) -> Option<DateTime<Utc>> {
        if !pending_fan_outs(&self.notification).is_empty() || !self.pool.jobs.is_empty() {
            return Some(self.now);
        }
        let all = deliveries(&self.notification.states);
        let due = all.into_iter().filter_map(|one| match one.phase {
            Phase::Pending { next_at, .. } => Some(next_at),
            Phase::Sent { .. } | Phase::Failed | Phase::Dropped => None,
        });
        due.min()
    }
}
