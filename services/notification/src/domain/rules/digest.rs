//! One mail a day of what is open: when, and that it is one.

use chrono::{DateTime, Datelike as _, Days, Utc};
use holdpoint_contracts::FieldError;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::Digest;
use holdpoint_ids::NotificationId;

use super::quiet::{self, instants};
use super::{Preferences, Rules};
use crate::domain::{Aggregate, Change, Effect, Outcome, Posting, Recipient, Reply};

/// How urgent it is that somebody looks: quiet hours hold it back.
const PRIORITY: Priority = Priority::Low;

/// Days that are looked at for the next one; zones have skipped one.
const DAYS: u64 = 4;

/// Reads the time of day, or says what is wrong.
pub(super) fn read(said: Option<&Digest>, errors: &mut Vec<FieldError>) -> Option<u32> {
    let said = said?;
    let read = quiet::minutes(&said.at).filter(|minutes| *minutes < quiet::DAY);
    if read.is_none() {
        errors.push(FieldError {
            text: said.at.chars().take(100).collect(),
            ..FieldError::at("/digest/at", "digest.at is a time of day such as 08:00")
        });
    }
    read
}

impl Rules {
    /// The first instant after now at which clocks show the time of the digest. A day on which they skip
    /// it has it a little later; one on which they show it twice has it once.
    pub(super) fn digest_after(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let minutes = self.digest?;
        let today = now.with_timezone(&self.zone).date_naive();
        let first = today.checked_sub_days(Days::new(1))?;
        let days = (0..DAYS).filter_map(|later| first.checked_add_days(Days::new(later)));
        let mut starts = days.filter_map(|day| Some(instants(self.zone, day, minutes)?.0));
        starts.find(|start| *start > now)
    }

    /// The day that clocks show: 20260131.
    fn day(&self, at: DateTime<Utc>) -> u64 {
        let day = at.with_timezone(&self.zone).date_naive();
        let year = u64::try_from(day.year()).unwrap_or_default();
        year * 10_000 + u64::from(day.month()) * 100 + u64::from(day.day())
    }
}

/// It is time for a digest: one a day, whatever is said in between and however often this is decided.
/// Days that were missed are not made up for.
pub(in crate::domain) fn digest(known: &Preferences, now: DateTime<Utc>) -> Outcome {
    let Some(due) = known.digest_at.filter(|due| *due <= now) else {
        return Outcome::Unchanged(Reply::Done);
    };
    let rules = Rules::read(&known.said).unwrap_or_default();
    let to = Recipient::Digest(known.person.clone());
    let posting = Posting::when_wanted(to, &rules, PRIORITY, now);
    let deliver = Effect::Deliver {
        workspace: known.workspace.clone(),
        id: NotificationId::digest(rules.day(due)),
        priority: PRIORITY,
        to: vec![posting],
    };
    let next = Preferences {
        digest_at: rules.digest_after(now),
        version: known.version + 1,
        ..known.clone()
    };
    Outcome::Decided(Box::new(Change {
        state: Aggregate::Preferences(Box::new(next)),
        effects: vec![deliver],
        facts: Vec::new(),
        reply: Reply::Done,
    }))
}
