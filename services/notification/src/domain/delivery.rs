//! One delivery: what leaves the application, to one person or to the address that a hold names.
//!
//! At least once: it is handed out under a lease, and again when the lease is over without a word.
//! Whoever receives it tells repetitions by an id that is the same for every try.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{Channel, DeliveryState, DeliveryView};
use holdpoint_ids::{NotificationId, UserName, WebhookId, Workspace};

use super::{Aggregate, Answer, Change, Effect, Fact, Found, Look, Need, Rules, Step, Stop};

/// How long a hand-out counts. Longer than anything may take to be sent.
const LEASE: TimeDelta = TimeDelta::minutes(2);

/// Seconds from one try to the next, as Standard Webhooks advises: the last comes after some three
/// days.
const RETRIES_S: [i64; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

/// Tries in all; then it is given up, with the last error.
pub const TRIES_MAX: u32 = 10;

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
}

impl Recipient {
    /// The way that leads there.
    #[must_use]
    pub const fn channel(&self) -> Channel {
        match self {
            Self::Mail(_) => Channel::Email,
            Self::Callback => Channel::Callback,
            Self::Webhook(_) => Channel::Webhook,
        }
    }
}

/// Names one delivery.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryKey {
    /// Whose.
    pub workspace: Workspace,
    /// Of what.
    pub note: NotificationId,
    /// To whom.
    pub to: Recipient,
}

impl DeliveryKey {
    /// The same for every try, and for no other delivery of the workspace.
    #[must_use]
    pub fn stable_id(&self) -> String {
        match &self.to {
            Recipient::Mail(person) => format!("{}.{person}", self.note),
            Recipient::Callback => format!("msg_{}", self.note),
            Recipient::Webhook(id) => format!("msg_{}_{id}", self.note),
        }
    }
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Not out yet: from then on it is to be tried.
    Pending {
        /// When.
        next_at: DateTime<Utc>,
    },
    /// Taken by the other side.
    Sent {
        /// What it said.
        receipt: String,
    },
    /// Given up; the last error says why.
    Failed,
    /// Not wanted any more; the last error says why.
    Dropped,
}

/// One delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Which.
    pub key: DeliveryKey,
    /// How urgent what it is of was when it happened.
    pub priority: Priority,
    /// How far it has come.
    pub phase: Phase,
    /// How often it was handed out.
    pub attempts: u32,
    /// What went wrong last; fit to be shown (S0-R5).
    pub last_error: Option<String>,
    /// Rises with every change.
    pub version: u64,
}

impl Delivery {
    /// As the API shows it.
    #[must_use]
    pub fn view(&self, at: DateTime<Utc>) -> DeliveryView {
        let (state, next_at) = match &self.phase {
            Phase::Pending { next_at } => (DeliveryState::Pending, Some(*next_at)),
            Phase::Sent { .. } => (DeliveryState::Sent, None),
            Phase::Failed => (DeliveryState::Failed, None),
            Phase::Dropped => (DeliveryState::Dropped, None),
        };
        let receipt = match &self.phase {
            Phase::Sent { receipt } => Some(receipt.clone()),
            Phase::Pending { .. } | Phase::Failed | Phase::Dropped => None,
        };
        let (person, webhook) = match &self.key.to {
            Recipient::Mail(person) => (Some(person.clone()), None),
            Recipient::Callback => (None, None),
            Recipient::Webhook(id) => (None, Some(*id)),
        };
        DeliveryView {
            id: self.key.stable_id(),
            notification: self.key.note,
            channel: self.key.to.channel(),
            person,
            webhook,
            state,
            attempts: self.attempts,
            next_at,
            last_error: self.last_error.clone(),
            receipt,
            at,
        }
    }
}

/// What came of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The other side has it.
    Sent {
        /// What it said.
        receipt: String,
    },
    /// Not this time.
    Later(String),
    /// Trying again cannot help.
    Never(String),
    /// It is not wanted any more.
    Dropped(String),
}

/// Hands it out, if it is due and nobody has it, and its person does not want it later, or not at all.
pub(super) fn claim(delivery: &Delivery, look: Look<'_>, now: DateTime<Utc>) -> Result<Step, Stop> {
    let Phase::Pending { next_at } = delivery.phase else {
        return Ok(Step::Same(Answer::Done));
    };
    if next_at > now {
        return Ok(Step::Same(Answer::Done));
    }
    let mut next = delivery.clone();
    let rules = rules(delivery, look)?;
    if !rules.wants_mail(delivery.priority) {
        next.phase = Phase::Dropped;
        next.last_error = Some("The person does not want to be mailed of this.".to_owned());
        return Ok(changed(next, Vec::new()));
    }
    if let Some(next_at) = rules.held_until(delivery.priority, now) {
        next.phase = Phase::Pending { next_at };
        return Ok(changed(next, Vec::new()));
    }
    Ok(handed_out(next, now))
}

/// What its person has said of being told; programs are told of everything.
fn rules(delivery: &Delivery, look: Look<'_>) -> Result<Rules, Stop> {
    let person = match &delivery.key.to {
        Recipient::Mail(person) => person.clone(),
        Recipient::Callback | Recipient::Webhook(_) => return Ok(Rules::default()),
    };
    let need = Need::Person(delivery.key.workspace.clone(), person);
    match look(&need) {
        Found::Unknown => Err(Stop::Need(vec![need])),
        Found::Here(Fact::Person(person)) => Ok(person.rules),
        Found::Here(Fact::Members(_) | Fact::Course(_) | Fact::Webhooks(_) | Fact::Other)
        | Found::Absent => Ok(Rules::default()),
    }
}

fn handed_out(mut next: Delivery, now: DateTime<Utc>) -> Step {
    if next.attempts >= TRIES_MAX {
        next.phase = Phase::Failed;
        return changed(next, Vec::new());
    }
    next.attempts += 1;
    next.phase = Phase::Pending {
        next_at: now + LEASE,
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
    attempt: u32,
    report: &Report,
    now: DateTime<Utc>,
) -> Step {
    let is_current = attempt == delivery.attempts;
    let is_open = matches!(delivery.phase, Phase::Pending { .. });
    let mut next = delivery.clone();
    match report {
        Report::Sent { receipt } if is_open => {
            next.phase = Phase::Sent {
                receipt: receipt.clone(),
            };
        }
        Report::Later(error) if is_open && is_current => {
            next.last_error = Some(bounded(error));
            let tried = usize::try_from(attempt).unwrap_or(usize::MAX);
            next.phase = match RETRIES_S.get(tried.saturating_sub(1)) {
                Some(seconds) => Phase::Pending {
                    next_at: now + TimeDelta::seconds(*seconds),
                },
                None => Phase::Failed,
            };
        }
        Report::Never(error) if is_open && is_current => {
            next.last_error = Some(bounded(error));
            next.phase = Phase::Failed;
        }
        Report::Dropped(why) if is_open && is_current => {
            next.last_error = Some(bounded(why));
            next.phase = Phase::Dropped;
        }
        Report::Sent { .. } | Report::Later(_) | Report::Never(_) | Report::Dropped(_) => {
            return Step::Same(Answer::Done);
        }
    }
    changed(next, Vec::new())
}

fn bounded(error: &str) -> String {
    error.chars().take(ERROR_CHARS_MAX).collect()
}

fn changed(mut next: Delivery, effects: Vec<Effect>) -> Step {
    next.version += 1;
    Step::Changed(Box::new(Change {
        state: Aggregate::Delivery(Box::new(next)),
        effects,
        facts: Vec::new(),
        answer: Answer::Done,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody has said anything.
    fn claim(delivery: &Delivery, now: DateTime<Utc>) -> Step {
        super::claim(delivery, &|_need| Found::Absent, now).unwrap()
    }

    fn delivery() -> Delivery {
        let hold = "hold_01920000000070008000000000000001-1".parse().unwrap();
        Delivery {
            key: DeliveryKey {
                workspace: "acme".parse().unwrap(),
                note: NotificationId::opened(hold),
                to: Recipient::Mail("ada".parse().unwrap()),
            },
            priority: Priority::Normal,
            phase: Phase::Pending {
                next_at: DateTime::UNIX_EPOCH,
            },
            attempts: 0,
            last_error: None,
            version: 1,
        }
    }

    fn after(step: Step) -> (Delivery, usize) {
        let Step::Changed(change) = step else {
            panic!("nothing changed");
        };
        let Aggregate::Delivery(next) = change.state else {
            panic!("no delivery");
        };
        (*next, change.effects.len())
    }

    /// M-5: handed out once a lease; tried again later and later, and then given up with the reason.
    #[test]
    fn it_is_tried_later_and_later_and_then_given_up() {
        let (mut now, mut one, mut tries) = (DateTime::UNIX_EPOCH, delivery(), 0);
        loop {
            let (claimed, sends) = after(claim(&one, now));
            assert_eq!(sends, 1);
            assert_eq!(claim(&claimed, now), Step::Same(Answer::Done), "leased");
            tries += 1;
            let later = Report::Later("no answer".to_owned());
            let (next, _) = after(reported(&claimed, tries, &later, now));
            one = next;
            let Phase::Pending { next_at } = one.phase else {
                break;
            };
            assert!(next_at > now);
            now = next_at;
        }
        assert_eq!((tries, &one.phase), (TRIES_MAX, &Phase::Failed));
        assert_eq!(one.last_error.as_deref(), Some("no answer"));
        assert!(now - DateTime::<Utc>::UNIX_EPOCH < TimeDelta::days(4));
        assert_eq!(claim(&one, now), Step::Same(Answer::Done), "final");
    }

    #[test]
    fn a_hand_out_without_a_word_is_followed_by_another_and_late_good_news_counts() {
        let now = DateTime::UNIX_EPOCH;
        let (first, _) = after(claim(&delivery(), now));
        let (second, sends) = after(claim(&first, now + LEASE));
        assert_eq!((second.attempts, sends), (2, 1));
        let later = Report::Later("late".to_owned());
        assert_eq!(reported(&second, 1, &later, now), Step::Same(Answer::Done));
        let sent = Report::Sent {
            receipt: "250".to_owned(),
        };
        let (done, _) = after(reported(&second, 1, &sent, now));
        assert!(matches!(done.phase, Phase::Sent { .. }));
        assert_eq!(reported(&done, 2, &later, now), Step::Same(Answer::Done));
    }

    #[test]
    fn what_cannot_help_is_not_tried_again() {
        let now = DateTime::UNIX_EPOCH;
        let (first, _) = after(claim(&delivery(), now));
        let never = Report::Never("x".repeat(5_000));
        let (done, _) = after(reported(&first, 1, &never, now));
        assert_eq!(done.phase, Phase::Failed);
        assert_eq!(done.last_error.unwrap().len(), ERROR_CHARS_MAX);
    }
}
