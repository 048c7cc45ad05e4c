//! Holds on people: the handoff service owns them.
//!
//! A hold is in the phase of a step, in the questions of its tool, or beside the steps if it concerns the
//! whole run. The full specification is a value of the run ([`spec_name`]), so that the desired state can be
//! made again.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::hold::{
    ApprovalRecord, EndedByRung, HandoffEvent, HoldOutcome, HoldSpec, OnTimeout,
};
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::model::is_default;
use crate::domain::model::time::{after, millis_between};

/// Most characters of a question that the run's row keeps, for its message.
const ASKS_CHARS_MAX: usize = 300;

/// Largest form that it keeps, in bytes of JSON.
const FORM_BYTES_MAX: usize = 4 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonHold {
    /// Its id, which is the request's.
    pub id: HoldId,
    /// `input` or `handoff`.
    pub kind: HoldKind,
    pub since: DateTime<Utc>,
    /// Whom; empty: the workspace's owners.
    #[serde(default)]
    pub to: Vec<String>,
    pub asks: String,
    /// The form of an answer, where it is small enough for the run's row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Value>,
    pub on_timeout: OnTimeout,
    /// Whether it is a handoff of a warm lead (S0-AC7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_lead: bool,
    /// How long it was given, in milliseconds; none: no deadline.
    pub length_ms: Option<u64>,
    pub clock: Deadline,
    /// The closure that came while the run could not move. It takes effect when the run moves again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<HoldClosure>,
    /// The person who owns the run through it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Ownership>,
    /// The newest handoff event that the history of the run has.
    #[serde(rename = "told", default, skip_serializing_if = "is_default")]
    pub recorded_rev: u64,
}

/// The deadline of a hold on people; its owner sets the timer.
#[cfg_attr(test, derive(strum::IntoStaticStr, strum::VariantNames))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Deadline {
    None,
    /// Its owner says when it has passed.
    Set {
        due: DateTime<Utc>,
    },
    /// A pause has stopped it.
    Frozen {
        remaining_ms: u64,
        /// When time would have been up.
        due: DateTime<Utc>,
    },
}

/// How a hold on people was closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldClosure {
    pub outcome: HoldOutcome,
    #[serde(default)]
    pub data: Value,
    pub by: String,
    pub at: DateTime<Utc>,
    /// Users' actions before the closure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handoff_events: Vec<HandoffEvent>,
    /// A rung of its ladder ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_rung: Option<EndedByRung>,
    /// Of an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ownership {
    pub by: String,
    pub at: DateTime<Utc>,
}

/// Name of the value that holds what a hold asks; no step can be called so.
#[must_use]
pub fn spec_name(hold: HoldId) -> String {
    format!("?hold-{}", hold.number)
}

/// Name of the value with the newest notes of an operator who handed the run back. No step can have this
/// name.
pub const INTERVENTION: &str = "?intervention";

/// Name of the value that holds a step's condition with the values that were seen.
#[must_use]
pub fn condition_name(step: &str) -> String {
    format!("?when-{step}")
}

impl PersonHold {
    /// A hold that is opened now. The form is that of an answer.
    #[must_use]
    pub fn new(
        id: HoldId,
        spec: &HoldSpec,
        form: Option<Value>,
        length_ms: Option<u64>,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            id,
            kind: spec.kind,
            since: now,
            to: spec.to.clone(),
            form: form.filter(|form| json_bytes(form) <= FORM_BYTES_MAX),
            asks: spec.question.chars().take(ASKS_CHARS_MAX).collect(),
            on_timeout: spec.on_timeout,
            length_ms,
            clock: length_ms.map_or(Deadline::None, |ms| Deadline::Set {
                due: after(now, ms),
            }),
            closing: None,
            taken: None,
            recorded_rev: 0,
            warm_lead: spec.warm_lead,
        }
    }

    /// The deadline; none while frozen, owned by a person, or without a deadline.
    #[must_use]
    pub const fn deadline(&self) -> Option<DateTime<Utc>> {
        match (&self.clock, &self.taken) {
            (Deadline::Set { due }, None) => Some(*due),
            (Deadline::Set { .. } | Deadline::None | Deadline::Frozen { .. }, _) => None,
        }
    }

    /// What is left while a pause has stopped the clock.
    #[must_use]
    pub const fn remaining_ms(&self) -> Option<u64> {
        match (&self.clock, &self.taken) {
            (Deadline::Frozen { remaining_ms, .. }, None) => Some(*remaining_ms),
            (Deadline::Frozen { .. } | Deadline::Set { .. } | Deadline::None, _) => None,
        }
    }

    /// Whether the run continues when the deadline passes.
    #[must_use]
    pub const fn continues_on_timeout(&self) -> bool {
        match self.on_timeout {
            OnTimeout::Continue | OnTimeout::Skip | OnTimeout::Default => true,
            OnTimeout::Fail | OnTimeout::Escalate => false,
        }
    }

    /// Starts the clock again, until `due`.
    pub fn thaw(&mut self, due: DateTime<Utc>) {
        if let Deadline::Frozen { .. } = self.clock {
            self.clock = Deadline::Set { due };
            self.drop_kept_timeout();
        }
    }

    /// Deletes a kept timeout, because its clock has changed. The owner may have undone it, and reports it
    /// again otherwise.
    fn drop_kept_timeout(&mut self) {
        self.closing
            .take_if(|closing| closing.outcome == HoldOutcome::Timeout);
    }

    /// Whether there was time left when the hold ended without a person. Its owner had not received a moved
    /// deadline yet, and asks again when it does. A rung may end the hold before its deadline, if the rung
    /// knew the current deadline.
    #[must_use]
    pub fn has_time_left_after(&self, closing: &HoldClosure) -> bool {
        let knew_older = |due: DateTime<Utc>| match &closing.by_rung {
            Some(end) => end.deadline.is_some_and(|known| known < due),
            None => true,
        };
        match &self.clock {
            Deadline::None => false,
            // At or after the current deadline the hold has timed out, whichever deadline its owner knew.
            Deadline::Set { due } | Deadline::Frozen { due, .. } => {
                closing.at < *due && knew_older(*due)
            }
        }
    }

    /// Sets the time from its beginning, without pauses. Returns whether it has changed.
    pub fn set_timeout(&mut self, ms: u64) -> bool {
        let Some(before) = self.length_ms.filter(|before| *before != ms) else {
            return false;
        };
        let moved = |due: DateTime<Utc>| match ms.checked_sub(before) {
            Some(more) => after(due, more),
            None => due - TimeDelta::milliseconds(i64::try_from(before - ms).unwrap_or(0)),
        };
        self.length_ms = Some(ms);
        match &mut self.clock {
            Deadline::None => return false,
            Deadline::Set { due } => *due = moved(*due),
            Deadline::Frozen { remaining_ms, due } => {
                *due = moved(*due);
                *remaining_ms = (*remaining_ms + ms).saturating_sub(before);
            }
        }
        self.drop_kept_timeout();
        true
    }

    pub fn freeze(&mut self, now: DateTime<Utc>) {
        if let Deadline::Set { due } = self.clock {
            self.clock = Deadline::Frozen {
                remaining_ms: millis_between(now.max(self.since), due),
                due,
            };
            self.drop_kept_timeout();
        }
    }
}
