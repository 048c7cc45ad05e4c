//! What follows when a delivery has come to its end: the next way of its person takes over one that has
//! failed, as long as somebody has to do something; a chat that was told of what is over meanwhile
//! hears that, too.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::Channel;
use holdpoint_ids::NotificationId;

use super::{Delivery, OVER, Phase, Posting, Recipient, bounded, changed, ended};
use crate::domain::note::course;
use crate::domain::{Effect, LookupFn, Outcome, Person, RequestLifecycle, Undecided, active, both};

/// It has failed for good by this way.
pub(super) fn failed(
    delivery: &Delivery,
    error: &str,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let mut next = delivery.clone();
    next.last_error = Some(bounded(error));
    next.phase = Phase::Failed;
    let Some((person, course)) = concerned(delivery, lookup)? else {
        return Ok(changed(next, Vec::new()));
    };
    if is_settled(delivery, course) {
        return Ok(ended(delivery, Phase::Dropped, &format!("{OVER} {error}")));
    }
    let effects = on(delivery, person.as_ref(), now);
    Ok(changed(next, effects))
}

/// Its person does not want it by this way any more; perhaps by another.
pub(super) fn unwanted(
    delivery: &Delivery,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let mut next = delivery.clone();
    next.phase = Phase::Dropped;
    let channel = delivery.key.to.channel().as_str();
    let why = format!("The person does not want to be told of this by {channel}.");
    next.last_error = Some(why);
    let effects = match concerned(delivery, lookup)? {
        Some((person, course)) if !is_settled(delivery, course) => {
            on(delivery, person.as_ref(), now)
        }
        Some(_) | None => Vec::new(),
    };
    Ok(changed(next, effects))
}

/// The other side has it. A chat that took what is over by now is told that it is.
pub(super) fn sent(
    delivery: &Delivery,
    receipt: &str,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let mut next = delivery.clone();
    next.phase = Phase::Sent {
        receipt: receipt.to_owned(),
    };
    let mut effects = Vec::new();
    if let Recipient::Chat(_) = delivery.key.to {
        let key = &delivery.key;
        let course = course(&key.workspace, key.note.hold, lookup)?;
        let news = course.ended.filter(|_| course.is_over());
        if let Some(rev) = news.filter(|rev| key.note.rev.unwrap_or_default() < *rev) {
            let id = NotificationId {
                hold: key.note.hold,
                rev: Some(rev),
            };
            let to = vec![Posting::at_once(key.to.clone(), now)];
            effects.push(deliver(delivery, id, to));
        }
    }
    Ok(changed(next, effects))
}

/// Whether its person could be told by another way.
pub(super) fn has_another(delivery: &Delivery, lookup: LookupFn<'_>) -> Result<bool, Undecided> {
    let Some((Some(person), _)) = concerned(delivery, lookup)? else {
        return Ok(false);
    };
    Ok(person.next(delivery.priority, &tried(delivery)).is_some())
}

/// Whom it is for, and whether that matters still; none: it goes to no person.
fn concerned(
    delivery: &Delivery,
    lookup: LookupFn<'_>,
) -> Result<Option<(Option<Person>, RequestLifecycle)>, Undecided> {
    let key = &delivery.key;
    let Some((name, _)) = key.to.person() else {
        return Ok(None);
    };
    let person = active(&key.workspace, name, lookup);
    let course = course(&key.workspace, key.note.hold, lookup);
    both(person, course).map(Some)
}

/// Whether nobody has to do anything because of it any more.
fn is_settled(delivery: &Delivery, course: RequestLifecycle) -> bool {
    course.is_settled(delivery.key.note.rev.unwrap_or_default())
}

fn tried(delivery: &Delivery) -> Vec<Channel> {
    let own = delivery.key.to.channel();
    delivery.after.iter().copied().chain([own]).collect()
}

/// By the next way, if there is one.
fn on(delivery: &Delivery, person: Option<&Person>, now: DateTime<Utc>) -> Vec<Effect> {
    let next =
        person.and_then(|person| Posting::next(person, delivery.priority, tried(delivery), now));
    let to: Vec<_> = next.into_iter().collect();
    if to.is_empty() {
        return Vec::new();
    }
    vec![deliver(delivery, delivery.key.note, to)]
}

fn deliver(delivery: &Delivery, id: NotificationId, to: Vec<Posting>) -> Effect {
    Effect::Deliver {
        workspace: delivery.key.workspace.clone(),
        id,
        priority: delivery.priority,
        to,
    }
}
