//! The hold protocol: what is wanted of a hold's owner, and how the owner says that it has closed.
//!
//! A wish is level, not edge: it says the state that is wanted, with a `rev` that rises with every
//! commit of the run. An id that the owner does not know is created in the wanted state, so that
//! order does not matter. Who wins when a wish meets an owner's state is `holdpoint_handoff`'s
//! table of nine cells.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, HoldId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::HoldKind;

/// One hold as it is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldWish {
    /// Which; also the request's id.
    pub id: HoldId,
    /// Rises with every commit of whoever wants it; lower or equal changes nothing.
    pub rev: u64,
    /// The state that is wanted.
    pub want: Want,
}

/// The state that is wanted of a hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Want {
    /// Ask, until the deadline.
    Open {
        /// What is asked, and of whom.
        spec: Box<HoldSpec>,
        /// When time is up; none: never by itself, the ladder still applies.
        #[serde(default, with = "crate::instant::option")]
        deadline: Option<DateTime<Utc>>,
    },
    /// The clock stands still; an answer is kept and takes effect on resume.
    Frozen {
        /// What was asked: an id that is not known yet is created frozen.
        spec: Box<HoldSpec>,
        /// The instant of the pause, not of the message's arrival.
        #[serde(with = "crate::instant")]
        since: DateTime<Utc>,
        /// What is left of the time, in milliseconds; none: there is no deadline.
        #[serde(default)]
        remaining_ms: Option<u64>,
    },
    /// Not wanted any more.
    Gone {
        /// Why, for people.
        reason: String,
    },
}

/// What is asked of people; does not change while the hold lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldSpec {
    /// `approval`, `input`, `handoff` or, standing alone, `timer`.
    pub kind: HoldKind,
    /// Which step waits; none for a hold that stands alone.
    #[serde(default)]
    pub step: Option<String>,
    /// Which agent asks.
    #[serde(default)]
    pub agent: Option<AgentName>,
    /// One sentence or more, for people.
    pub question: String,
    /// The answers there are; empty: any text, or what the schema says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Whom: `@user.<name>` or `@role.<name>`; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Why it is asked, where it is not the plan's doing: `uncertain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happens when time is up.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// The answer for [`OnTimeout::Default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Everything else that helps to decide; at most 128 KiB.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
}

/// What happens when nobody has decided in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The run fails (class `human_timeout`).
    #[default]
    Fail,
    /// The step is skipped.
    Skip,
    /// The given answer counts.
    Default,
    /// The run goes on.
    Continue,
    /// Request and run stay; the next rung is told; an answer still counts.
    Escalate,
}

/// How a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldOutcome {
    /// A question was answered.
    Answered,
    /// A person said yes.
    Approved,
    /// A person said no.
    Rejected,
    /// A handoff was completed.
    Completed,
    /// A person took the run over.
    TakenOver,
    /// Time was up.
    Timeout,
    /// It was not wanted any more.
    Cancelled,
    /// A timer came due.
    Fired,
}

impl HoldOutcome {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Completed => "completed",
            Self::TakenOver => "taken_over",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Fired => "fired",
        }
    }
}

/// How a hold was closed; sent again until the executor has confirmed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldClosed {
    /// Which.
    pub id: HoldId,
    /// Of the owner's row; an older one than the executor knows changes nothing.
    pub rev: u64,
    /// How.
    pub outcome: HoldOutcome,
    /// The answer, the notes, the comment.
    #[serde(default)]
    pub data: Value,
    /// Who decided; `service:scheduler` when time did.
    pub by: String,
    /// When.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}

/// What the executor says to one [`HoldClosed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedAnswer {
    /// The run goes on with it.
    Applied,
    /// The run is paused: it takes effect on resume.
    OnResume,
    /// The run, or the hold, had ended before.
    RunEnded,
}

/// What the owner says to one [`HoldWish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WishAnswer {
    /// It is so now.
    Set,
    /// A newer wish came before, or the same one.
    Stale,
    /// A person has decided: that stays, and is sent again.
    Decided,
    /// Time was up: that stays, and is sent again.
    TimedOut,
}
