//! Rules of notifications, checked at the end: recipients and watchers are notified once, entries of ended requests are
//! read, and deliveries arrive.

use holdpoint_contracts::hold::OPERATOR_TAKEOVER;
use holdpoint_contracts::notification::{RequestEvent, RequestEventKind, Watched};
use holdpoint_contracts::run::HoldKind;
use holdpoint_executor::domain::{Aggregate as ExecutorAggregate, Key as RunKey};
use holdpoint_handoff::domain::Request;
use holdpoint_ids::{HoldId, NotificationId, RunId, UserName};
use holdpoint_notification::domain::{
    Aggregate, Delivery, DeliveryTarget, Fact, Need, NotificationEvent, Phase, Recipient,
    RequestLifecycle,
};

use super::{deliveries, watches};
use crate::people::{PEOPLE, is_pending, requests};
use crate::world::{World, acme};

impl World {
    /// Every recipient and watcher is notified once, and no entry of an ended request is unread.
    pub(crate) fn check_notifications(&self) {
        for request in requests(self) {
            self.check_request(request);
        }
        for delivery in deliveries(&self.notification.states) {
            let has_arrived = self.pool.arrivals(&delivery.key) > 0;
            match (&delivery.phase, &delivery.key.to) {
                (Phase::Sent { .. }, _) => assert!(has_arrived, "never arrived: {delivery:#?}"),
                (Phase::Failed | Phase::Dropped, DeliveryTarget::Webhook(_)) => {
                    self.check_unaccepted_call(delivery);
                }
                (Phase::Pending { .. } | Phase::Failed | Phase::Dropped, _) => {
                    panic!("given up or forgotten: {delivery:#?}")
                }
            }
        }
        for run in &self.runs {
            self.check_run_end(*run);
        }
        self.check_webhook_calls();
    }

    /// The outcomes of [`COVERAGE`](crate::requests::COVERAGE) from the 17th on in this history.
    pub(crate) fn notification_coverage(&self) -> [bool; 4] {
        let all = deliveries(&self.notification.states);
        let is_mail = |one: &&&Delivery| matches!(one.key.to, DeliveryTarget::Mail(_));
        let mails: Vec<_> = all.iter().filter(is_mail).collect();
        let entries = &self.notification.rows.entries;
        let of_end = |person: &str| {
            let is_it = |(id, name): &(NotificationId, UserName)| {
                self.runs.contains(&id.hold.run) && id.hold.number == 0 && name.as_str() == person
            };
            entries.keys().any(is_it)
        };
        [
            mails.iter().any(|mail| mail.attempts > 1),
            mails.iter().any(|mail| self.pool.arrivals(&mail.key) > 1),
            of_end("ada"),
            of_end("bob"),
        ]
    }

    fn check_request(&self, request: &Request) {
        let spec = request.spec.as_ref().unwrap();
        if spec.kind == HoldKind::Timer {
            return;
        }
        let lifecycle = self.lifecycle(request.id);
        let unread = self.unread(request.id);
        let Some(opened_rev) = lifecycle.opened else {
            assert!(!is_pending(request), "nobody is notified of {request:#?}");
            return;
        };
        assert_eq!(
            is_pending(request),
            !lifecycle.has_ended(),
            "{request:#?} {lifecycle:?}"
        );
        let states = self.notification.states.values();
        let events: Vec<_> = states
            .filter_map(Aggregate::as_event)
            .filter_map(|event| Some((event.id(), event.as_request()?)))
            .filter(|(_, event)| event.id == request.id)
            .collect();
        if lifecycle.has_ended() || lifecycle.taken > Some(opened_rev) {
            let is_current = |id: &&NotificationId| {
                let of = events.iter().find(|(of, _)| of == *id);
                of.is_some_and(|(_, event)| {
                    event.kind.is_end() || Some(event.rev) > lifecycle.taken
                })
            };
            let stale: Vec<_> = unread.iter().map(|(id, _)| id).collect();
            let all_current = stale.iter().all(is_current);
            assert!(all_current, "unread after the end: {stale:?} {lifecycle:?}");
        } else if spec.reason.as_deref() != Some(OPERATOR_TAKEOVER) {
            let (id, event) = events
                .iter()
                .find(|(_, event)| event.rev == opened_rev)
                .unwrap();
            let siblings = self.siblings(event);
            for name in self.named(&event.to) {
                let is_covered = siblings.iter().any(|sibling| {
                    let entry = (*sibling, name.clone());
                    self.notification.rows.entries.contains_key(&entry)
                });
                let entry = (*id, name);
                assert!(
                    is_covered || unread.contains(&&entry),
                    "{entry:?} is missing: {request:#?}"
                );
            }
        }
    }

    /// The openings of other calls of the same fan-out. A person who is notified of one of them gets no entry for this
    /// one.
    fn siblings(&self, event: &RequestEvent) -> Vec<NotificationId> {
        let parent =
            |of: &RequestEvent| Some((of.id.run, of.request.items.first()?.parent.clone()?));
        let Some(own) = parent(event) else {
            return Vec::new();
        };
        let states = self.notification.states.values();
        let events = states.filter_map(Aggregate::as_event);
        let others = events.filter(|other| {
            let other = other.as_request();
            other.is_some_and(|other| {
                other.kind == RequestEventKind::Opened
                    && other.id != event.id
                    && parent(other).as_ref() == Some(&own)
            })
        });
        others.map(|other| other.id()).collect()
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

    /// The users of recipients. Every user is an owner, and Bob perhaps not all the time.
    fn named(&self, to: &[String]) -> Vec<UserName> {
        let all = self.users();
        let may_change = self.features.has_reviews();
        let is_owner = |name: &&UserName| !may_change || name.as_str() != PEOPLE[1];
        let of = |audience| match audience {
            Recipient::User(name) => vec![name],
            Recipient::Role(_) => all.keys().filter(is_owner).cloned().collect(),
        };
        Recipient::parse_all(to).into_iter().flat_map(of).collect()
    }

    fn check_run_end(&self, id: RunId) {
        let Some(ExecutorAggregate::Run(run)) = self.executor.states.get(&RunKey::Run(id)) else {
            panic!("{id} does not exist");
        };
        if !run.is_final() {
            return;
        }
        let states = self.notification.states.values();
        let ends = states.filter_map(Aggregate::as_event);
        let mut ends = ends.filter_map(NotificationEvent::as_run_end);
        let end = ends.find(|end| end.run == id);
        let is_notified = |person: &str| {
            let entries = self.notification.rows.entries.keys();
            let mut ids = entries.filter(|(at, name)| {
                at.hold.run == id && at.hold.number == 0 && name.as_str() == person
            });
            ids.next().is_some() || end.is_some_and(|end| end.by.as_deref() == Some(person))
        };
        if run.agent.as_str() == "agent-0" {
            assert!(is_notified("ada"), "ada watches: {run:#?}");
        }
        let watched = Watched::Run(id);
        let still = watches(&self.notification.states).any(|(_, of)| *of == watched);
        assert!(
            !still || is_notified("bob"),
            "bob watches: {run:#?} {end:?}"
        );
    }
}
