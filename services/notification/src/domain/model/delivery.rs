//! One delivery: what leaves the application, to one person or to the address that a hold names.
//!
//! At least once: it is dispatched under a lease, and again when the lease is over without a word.
//! Whoever receives it tells repetitions by an id that is the same for every try.

mod onward;

#[cfg(test)]
pub(super) mod tests;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    Channel, DeliveryState, DeliveryView, PendingReason, PersonalChannel,
};
use holdpoint_ids::{NotificationId, UserName, WebhookId, Workspace};

use super::{
    Aggregate, Change, Effect, LookupFn, Outcome, Person, Reply, Rules, Undecided, active,
};

/// How long a dispatch counts. Longer than anything may take to be sent.
const LEASE: TimeDelta = TimeDelta::minutes(2);

/// Seconds from one try to the next, as Standard Webhooks advises: the last comes after some three
/// days.
const RETRIES_S: [i64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// Tries in all; then it is given up, with the last error.
pub const TRIES_MAX: u32 = 10;

/// From here on a person is not left waiting for one way that does not work while there is another.
const PRESSING: Priority = Priority::Urgent;

/// How long what presses is tried by one way.
const FALLS_OVER_AFTER: TimeDelta = TimeDelta::minutes(10);

/// Why a question is not sent: somebody has decided it, or it is not asked any more.
pub const OVER: &str = "Nobody had to do anything any more.";

/// Why nothing is sent to a person.
pub const GONE: &str = "The person is disabled or gone.";

/// Longest stored sentence about what went wrong, in characters.
const ERROR_CHARS_MAX: usize = 300;

/// The way that it goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Recipient {
    /// A mail to a person.
    Mail(UserName),
    /// A POST to the address that a hold which stands alone was asked with.
    Callback,
    /// A POST to a webhook of the workspace.
    Webhook(WebhookId),
    /// A POST to a person's own chat.
    Chat(UserName),
    /// A mail to a person that gathers what is open.
    Digest(UserName),
}

impl Recipient {
    /// The way that leads there.
    #[must_use]
    pub const fn channel(&self) -> Channel {
        match self {
            Self::Mail(_) => Channel::Email,
            Self::Callback => Channel::Callback,
            Self::Webhook(_) => Channel::Webhook,
            Self::Chat(_) => Channel::Chat,
            Self::Digest(_) => Channel::Digest,
        }
    }

    /// A person, by one of their ways.
    #[must_use]
    pub const fn by(way: PersonalChannel, person: UserName) -> Self {
        match way {
            PersonalChannel::Email => Self::Mail(person),
            PersonalChannel::Chat => Self::Chat(person),
        }
    }

    /// Whom it is for, where that is a person.
    #[must_use]
    pub const fn name(&self) -> Option<&UserName> {
        match self {
            Self::Mail(person) | Self::Chat(person) | Self::Digest(person) => Some(person),
            Self::Callback | Self::Webhook(_) => None,
        }
    }

    /// Whom it tells of one thing, and how, where it is a person: another way may take over.
    #[must_use]
    pub const fn person(&self) -> Option<(&UserName, PersonalChannel)> {
        match self {
            Self::Mail(person) => Some((person, PersonalChannel::Email)),
            Self::Chat(person) => Some((person, PersonalChannel::Chat)),
            Self::Callback | Self::Webhook(_) | Self::Digest(_) => None,
        }
    }
}

/// Names one delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryKey {
    pub workspace: Workspace,
    pub note: NotificationId,
    pub to: Recipient,
}

impl DeliveryKey {
    /// The same for every try, and for no other delivery of the workspace.
    #[must_use]
    pub fn stable_id(&self) -> String {
        match &self.to {
            Recipient::Mail(person) | Recipient::Digest(person) => {
                format!("{}.{person}", self.note)
            }
            Recipient::Callback => format!("msg_{}", self.note),
            Recipient::Webhook(id) => format!("msg_{}_{id}", self.note),
            Recipient::Chat(person) => format!("msg_{}_{person}", self.note),
        }
    }
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Not out yet: from then on it is to be tried.
    Pending {
        next_at: DateTime<Utc>,
        waits: PendingReason,
    },
    /// Taken by the other side.
    Sent { receipt: String },
    /// Given up; the last error says why.
    Failed,
    /// Not wanted any more; the last error says why.
    Dropped,
}

/// One delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub key: DeliveryKey,
    /// How urgent what it is of was when it happened.
    pub priority: Priority,
    /// Ways by which the same person could not be told of the same.
    pub after: Vec<Channel>,
    /// Since when it is to leave.
    pub at: DateTime<Utc>,
    /// When it last changed.
    pub changed_at: DateTime<Utc>,
    /// How far it has come.
    pub phase: Phase,
    /// How often it was dispatched.
    pub attempts: u32,
    /// What went wrong last; fit to be shown (S0-R5).
    pub last_error: Option<String>,
    /// Rises with every change.
    pub version: u64,
}

impl Delivery {
    /// As the API shows it.
    #[must_use]
    pub fn view(&self) -> DeliveryView {
        let state = match &self.phase {
            Phase::Pending { .. } => DeliveryState::Pending,
            Phase::Sent { .. } => DeliveryState::Sent,
            Phase::Failed => DeliveryState::Failed,
            Phase::Dropped => DeliveryState::Dropped,
        };
        let pending = match &self.phase {
            Phase::Pending { next_at, waits } => Some((*next_at, *waits)),
            Phase::Sent { .. } | Phase::Failed | Phase::Dropped => None,
        };
        let receipt = match &self.phase {
            Phase::Sent { receipt } => Some(receipt.clone()),
            Phase::Pending { .. } | Phase::Failed | Phase::Dropped => None,
        };
        let person = self.key.to.name().cloned();
        let webhook = match &self.key.to {
            Recipient::Webhook(id) => Some(*id),
            Recipient::Mail(_)
            | Recipient::Callback
            | Recipient::Chat(_)
            | Recipient::Digest(_) => None,
        };
        DeliveryView {
            id: self.key.stable_id(),
            notification: self.key.note,
            channel: self.key.to.channel(),
            person,
            webhook,
            state,
            attempts: self.attempts,
            next_at: pending.map(|(next_at, _)| next_at),
            waits: pending.map(|(_, waits)| waits),
            after: self.after.clone(),
            last_error: self.last_error.clone(),
            receipt,
            at: self.at,
            ended_at: pending.is_none().then_some(self.changed_at),
        }
    }
}

/// A delivery that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// The way that it goes.
    pub to: Recipient,
    pub due_at: DateTime<Utc>,
    /// What it waits for until then.
    pub waits: PendingReason,
    /// Ways by which the same person could not be told of the same.
    pub after: Vec<Channel>,
}

impl Posting {
    /// It goes as soon as it can.
    #[must_use]
    pub const fn at_once(to: Recipient, now: DateTime<Utc>) -> Self {
        Self {
            to,
            due_at: now,
            waits: PendingReason::Turn,
            after: Vec::new(),
        }
    }

    /// A person is told by the first of their ways, as soon as they want it; none: by no way at all.
    #[must_use]
    pub fn first(person: &Person, priority: Priority, now: DateTime<Utc>) -> Option<Self> {
        Self::next(person, priority, Vec::new(), now)
    }

    /// The same, but for the ways that were tried.
    pub(super) fn next(
        person: &Person,
        priority: Priority,
        after: Vec<Channel>,
        now: DateTime<Utc>,
    ) -> Option<Self> {
        let way = person.next(priority, &after)?;
        let to = Recipient::by(way, person.name.clone());
        Some(Self {
            after,
            ..Self::when_wanted(to, &person.rules, priority, now)
        })
    }

    /// It goes as soon as its person's quiet hours let it.
    pub(super) fn when_wanted(
        to: Recipient,
        rules: &Rules,
        priority: Priority,
        now: DateTime<Utc>,
    ) -> Self {
        let held = rules.held_until(priority, now);
        Self {
            due_at: held.unwrap_or(now),
            waits: held.map_or(PendingReason::Turn, |_until| PendingReason::QuietHours),
            ..Self::at_once(to, now)
        }
    }
}

/// What came of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The other side has it.
    Sent { receipt: String },
    /// Not this time.
    Later(String),
    /// Trying again cannot help.
    Never(String),
    /// It is not wanted any more.
    Dropped(String),
}

/// Hands it out, if it is due and nobody has it. What its person does not want by this way, or does not
/// want now, goes by another, or later.
pub(super) fn claim(
    delivery: &Delivery,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let Phase::Pending { next_at, .. } = delivery.phase else {
        return Ok(Outcome::Unchanged(Reply::Done));
    };
    if next_at > now {
        return Ok(Outcome::Unchanged(Reply::Done));
    }
    if let Some(name) = delivery.key.to.name() {
        let Some(person) = active(&delivery.key.workspace, name, lookup)? else {
            return Ok(ended(delivery, Phase::Dropped, GONE));
        };
        let way = delivery.key.to.person().map(|(_, way)| way);
        if way.is_some_and(|way| !person.rules.wants(way, delivery.priority)) {
            return onward::unwanted(delivery, lookup, now);
        }
        if let Some(next_at) = person.rules.held_until(delivery.priority, now) {
            let mut next = delivery.clone();
            next.phase = Phase::Pending {
                next_at,
                waits: PendingReason::QuietHours,
            };
            return Ok(changed(next, Vec::new()));
        }
    }
    if delivery.attempts >= TRIES_MAX {
        let error = delivery.last_error.clone();
        let error = error.unwrap_or_else(|| "Nothing came of any try.".to_owned());
        return onward::failed(delivery, &error, lookup, now);
    }
    Ok(handed_out(delivery, now))
}

fn handed_out(delivery: &Delivery, now: DateTime<Utc>) -> Outcome {
    let mut next = delivery.clone();
    next.attempts += 1;
    next.phase = Phase::Pending {
        next_at: now + LEASE,
        waits: PendingReason::Answer,
    };
    let send = Effect::Send {
        key: next.key.clone(),
        attempt: next.attempts,
    };
    changed(next, vec![send])
}

/// Takes down what came of a try; a word on an earlier one counts only if it is good news.
pub(super) fn reported(
    delivery: &Delivery,
    (attempt, report): (u32, &Report),
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let is_current = attempt == delivery.attempts;
    if !matches!(delivery.phase, Phase::Pending { .. }) {
        return Ok(Outcome::Unchanged(Reply::Done));
    }
    match report {
        Report::Sent { receipt } => onward::sent(delivery, receipt, lookup, now),
        Report::Later(error) if is_current => again(delivery, error, lookup, now),
        Report::Never(error) if is_current => onward::failed(delivery, error, lookup, now),
        Report::Dropped(why) if is_current => Ok(ended(delivery, Phase::Dropped, why)),
        Report::Later(_) | Report::Never(_) | Report::Dropped(_) => {
            Ok(Outcome::Unchanged(Reply::Done))
        }
    }
}

/// It is tried again, later and later. What is urgent waits no longer than a while for one way where
/// there is another.
fn again(
    delivery: &Delivery,
    error: &str,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let tried = usize::try_from(delivery.attempts).unwrap_or(usize::MAX);
    let Some(seconds) = RETRIES_S.get(tried.saturating_sub(1)) else {
        return onward::failed(delivery, error, lookup, now);
    };
    let mut next_at = now + TimeDelta::seconds(*seconds);
    if delivery.priority >= PRESSING && onward::has_another(delivery, lookup)? {
        let last = delivery.at + FALLS_OVER_AFTER;
        if now >= last {
            return onward::failed(delivery, error, lookup, now);
        }
        next_at = next_at.min(last);
    }
    let mut next = delivery.clone();
    next.last_error = Some(bounded(error));
    next.phase = Phase::Pending {
        next_at,
        waits: PendingReason::Retry,
    };
    Ok(changed(next, Vec::new()))
}

/// It has come to its end, which somebody may want to know the reason of.
fn ended(delivery: &Delivery, phase: Phase, why: &str) -> Outcome {
    let mut next = delivery.clone();
    next.last_error = Some(bounded(why));
    next.phase = phase;
    changed(next, Vec::new())
}

fn bounded(error: &str) -> String {
    error.chars().take(ERROR_CHARS_MAX).collect()
}

fn changed(mut next: Delivery, effects: Vec<Effect>) -> Outcome {
    next.version += 1;
    Outcome::Decided(Box::new(Change {
        state: Aggregate::Delivery(Box::new(next)),
        effects,
        facts: Vec::new(),
        reply: Reply::Done,
    }))
}
