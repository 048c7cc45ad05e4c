//! What people and the ladder did with a request before it ended: an overlay beside its phase. Desired states
//! that freeze or reopen the request keep it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::RequestHistoryEntry;
use holdpoint_contracts::hold::{HandoffEvent, Priority};
use holdpoint_holds::resolved_policies::ResolvedPolicies;
use holdpoint_ids::UserName;
use serde::{Deserialize, Serialize};

use super::limits::{PENDING_EVENTS_MAX, SNOOZES_MAX};

/// What people and the ladder have done with a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestProgress {
    /// None: any recipient may take it.
    pub assignee: Option<UserName>,
    /// Recipients instead of those of the spec; empty: the workspace's owners.
    pub reassigned_to: Option<Vec<String>>,
    /// Recipients who may decide besides the current ones.
    pub additional_deciders: Vec<String>,
    pub accepted: Option<AuditStamp>,
    /// A person owns the run, so that there is no deadline.
    pub taken_over: Option<AuditStamp>,
    /// It was reassigned, and the new assignee has not accepted it.
    pub is_reassigned: bool,
    /// Approvals, one for each user.
    pub votes: Vec<Vote>,
    /// Users who were notified of a mention, as `@user.<name>`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentioned: Vec<String>,
    /// Priority after rungs raised it.
    pub raised: Option<Priority>,
    /// The only recipient snoozed it until then, and the ladder waits.
    pub snoozed_until: Option<DateTime<Utc>>,
    /// End of each user's snooze.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub snoozed: BTreeMap<UserName, DateTime<Utc>>,
    pub ladder: Ladder,
    /// Oldest first.
    pub history: Vec<RequestHistoryEntry>,
    /// What the named policies stated when the request was opened.
    #[serde(skip_serializing_if = "is_default")]
    pub resolved_policies: ResolvedPolicies,
    #[serde(skip_serializing_if = "is_default")]
    pub pending_events: PendingHandoffEvents,
}

/// Events of a run's handoff that the executor has not acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingHandoffEvents {
    /// Oldest first; beyond [`PENDING_EVENTS_MAX`] the run misses the oldest, which `history` still shows.
    pub handoff_events: Vec<HandoffEvent>,
    /// Version of the newest desired state that carries them.
    pub sent: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditStamp {
    pub by: String,
    pub at: DateTime<Utc>,
}

impl AuditStamp {
    pub(crate) fn new(by: impl Into<String>, at: DateTime<Utc>) -> Self {
        Self { by: by.into(), at }
    }
}

/// An approval by one user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    pub by: String,
    pub at: DateTime<Utc>,
    /// The recipients that named the user; empty: the user may decide any request. None: the vote is older than this
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addressed_by: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ladder {
    /// Instant from which rungs count: the opening, moved by pauses, acknowledgements and snoozes. None:
    /// the ladder does not run.
    pub since: Option<DateTime<Utc>>,
    /// Time that had counted before `since`, in milliseconds. Where only working time counts, an instant
    /// alone does not determine how much has passed.
    #[serde(skip_serializing_if = "is_default")]
    pub passed_ms: u64,
    /// Rungs that have fired in this round.
    pub fired: usize,
    /// After an acknowledgement: time from `since` to the first rung of this round, in milliseconds. Later
    /// rungs keep their distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet_ms: Option<u64>,
    /// Rounds before this one; an acknowledgement ends a round.
    #[serde(skip_serializing_if = "is_default")]
    pub rounds: u64,
    /// Rungs that had their effect in earlier rounds; in this round they only notify.
    #[serde(skip_serializing_if = "is_default")]
    pub done: usize,
    /// Set when a rung has ended the request like a timeout.
    pub ended: Option<RungEnd>,
}

/// Whether a field is left out of the stored JSON.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungEnd {
    /// Due time of the rung, in milliseconds from the opening.
    #[serde(default)]
    pub after_ms: u64,
    /// The deadline that the request still had.
    pub deadline: Option<DateTime<Utc>>,
    /// Whether the default answer counts.
    pub is_answered: bool,
}

impl PendingHandoffEvents {
    pub(crate) fn add(&mut self, handoff_event: HandoffEvent) {
        if self.handoff_events.len() >= PENDING_EVENTS_MAX {
            self.handoff_events.remove(0);
        }
        self.handoff_events.push(handoff_event);
    }

    /// Whether no desired state carries the newest event yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.handoff_events
            .last()
            .is_some_and(|handoff_event| handoff_event.rev > self.sent)
    }

    /// Removes events up to the acknowledged version; returns whether any was removed.
    pub(crate) fn acknowledge(&mut self, rev: u64) -> bool {
        let before = self.handoff_events.len();
        self.handoff_events
            .retain(|handoff_event| handoff_event.rev > rev);
        self.handoff_events.len() < before
    }
}

impl RequestProgress {
    /// Reassigns the request; an acceptance by the former assignee no longer counts.
    pub(crate) fn reassign(&mut self, to: Vec<String>, assignee: Option<UserName>) {
        self.assignee = assignee;
        self.reassigned_to = Some(to);
        self.accepted = None;
        self.is_reassigned = true;
        self.clear_snoozes();
    }

    /// Snoozes the request for one user and forgets snoozes that have ended. Beyond [`SNOOZES_MAX`] the
    /// snooze that ends first ends at once.
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

    /// Ends all snoozes, because the request has a new assignee.
    pub(crate) fn clear_snoozes(&mut self) {
        self.snoozed_until = None;
        self.snoozed.clear();
    }
}

impl Ladder {
    /// Restarts a running ladder, because a new assignee gets as much time as the former one.
    pub(crate) fn restart_if_running(&mut self, at: DateTime<Utc>) {
        if self.since.is_some() {
            self.start(at);
        }
    }

    /// Starts the first round at an instant.
    pub(crate) fn start(&mut self, at: DateTime<Utc>) {
        *self = Self {
            since: Some(at),
            ended: self.ended.take(),
            ..Self::default()
        };
    }

    /// Starts a new round of a running ladder after an acknowledgement. Rungs that had their effect only
    /// notify in later rounds.
    pub(crate) fn start_round(&mut self, at: DateTime<Utc>, quiet_ms: u64) {
        if self.since.is_some() {
            let rounds = self.rounds.saturating_add(1);
            let done = self.done.max(self.fired);
            self.start(at);
            self.quiet_ms = Some(quiet_ms);
            self.rounds = rounds;
            self.done = done;
        }
    }
}
