//! The notification service: its rows, its sweeps, what it sends, and what must hold of it. Ada watches an
//! agent from the beginning; Bob watches runs, and has an address for mails.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::handoff::UserView;
use holdpoint_contracts::hold::OPERATOR_TAKEOVER;
use holdpoint_contracts::notification::{PendingReason, Unwatch, Watch, Watched};
use holdpoint_contracts::run::HoldKind;
use holdpoint_executor::domain::{Aggregate as Executed, Key as RunKey};
use holdpoint_handoff::domain::{Aggregate as Asked, Request};
use holdpoint_ids::{HoldId, NotificationId, RunId, UserName};
use holdpoint_notification::Notification;
use holdpoint_notification::domain::{
    Aggregate, AttemptReport, Delivery, DeliveryKey, DeliveryRules, DeliveryTarget, Effect, Fact,
    Input, Key, Need, NewInboxEntries, NotificationEvent, Person, Phase, Recipient, RequestLifecycle,
};

use crate::people::{is_standing, requests};
use crate::service::{Around, SimService};
use crate::tables::{Tables, through_json};
use crate::world::{World, acme, around};

/// A delivery is not dispatched again within it, but for a report (`LEASE` of the service).
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
    /// The read entry of users.
    users: BTreeMap<UserName, UserView>,
    entries: BTreeMap<(NotificationId, UserName), Entry>,
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

    fn make_states(states: &mut HashMap<Key, Aggregate>, effects: &[Effect], now: DateTime<Utc>) {
        for effect in effects {
            if let Effect::StoreEvent(event) = effect {
                let stored = Aggregate::Event(event.clone());
                states.entry(Key::Event(event.key())).or_insert(stored);
            }
            let Effect::Deliver(all) = effect else {
                continue;
            };
            let is_told = |name: &UserName| {
                states.keys().any(|key| match key {
                    Key::Delivery(key) => key.note == all.id && key.to.name() == Some(name),
                    _ => false,
                })
            };
            let begins_twice = |to: &DeliveryTarget| to.name().is_some_and(is_told);
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
            Need::Webhooks(_) => Fact::Webhooks(Vec::new()),
            Need::RequestLifecycle(..) | Need::Unread { .. } => return None,
        })
    }

    /// Its rows have columns only, but for facts.
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

fn deliveries(states: &HashMap<Key, Aggregate>) -> Vec<&Delivery> {
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

/// What is out, in the memory of the process.
#[derive(Default)]
pub(crate) struct Outside {
    jobs: Vec<(DeliveryKey, u32)>,
    /// The newest dispatch of each delivery that nobody has reported: which, and when.
    handed_out: BTreeMap<DeliveryKey, DateTime<Utc>>,
    /// What has arrived, by the tries.
    arrived: BTreeMap<DeliveryKey, Vec<u32>>,
}

impl World {
    /// Ada watches an agent.
    pub(crate) fn watch_from_the_beginning(&mut self) {
        let of = Watched::Agent("agent-0".parse().unwrap());
        self.signed(0, Watch { of });
    }

    /// Bob begins to watch a run, or does no more. The gateway knows which runs there are.
    pub(crate) fn watch_one(&mut self) {
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

    /// `sweeps.rs` of the service: people who are still to be told, and deliveries that are due.
    pub(crate) fn notify(&mut self) {
        self.notification.rows.users = self.users();
        let inputs = pending_fan_outs(&self.notification);
        if !inputs.is_empty() {
            self.notification.submit(inputs, &mut around!(self));
        }
        let is_due = |one: &&Delivery| match one.phase {
            Phase::Pending { next_at, .. } => next_at <= self.now,
            Phase::Sent { .. } | Phase::Failed | Phase::Dropped => false,
        };
        let all = deliveries(&self.notification.states);
        let due = all.into_iter().filter(is_due);
        let inputs: Vec<_> = due
            .map(|one| Input::ClaimDelivery(one.key.clone()))
            .collect();
        if !inputs.is_empty() {
            self.notification.submit(inputs, &mut around!(self));
        }
    }

    fn users(&self) -> BTreeMap<UserName, UserView> {
        let states = self.handoff.states.values();
        let users = states.filter_map(|state| match state {
            Asked::User(user) => Some((user.name.clone(), user.view())),
            Asked::Request(_) | Asked::Policy(_) => None,
        });
        users.collect()
    }

    /// Takes what was dispatched since; a process that died has lost it.
    pub(crate) fn hand_to_post(&mut self) {
        for effect in std::mem::take(&mut self.notification.effects) {
            let Effect::Send { key, attempt } = effect else {
                continue;
            };
            let before = self.outside.handed_out.insert(key.clone(), self.now);
            let is_over = before.is_none_or(|before| before + LEASE <= self.now);
            assert!(is_over, "{key:?} is dispatched twice at a time");
            if !(self.cruel && self.chance.one_in(8)) {
                self.outside.jobs.push((key, attempt));
            }
        }
    }

    /// One try to deliver; true if there was one.
    pub(crate) fn send(&mut self) -> bool {
        let Some((key, attempt)) = self.outside.jobs.pop() else {
            return false;
        };
        let fails = self.cruel && self.chance.one_in(4);
        if !fails {
            let tries = self.outside.arrived.entry(key.clone()).or_default();
            assert!(!tries.contains(&attempt), "{key:?} {attempt} is sent twice");
            tries.push(attempt);
        }
        let report = match fails {
            true => AttemptReport::Later("Nobody answers.".to_owned()),
            false => AttemptReport::Sent {
                receipt: "250 taken".to_owned(),
            },
        };
        if self.cruel && self.chance.one_in(8) {
            return true;
        }
        let reported = Input::RecordAttempt {
            key: key.clone(),
            attempt,
            report,
        };
        self.notification.submit(vec![reported], &mut around!(self));
        // Perhaps it died behind the commit.
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
            self.outside.handed_out.remove(&key);
        }
        true
    }

    /// When the service itself has something to do; none: nothing any more.
    pub(crate) fn next_to_notify(&self) -> Option<DateTime<Utc>> {
        if !pending_fan_outs(&self.notification).is_empty() || !self.outside.jobs.is_empty() {
            return Some(self.now);
        }
        let all = deliveries(&self.notification.states);
        let due = all.into_iter().filter_map(|one| match one.phase {
            Phase::Pending { next_at, .. } => Some(next_at),
            Phase::Sent { .. } | Phase::Failed | Phase::Dropped => None,
        });
        due.min()
    }

    /// All who are concerned are told of what is asked, once, and nobody has to look at what is over.
    pub(crate) fn everybody_is_told(&self) {
        for request in requests(self) {
            self.is_told(request);
        }
        for delivery in deliveries(&self.notification.states) {
            let arrived = self.outside.arrived.contains_key(&delivery.key);
            match &delivery.phase {
                Phase::Sent { .. } => assert!(arrived, "never arrived: {delivery:#?}"),
                Phase::Pending { .. } | Phase::Failed | Phase::Dropped => {
                    panic!("given up or forgotten: {delivery:#?}")
                }
            }
        }
        for run in &self.runs {
            self.end_is_told(*run);
        }
    }

    /// What of the last of [`MET`](crate::requests::MET) has happened.
    pub(crate) fn notified(&self) -> [bool; 4] {
        let is_again = |one: &&Delivery| one.attempts > 1;
        let entries = &self.notification.rows.entries;
        let of_end = |person: &str| {
            let is_it = |(id, name): &(NotificationId, UserName)| {
                id.hold.number == 0 && name.as_str() == person
            };
            entries.keys().any(is_it)
        };
        [
            deliveries(&self.notification.states).iter().any(is_again),
            self.outside.arrived.values().any(|tries| tries.len() > 1),
            of_end("ada"),
            of_end("bob"),
        ]
    }

    fn is_told(&self, request: &Request) {
        let spec = request.spec.as_ref().unwrap();
        if spec.kind == HoldKind::Timer {
            return;
        }
        let lifecycle = self.lifecycle(request.id);
        let unread = self.unread(request.id);
        let Some(asked) = lifecycle.opened else {
            assert!(!is_standing(request), "nobody is told of {request:#?}");
            return;
        };
        assert_eq!(
            is_standing(request),
            !lifecycle.has_ended(),
            "{request:#?} {lifecycle:?}"
        );
        let states = self.notification.states.values();
        let events: Vec<_> = states
            .filter_map(Aggregate::as_event)
            .filter_map(|event| Some((event.id(), event.as_request()?)))
            .filter(|(_, event)| event.id == request.id)
            .collect();
        if lifecycle.has_ended() || lifecycle.taken > Some(asked) {
            let is_news = |id: &&NotificationId| {
                let of = events.iter().find(|(of, _)| of == *id);
                of.is_some_and(|(_, event)| {
                    event.kind.is_end() || Some(event.rev) > lifecycle.taken
                })
            };
            let stale: Vec<_> = unread.iter().map(|(id, _)| id).collect();
            let all_news = stale.iter().all(is_news);
            assert!(
                all_news,
                "to be looked at for nothing: {stale:?} {lifecycle:?}"
            );
        } else if spec.reason.as_deref() != Some(OPERATOR_TAKEOVER) {
            let (id, event) = events.iter().find(|(_, event)| event.rev == asked).unwrap();
            for name in self.named(&event.to) {
                let entry = (*id, name);
                assert!(
                    unread.contains(&&entry),
                    "{entry:?} is missing: {request:#?}"
                );
            }
        }
    }

    fn lifecycle(&self, hold: HoldId) -> RequestLifecycle {
        match self
            .notification
            .fact(&Need::RequestLifecycle(acme(), hold))
        {
            Some(Fact::RequestLifecycle(lifecycle)) => *lifecycle,
            _ => RequestLifecycle::default(),
        }
    }

    fn unread(&self, hold: HoldId) -> Vec<&(NotificationId, UserName)> {
        let entries = self.notification.rows.entries.iter();
        let unread = entries.filter(|((id, _), entry)| id.hold == hold && !entry.is_read);
        unread.map(|(key, _)| key).collect()
    }

    /// Everybody is an owner.
    fn named(&self, to: &[String]) -> Vec<UserName> {
        let all = self.users();
        let of = |audience| match audience {
            Recipient::User(name) => vec![name],
            Recipient::Role(_) => all.keys().cloned().collect(),
        };
        Recipient::parse_all(to).into_iter().flat_map(of).collect()
    }

    fn end_is_told(&self, id: RunId) {
        let Some(Executed::Run(run)) = self.executor.states.get(&RunKey::Run(id)) else {
            panic!("{id} is not there");
        };
        if !run.is_final() {
            return;
        }
        let states = self.notification.states.values();
        let ends = states.filter_map(Aggregate::as_event);
        let mut ends = ends.filter_map(NotificationEvent::as_run_end);
        let end = ends.find(|end| end.run == id);
        let is_told = |person: &str| {
            let entries = self.notification.rows.entries.keys();
            let mut ids = entries.filter(|(at, name)| {
                at.hold.run == id && at.hold.number == 0 && name.as_str() == person
            });
            ids.next().is_some() || end.is_some_and(|end| end.by.as_deref() == Some(person))
        };
        if run.agent.as_str() == "agent-0" {
            assert!(is_told("ada"), "she watches: {run:#?}");
        }
        let watched = Watched::Run(id);
        let still = watches(&self.notification.states).any(|(_, of)| *of == watched);
        assert!(!still || is_told("bob"), "he watches: {run:#?} {end:?}");
    }
}
