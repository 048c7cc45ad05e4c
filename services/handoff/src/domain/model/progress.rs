//! How people deal with a request before it ends: an overlay beside its phase. A desired state that freezes it
//! or opens it again keeps it.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::handoff::RequestHistoryEntry;
use holdpoint_contracts::hold::{HandoffEvent, Priority};
use holdpoint_ids::UserName;
use serde::{Deserialize, Serialize};

use super::hours::WorkingHours;
use super::limits::{DEEDS_MAX, HISTORY_MAX, NOTE_CHARS_MAX, SNOOZES_MAX};
use super::settled::ResolvedPolicies;

/// What people, and the ladder, have done with a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestProgress {
    /// Who has it; none: any of those it is put to.
    pub assignee: Option<UserName>,
    /// Whom it is put to instead of those that it was asked of; empty: the workspace's owners.
    pub reassigned_to: Option<Vec<String>>,
    /// Who may decide it too.
    pub also: Vec<String>,
    /// Somebody said that it is theirs.
    pub accepted: Option<AuditStamp>,
    /// Somebody owns the run now: there is no deadline any more.
    pub taken_over: Option<AuditStamp>,
    /// It was given to somebody, who has not said a word.
    pub is_reassigned: bool,
    /// Who has approved, each once.
    pub votes: Vec<AuditStamp>,
    /// More urgent than it was asked.
    pub raised: Option<Priority>,
    /// Whoever has it alone has put it away until then, and the ladder waits.
    pub snoozed_until: Option<DateTime<Utc>>,
    /// Who has put it away, each for themselves, and until when.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub snoozed: BTreeMap<UserName, DateTime<Utc>>,
    /// How far the ladder has come.
    pub ladder: Ladder,
    /// In order; bounded.
    pub history: Vec<RequestHistoryEntry>,
    /// What the policies that it names said when it was opened.
    #[serde(skip_serializing_if = "ResolvedPolicies::is_empty")]
    pub settled: ResolvedPolicies,
    /// What the history of its run is to be told.
    #[serde(skip_serializing_if = "PendingHandoffEvents::is_empty")]
    pub pending_events: PendingHandoffEvents,
}

/// What was done with a run's handoff, until the executor has confirmed it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingHandoffEvents {
    /// In order; bounded: of more, the run hears of the newest, and all of them are in `history`.
    pub handoff_events: Vec<HandoffEvent>,
    /// Of the newest desired state that brings them to the executor.
    pub sent: u64,
}

/// Who did something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditStamp {
    pub by: String,
    pub at: DateTime<Utc>,
}

/// How far a ladder has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ladder {
    /// The instant from which its rungs count: when it was asked, moved on by every pause, and by who
    /// has seen it or wants it later. None: it does not run.
    pub since: Option<DateTime<Utc>>,
    /// Time that has counted before that instant, in milliseconds: where rungs count working time only,
    /// an instant alone does not say how much has passed.
    #[serde(skip_serializing_if = "is_none_passed")]
    pub passed_ms: u64,
    /// Rungs that have fired, of this round.
    pub fired: usize,
    /// Somebody has seen it: how long the first rung of this round waits from `since` on, in
    /// milliseconds; those behind it keep their distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_ms: Option<u64>,
    /// Rounds before this one: each ended when somebody had seen it, and a new one began.
    #[serde(skip_serializing_if = "is_none_passed")]
    pub rounds: u64,
    /// Rungs that have had their effect in rounds before this one: in this they only tell.
    #[serde(skip_serializing_if = "is_no_rung")]
    pub done: usize,
    /// A rung has ended the request, as its timeout would.
    pub ended: Option<RungEnd>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_none_passed(count: &u64) -> bool {
    *count == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_no_rung(count: &usize) -> bool {
    *count == 0
}

/// How a rung ended a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungEnd {
    /// When that rung was due, in milliseconds from when it was asked.
    #[serde(default)]
    pub after_ms: u64,
    /// The deadline that it still had.
    pub deadline: Option<DateTime<Utc>>,
    /// Whether the default answer counts.
    pub is_answered: bool,
}

impl PendingHandoffEvents {
    pub(crate) const fn is_empty(&self) -> bool {
        self.handoff_events.is_empty() && self.sent == 0
    }

    /// Writes one more down.
    pub(crate) fn add(&mut self, handoff_event: HandoffEvent) {
        if self.handoff_events.len() >= DEEDS_MAX {
            self.handoff_events.remove(0);
        }
        self.handoff_events.push(handoff_event);
    }

    /// Whether there is something that no desired state brings.
    pub(crate) fn has_news(&self) -> bool {
        self.handoff_events
            .last()
            .is_some_and(|handoff_event| handoff_event.rev > self.sent)
    }

    /// The executor knows everything up to a version: whether that is news.
    pub(crate) fn heard(&mut self, rev: u64) -> bool {
        let before = self.handoff_events.len();
        self.handoff_events
            .retain(|handoff_event| handoff_event.rev > rev);
        self.handoff_events.len() < before
    }
}

impl RequestProgress {
    /// Writes down what was done; beyond [`HISTORY_MAX`] what comes after the opening goes first.
    pub(crate) fn note(&mut self, action: &str, by: &str, at: DateTime<Utc>, note: Option<String>) {
        if self.history.len() >= HISTORY_MAX {
            self.history.remove(1);
        }
        self.history.push(RequestHistoryEntry {
            action: action.to_owned(),
            by: by.to_owned(),
            at,
            note: note.map(|text| text.chars().take(NOTE_CHARS_MAX).collect()),
        });
    }

    /// Somebody else has it: what was said of the one before counts no more.
    pub(crate) fn give(&mut self, to: Vec<String>, assignee: Option<UserName>) {
        self.assignee = assignee;
        self.reassigned_to = Some(to);
        self.accepted = None;
        self.is_reassigned = true;
        self.is_back();
    }

    /// Puts it away for one person. What has come back by then is forgotten; of too many, what comes back
    /// first is there at once.
    pub(crate) fn snooze(&mut self, name: &UserName, now: DateTime<Utc>, until: DateTime<Utc>) {
        self.snoozed.retain(|_, until| *until > now);
        self.snoozed.insert(name.clone(), until);
        while self.snoozed.len() > SNOOZES_MAX {
            let first = self.snoozed.iter().min_by_key(|(_, until)| **until);
            let Some(first) = first.map(|(name, _)| name.clone()) else {
                return;
            };
            self.snoozed.remove(&first);
        }
    }

    /// It is somebody's now: nobody has it out of their way.
    pub(crate) fn is_back(&mut self) {
        self.snoozed_until = None;
        self.snoozed.clear();
    }
}

impl Ladder {
    /// Its clock stood still for a while.
    pub(crate) fn stood(
        &mut self,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
        hours: Option<&WorkingHours<'_>>,
    ) {
        match (self.since, hours) {
            (Some(since), Some(hours)) => {
                let passed = hours.between(since, from.max(since));
                self.passed_ms = self.passed_ms.saturating_add(passed);
                self.since = Some(until.max(since));
            }
            (Some(since), None) => {
                let stood = until - from.max(since);
                self.since = Some(since + stood.max(TimeDelta::zero()));
            }
            (None, _) => {}
        }
    }

    /// Somebody else has the request: they have as long as the one before had. A ladder that does not
    /// run stays so.
    pub(crate) fn begin_again(&mut self, at: DateTime<Utc>) {
        if self.since.is_some() {
            self.begin(at);
        }
    }

    /// Its rungs count from an instant on.
    pub(crate) const fn begin(&mut self, at: DateTime<Utc>) {
        self.since = Some(at);
        self.passed_ms = 0;
        self.fired = 0;
        self.quiet_ms = None;
        self.rounds = 0;
        self.done = 0;
    }

    /// Somebody has seen it: it is quiet for a while, and then all its rungs have their turn again,
    /// unless something is done. What they did they do not do twice. A ladder that does not run stays so.
    pub(crate) fn seen(&mut self, at: DateTime<Utc>, quiet_ms: u64) {
        if self.since.is_some() {
            let rounds = self.rounds.saturating_add(1);
            let done = self.done.max(self.fired);
            self.begin(at);
            self.quiet_ms = Some(quiet_ms);
            self.rounds = rounds;
            self.done = done;
        }
    }

    /// No rung before an instant; those behind the next one keep their distance. With working hours
    /// the next one, `next.0` milliseconds of them after the beginning, is due at the first of them from
    /// then on.
    pub(crate) fn not_before(
        &mut self,
        next: Option<(u64, DateTime<Utc>)>,
        until: DateTime<Utc>,
        counts_hours: bool,
    ) {
        let (Some(since), Some((after_ms, due))) = (self.since, next) else {
            return;
        };
        if counts_hours && until > due {
            self.since = Some(until);
            self.passed_ms = after_ms;
        } else {
            self.since = Some(since + (until - due).max(TimeDelta::zero()));
        }
    }
}
