//! The hold protocol: what is wanted of a hold's owner, and how the owner says that it has closed.
//!
//! A desired state is level, not edge: it says the state that is wanted, with a `rev` that rises with every
//! commit of the run. An id that the owner does not know is created in the wanted state, so that
//! order does not matter. Who wins when a desired state meets an owner's state is `holdpoint_handoff`'s
//! table of nine cells.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, HoldId, PolicyName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::link::Link;
use crate::run::HoldKind;

mod closed;
mod handoff_events;

pub use closed::{CloseReply, EndedByRung, HoldClosed};
pub use handoff_events::{HandoffEvent, HandoffEventKind, HandoffUpdate, HandoffUpdateReply};

/// One hold as it is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesiredHold {
    /// Which; also the request's id.
    pub id: HoldId,
    /// Rises with every commit of the service that wants it; lower or equal changes nothing.
    pub rev: u64,
    /// The state that is wanted.
    pub state: HoldState,
}

/// The state that is wanted of a hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldState {
    /// Ask, until the deadline.
    Open {
        /// What is asked, and of whom.
        spec: Box<HoldSpec>,
        /// The deadline; none: never by itself, the ladder still applies.
        #[serde(default, with = "crate::instant::option")]
        deadline: Option<DateTime<Utc>>,
    },
    /// The clock is stopped; an answer is kept and takes effect on resume.
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
    Withdrawn {
        /// Reason in one sentence.
        reason: String,
        /// Who ended the run; none: the run ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// [`HoldSpec::reason`] of a handoff to a user who owns the run already: an operator took it over.
pub const OPERATOR_TAKEOVER: &str = "operator_takeover";

/// What is asked of people; does not change while the hold lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldSpec {
    /// `approval`, `input`, `handoff` or, standing alone, `timer`.
    pub kind: HoldKind,
    /// Which step waits; none for a hold that stands alone.
    #[serde(default)]
    pub step: Option<String>,
    /// The agent that asks.
    #[serde(default)]
    pub agent: Option<AgentName>,
    /// One sentence or more, for people.
    pub question: String,
    /// The answers there are; empty: any text, or what the schema says.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::form::words"
    )]
    pub options: Vec<String>,
    /// Whom: `@user.<name>` or `@role.<name>`; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Why it is asked, where it is not the plan's doing: `uncertain`, `missing_input`, or [`OPERATOR_TAKEOVER`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happens when the deadline passes.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// The answer for [`OnTimeout::Default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Everything else that helps to decide; at most 128 KiB.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// The form of an answer: the flat subset of JSON Schema that MCP elicitation uses. None: one of
    /// the options, or any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Where a person enters what is not to pass through here, instead of options and a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The priority.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Headline (S0-R2); none: the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The to-do that it shows (S0-AC6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// A contact that is interested (S0-AC7).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warm_lead: bool,
    /// Who of a role gets it.
    #[serde(default, skip_serializing_if = "Assign::is_anyone")]
    pub assign: Assign,
    /// How many must agree, and who may not.
    #[serde(default, skip_serializing_if = "Policy::is_default")]
    pub policy: Policy,
    /// Who wanted what is asked for: may not decide it under [`Policy::not_requester`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Who is notified when no user acts; empty: the default ladder of its kind and priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<Rung>,
    /// Policies by name, at most one of each kind: what they say when the request is opened holds. A hold
    /// that stands alone is refused where there is none of the name; a run's is asked without it, and
    /// its history says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyName>,
    /// Nothing was said of its time: what its policies say of it counts, and its owner has it put so
    /// ([`HandoffEventKind::Timed`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub time_by_policy: bool,
    /// The request that this one asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_again: Option<HoldId>,
    /// Steps of the run that would still run: "let the agent go on - 2 steps left".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_left: Option<u32>,
    /// Where the outcome of a hold that stands alone is posted, signed by Standard Webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
}

impl HoldSpec {
    /// A hold of a kind that asks this, and nothing else said of it: put to the owners, and what
    /// happens at its end is as [`OnTimeout::of`] its kind.
    #[must_use]
    pub fn asking(kind: HoldKind, question: impl Into<String>) -> Self {
        Self {
            kind,
            step: None,
            agent: None,
            question: question.into(),
            options: Vec::new(),
            to: Vec::new(),
            reason: None,
            on_timeout: OnTimeout::of(kind),
            default: None,
            context: Value::Null,
            schema: None,
            link: None,
            priority: Priority::Normal,
            title: None,
            task: None,
            warm_lead: false,
            assign: Assign::Anyone,
            policy: Policy::default(),
            requester: None,
            ladder: Vec::new(),
            policies: Vec::new(),
            time_by_policy: false,
            asks_again: None,
            steps_left: None,
            callback: None,
        }
    }

    /// The answers there are; empty: any text, or what the schema says.
    #[must_use]
    pub fn answers(&self) -> Vec<String> {
        match &self.link {
            Some(_) => Link::answers(),
            None => self.options.clone(),
        }
    }
}

/// How urgent something is (S0-T4): one order, `low < normal (= medium) < high < urgent < critical`.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Some time.
    Low,
    /// As most things; `medium` is read as this.
    #[default]
    #[serde(alias = "medium")]
    Normal,
    /// Today.
    High,
    /// Now.
    Urgent,
    /// Wake a person.
    Critical,
}

impl Priority {
    /// Every priority, least urgent first.
    pub const ALL: [Self; 5] = [
        Self::Low,
        Self::Normal,
        Self::High,
        Self::Urgent,
        Self::Critical,
    ];

    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Urgent => "urgent",
            Self::Critical => "critical",
        }
    }

    /// Whether nothing was said of it.
    #[must_use]
    pub const fn is_normal(&self) -> bool {
        matches!(self, Self::Normal)
    }

    /// The next one up; the highest stays.
    #[must_use]
    pub const fn raised(self) -> Self {
        match self {
            Self::Low => Self::Normal,
            Self::Normal => Self::High,
            Self::High => Self::Urgent,
            Self::Urgent | Self::Critical => Self::Critical,
        }
    }
}

impl std::str::FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = if text == "medium" { "normal" } else { text };
        Self::ALL
            .into_iter()
            .find(|priority| priority.as_str() == wanted)
            .ok_or_else(|| {
                format!("`{text}` is no priority; write low, normal, high, urgent or critical")
            })
    }
}

/// The to-do that a request shows (S0-T4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The request's id, as a task.
    pub id: String,
    /// `Personal outreach to [contact]`.
    pub title: String,
    /// The reason, in sentences.
    #[serde(default)]
    pub description: String,
    /// `agent-handoff`, `requires-review`, `warm-lead`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// As the request's.
    #[serde(default)]
    pub priority: Priority,
}

/// Who of those that a request is addressed to gets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assign {
    /// All are notified, and the caller who is first takes it.
    #[default]
    Anyone,
    /// The active member with the fewest open requests; on a tie the first by name.
    LeastLoaded,
}

impl Assign {
    /// Whether nothing was said of it.
    #[must_use]
    pub const fn is_anyone(&self) -> bool {
        matches!(self, Self::Anyone)
    }
}

/// How many must agree, and who may not (S2-R4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Approvals that are needed, each by another person: 1 to 20. One rejection ends it.
    #[serde(default = "one")]
    pub need: u32,
    /// The requester may not decide it.
    #[serde(default)]
    pub not_requester: bool,
}

const fn one() -> u32 {
    1
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            need: one(),
            not_requester: false,
        }
    }
}

impl Policy {
    /// Whether nothing was said of it.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One rung of a ladder: what happens if no user has acted by then (S4-R15). Fires once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// Time from when it was asked, in milliseconds; a pause stops this clock too.
    pub after_ms: u64,
    /// What happens.
    #[serde(rename = "do")]
    pub act: RungAct,
    /// Whom it concerns: `@user.<name>`, `@role.<name>`; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

/// What a rung does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungAct {
    /// Users are notified.
    Notify,
    /// A user else has it now.
    Reassign,
    /// It becomes more urgent.
    Raise,
    /// These may decide it too.
    Broaden,
    /// The default answer counts.
    AnswerDefault,
    /// It ends as its timeout would.
    Fail,
}

/// What happens when no user has decided in time.
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
    /// Request and run stay; the next rung is notified; an answer still counts.
    Escalate,
}

impl OnTimeout {
    /// What a kind does if nothing is said: an input fails, a handoff goes on, an approval stays and
    /// escalates - never a silent denial.
    #[must_use]
    pub const fn of(kind: HoldKind) -> Self {
        match kind {
            HoldKind::Timer | HoldKind::Input => Self::Fail,
            HoldKind::Handoff => Self::Continue,
            HoldKind::Approval => Self::Escalate,
        }
    }
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
    /// A person took the run over: the hold stays, its timer has stopped, the agent is fenced off;
    /// [`HoldOutcome::Completed`] follows.
    TakenOver,
    /// The deadline passed.
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

/// Reply of the owner to one [`DesiredHold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetHoldReply {
    /// The state was set.
    Set,
    /// A newer desired state came before, or the same one.
    Stale,
    /// A person has decided: that stays, and is sent again.
    Decided,
    /// The deadline passed: that stays, and is sent again.
    TimedOut,
}
