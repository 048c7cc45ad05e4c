//! Examples and a property of what leaves the application: tried again, given up, taken over.

use holdpoint_contracts::notification::{
    self as contract, Channel, Channels, Chat, PendingReason, PersonalChannel, WebhookFormat,
};
use proptest::prelude::*;

use super::*;
use crate::domain::commands::claim_delivery::{LEASE, claim_delivery};
use crate::domain::commands::record_attempt::record_attempt;
use crate::domain::model::ERROR_CHARS_MAX;
use crate::domain::rules::retry_schedule::FALLBACK_AFTER;

/// Ada, who has an address and is sent_once by these ways.
fn ada(order: &[PersonalChannel]) -> Person {
    let chat = Chat {
        enabled: true,
        from: Priority::Low,
        url: Some("https://chat.example/x".to_owned()),
        format: WebhookFormat::Slack,
        secret: None,
    };
    let said = contract::Preferences {
        channels: Channels {
            order: order.to_vec(),
            chat: Some(chat),
            ..Channels::default()
        },
        ..contract::Preferences::default()
    };
    Person {
        name: "ada".parse().unwrap(),
        active: true,
        has_mail: true,
        may_look: true,
        rules: DeliveryRules::read(&said).unwrap(),
    }
}

/// What a decision finds: a person, and how far the request has come.
fn lookup(person: &Person, course: RequestLifecycle) -> impl Fn(&Need) -> Lookup {
    move |need: &Need| match need {
        Need::Person(..) => Lookup::Found(Fact::Person(person.clone())),
        Need::RequestLifecycle(..) => Lookup::Found(Fact::RequestLifecycle(course)),
        Need::Members { .. }
        | Need::Webhooks(_)
        | Need::Watchers { .. }
        | Need::WatchCount(..)
        | Need::IsErased(..)
        | Need::LastErasure(..)
        | Need::ContactEvents { .. }
        | Need::Unread { .. } => Lookup::Missing,
    }
}

const OPEN: RequestLifecycle = RequestLifecycle {
    opened: Some(1),
    ended: None,
    taken: None,
    notified_by: None,
};

const OVER: RequestLifecycle = RequestLifecycle {
    opened: Some(1),
    ended: Some(2),
    taken: None,
    notified_by: None,
};

/// By mail alone, of something that is open.
fn claim(delivery: &Delivery, now: DateTime<Utc>) -> Outcome {
    claim_delivery(
        delivery,
        &lookup(&ada(&[PersonalChannel::Email]), OPEN),
        now,
    )
    .unwrap()
}

fn reported(
    delivery: &Delivery,
    attempt: u32,
    report: &AttemptReport,
    now: DateTime<Utc>,
) -> Outcome {
    let person = ada(&[PersonalChannel::Email]);
    record_attempt(delivery, attempt, report, &lookup(&person, OPEN), now).unwrap()
}

fn after(step: Outcome) -> (Delivery, Vec<Effect>) {
    let Outcome::Decided(change) = step else {
        panic!("nothing changed");
    };
    let Aggregate::Delivery(next) = change.state else {
        panic!("no delivery");
    };
    (*next, change.effects)
}

fn later() -> AttemptReport {
    AttemptReport::Later("no answer".to_owned())
}

/// M-5: dispatched once a lease; tried again later and later, and then given up with the reason.
#[test]
fn it_is_tried_later_and_later_and_then_given_up() {
    let (mut now, mut one, mut tries) = (DateTime::UNIX_EPOCH, delivery(), 0);
    loop {
        let (claimed, sends) = after(claim(&one, now));
        assert_eq!(sends.len(), 1);
        assert_eq!(
            claim(&claimed, now),
            Outcome::Unchanged(Reply::Done),
            "leased"
        );
        tries += 1;
        let (next, _) = after(reported(&claimed, tries, &later(), now));
        one = next;
        let Phase::Pending { next_at, .. } = one.phase else {
            break;
        };
        assert!(next_at > now);
        now = next_at;
    }
    assert_eq!((tries, &one.phase), (TRIES_MAX, &Phase::Failed));
    assert_eq!(one.last_error.as_deref(), Some("no answer"));
    assert!(now - DateTime::<Utc>::UNIX_EPOCH < TimeDelta::days(4));
    assert_eq!(claim(&one, now), Outcome::Unchanged(Reply::Done), "final");
}

#[test]
fn a_hand_out_without_a_word_is_followed_by_another_and_late_good_news_counts() {
    let now = DateTime::UNIX_EPOCH;
    let (first, _) = after(claim(&delivery(), now));
    let (second, sends) = after(claim(&first, now + LEASE));
    assert_eq!((second.attempts, sends.len()), (2, 1));
    assert_eq!(
        reported(&second, 1, &later(), now),
        Outcome::Unchanged(Reply::Done)
    );
    let sent = AttemptReport::Sent {
        receipt: "250".to_owned(),
    };
    let (done, _) = after(reported(&second, 1, &sent, now));
    assert!(matches!(done.phase, Phase::Sent { .. }));
    assert_eq!(
        reported(&done, 2, &later(), now),
        Outcome::Unchanged(Reply::Done)
    );
}

#[test]
fn what_cannot_help_is_not_tried_again() {
    let now = DateTime::UNIX_EPOCH;
    let (first, _) = after(claim(&delivery(), now));
    let never = AttemptReport::Never("x".repeat(5_000));
    let (done, _) = after(reported(&first, 1, &never, now));
    assert_eq!(done.phase, Phase::Failed);
    assert_eq!(done.last_error.unwrap().len(), ERROR_CHARS_MAX);
}

/// People, deliverable 7: what presses waits ten minutes for one way where there is another, and as long
/// as ever where there is none.
#[test]
fn what_is_urgent_falls_over_soon() {
    let by = |order: &[PersonalChannel]| {
        let (person, mut now) = (ada(order), DateTime::UNIX_EPOCH);
        let lookup = lookup(&person, OPEN);
        let mut one = delivery();
        one.priority = Priority::Urgent;
        loop {
            let (claimed, _) = after(claim_delivery(&one, &lookup, now).unwrap());
            let (attempt, report) = (claimed.attempts, later());
            let step = record_attempt(&claimed, attempt, &report, &lookup, now);
            let (next, effects) = after(step.unwrap());
            one = next;
            let Phase::Pending { next_at, .. } = one.phase else {
                return (one.phase, now - DateTime::UNIX_EPOCH, effects.len());
            };
            now = next_at;
        }
    };
    assert_eq!(
        by(&[PersonalChannel::Email, PersonalChannel::Chat]),
        (Phase::Failed, FALLBACK_AFTER, 1)
    );
    let (phase, took, effects) = by(&[PersonalChannel::Email]);
    assert_eq!((phase, effects), (Phase::Failed, 0));
    assert!(took > TimeDelta::days(2));
}

/// People, deliverable 7: once it is decided nobody is sent_once by another way that it is asked; a chat that
/// was sent_once just then hears how it ended.
#[test]
fn what_is_over_falls_over_to_nobody() {
    let (person, now) = (
        ada(&[PersonalChannel::Email, PersonalChannel::Chat]),
        DateTime::UNIX_EPOCH,
    );
    let (open, over) = (lookup(&person, OPEN), lookup(&person, OVER));
    let (claimed, _) = after(claim_delivery(&delivery(), &open, now).unwrap());
    let never = AttemptReport::Never("550 no such user".to_owned());
    let (done, effects) = after(record_attempt(&claimed, 1, &never, &over, now).unwrap());
    assert_eq!((done.phase, effects.len()), (Phase::Dropped, 0));
    assert!(done.last_error.unwrap().contains("550"));

    let (_, effects) = after(record_attempt(&claimed, 1, &never, &open, now).unwrap());
    let [Effect::Deliver(NewDeliveries { to, .. })] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(to[0].after, [Channel::Email]);
    let mut chat = claimed;
    chat.key.to = to[0].to.clone();
    let sent = AttemptReport::Sent {
        receipt: "HTTP 200".to_owned(),
    };
    let (mut sent_once, effects) = after(record_attempt(&chat, 1, &sent, &over, now).unwrap());
    let [Effect::Deliver(NewDeliveries { id, to, .. })] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!((id.rev, &to[0].to), (Some(2), &chat.key.to));
    sent_once.key.note = *id;
    sent_once.phase = chat.phase;
    let (_, effects) = after(record_attempt(&sent_once, 1, &sent, &over, now).unwrap());
    assert!(
        effects.is_empty(),
        "that was the word on the end: {effects:?}"
    );
}

/// What happens next to a notice of one person.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The sweep comes by when something is due, or this many minutes later.
    Sweep(i64),
    /// The other side takes it.
    Takes,
    /// Not this time.
    Fails,
    /// It never will.
    Refuses,
    /// The process that had it is gone: nothing is said of the try.
    Dies,
    /// The person says which ways they want.
    Prefers(u8),
    /// The request is decided.
    Decided,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0_i64..3_000).prop_map(Event::Sweep),
        1 => Just(Event::Takes),
        3 => Just(Event::Fails),
        3 => Just(Event::Refuses),
        1 => Just(Event::Dies),
        2 => (0_u8..4).prop_map(Event::Prefers),
        1 => Just(Event::Decided),
    ]
}

fn orders(which: u8) -> Vec<PersonalChannel> {
    match which {
        0 => vec![PersonalChannel::Email],
        1 => vec![PersonalChannel::Chat],
        2 => vec![PersonalChannel::Email, PersonalChannel::Chat],
        _ => vec![PersonalChannel::Chat, PersonalChannel::Email],
    }
}

/// The deliveries of one notification, as the tables keep them.
struct NotificationRows {
    rows: BTreeMap<Channel, Delivery>,
    person: Person,
    course: RequestLifecycle,
    now: DateTime<Utc>,
}

impl NotificationRows {
    fn open(&self) -> Vec<Delivery> {
        let is_open = |one: &&Delivery| matches!(one.phase, Phase::Pending { .. });
        self.rows.values().filter(is_open).cloned().collect()
    }

    /// Commits a decision: a row that is there stays as it is.
    fn commit(&mut self, step: Outcome) {
        let Outcome::Decided(change) = step else {
            return;
        };
        let Aggregate::Delivery(next) = change.state else {
            panic!("no delivery");
        };
        self.rows.insert(next.key.to.channel(), *next);
        for effect in change.effects {
            let Effect::Deliver(NewDeliveries { to, id, .. }) = effect else {
                continue;
            };
            let is_of_end = id.rev.is_some();
            for planned in to.into_iter().filter(|_| !is_of_end) {
                self.insert(planned);
            }
        }
    }

    fn insert(&mut self, planned: PlannedDelivery) {
        let mut new = delivery();
        new.priority = Priority::Urgent;
        new.at = self.now;
        new.phase = Phase::Pending {
            next_at: planned.due_at,
            waits: planned.waits,
        };
        new.after = planned.after;
        new.key.to = planned.to;
        let channel = new.key.to.channel();
        assert!(!self.rows.contains_key(&channel), "by {channel:?} twice");
        self.rows.insert(channel, new);
    }

    fn pass(&mut self, event: Event) {
        match event {
            Event::Sweep(minutes) => self.now += TimeDelta::minutes(minutes),
            Event::Prefers(which) => self.person = ada(&orders(which)),
            Event::Decided => self.course = OVER,
            Event::Takes | Event::Fails | Event::Refuses | Event::Dies => {}
        }
        for one in self.open() {
            let (person, course) = (self.person.clone(), self.course);
            let lookup = lookup(&person, course);
            let step = match (&one.phase, event) {
                (
                    Phase::Pending {
                        waits: PendingReason::Answer,
                        ..
                    },
                    Event::Takes,
                ) => {
                    let receipt = "250".to_owned();
                    record_attempt(
                        &one,
                        one.attempts,
                        &AttemptReport::Sent { receipt },
                        &lookup,
                        self.now,
                    )
                }
                (
                    Phase::Pending {
                        waits: PendingReason::Answer,
                        ..
                    },
                    Event::Fails,
                ) => record_attempt(&one, one.attempts, &later(), &lookup, self.now),
                (
                    Phase::Pending {
                        waits: PendingReason::Answer,
                        ..
                    },
                    Event::Refuses,
                ) => {
                    let never = AttemptReport::Never("no".to_owned());
                    record_attempt(&one, one.attempts, &never, &lookup, self.now)
                }
                _ => claim_delivery(&one, &lookup, self.now),
            };
            self.commit(step.unwrap());
        }
    }
}

proptest! {
    /// People, deliverable 7: every notice ends sent_once by exactly one way, dropped because nobody needs or
    /// wants it, or dead with the last error; never two at once, never by one way twice, never lost.
    #[test]
    fn a_notification_ends_on_one_channel_or_says_why_not(
        first in 0_u8..4,
        events in proptest::collection::vec(event(), 0..60),
    ) {
        let now = DateTime::UNIX_EPOCH;
        let person = ada(&orders(first));
        let mut notice = NotificationRows { rows: BTreeMap::new(), course: OPEN, now, person };
        let planned = PlannedDelivery::to_person(&notice.person, Priority::Urgent, Vec::new(), now).unwrap();
        notice.insert(planned);
        let mut was_open = true;
        // In the end every try is refused, and time goes on.
        let end = (0..80).map(|n| if n % 2 == 0 { Event::Sweep(3_000) } else { Event::Refuses });
        for event in events.into_iter().chain(end) {
            notice.pass(event);
            let sent_once = notice.rows.values().filter(|one| matches!(one.phase, Phase::Sent { .. }));
            let (sent_once, open) = (sent_once.count(), notice.open().len());
            prop_assert!(sent_once + open <= 1, "sent or on its way through two channels: {:?}", notice.rows);
            let tried: Vec<_> = notice.rows.keys().copied().collect();
            let left = notice.person.next_channel(Priority::Urgent, &tried);
            let has_just_ended = was_open && sent_once + open == 0;
            let is_lost = has_just_ended && !notice.course.has_ended() && left.is_some();
            prop_assert!(!is_lost, "another way would take it: {:?}", notice.rows);
            was_open = open == 1;
        }
        prop_assert!(notice.open().is_empty(), "without an end: {:?}", notice.rows);
        for one in notice.rows.values() {
            let is_told = matches!(one.phase, Phase::Sent { .. });
            prop_assert!(is_told || one.last_error.is_some(), "without a reason: {one:?}");
        }
    }
}
