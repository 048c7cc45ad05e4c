//! The hold protocol: what is wanted of a hold's owner, and how the owner says that it has closed.
//!
//! A desired state is level, not edge: it says the state that is wanted, with a `rev` that rises with every
//! commit of the run. An id that the owner does not know is created in the wanted state, so that
//! order does not matter. Who wins when a desired state meets an owner's state is `holdpoint_handoff`'s
//! table of nine cells.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, HoldId, PolicyName, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::link::Link;
use crate::run::HoldKind;

mod closed;
mod handoff_events;

pub use closed::{ApprovalRecord, ApprovalVote, CloseReply, EndedByRung, HoldClosed};
pub use handoff_events::{HandoffEvent, HandoffEventKind, HandoffUpdate, HandoffUpdateReply};

words!(Priority, HoldOutcome);
all_variants!(Priority);

/// One hold as it is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DesiredHold {
    /// Also the request's id.
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
        spec: Box<HoldSpec>,
        /// The deadline; none: never by itself, the ladder still applies.
        #[serde(default, with = "crate::instant::option")]
        deadline: Option<DateTime<Utc>>,
    },
    /// The clock is stopped; an answer is kept and takes effect on resume.
    Frozen {
        /// The question: an unknown id is created frozen.
        spec: Box<HoldSpec>,
        /// The instant of the pause, not of the message's arrival.
        #[serde(with = "crate::instant")]
        since: DateTime<Utc>,
        /// The remaining time, in milliseconds; none: there is no deadline.
        remaining_ms: Option<u64>,
    },
    /// No longer wanted.
    Withdrawn {
        /// Reason in one sentence.
        reason: String,
        /// The user who ended the run; none: the run ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The contact of its run is erased: no longer wanted, and everything that may be personal is emptied. Decision,
    /// time and actor stay.
    Erased { contact: ContactId },
}

/// [`HoldSpec::reason`] of a handoff to a user who owns the run already: an operator took it over.
pub const OPERATOR_TAKEOVER: &str = "operator_takeover";

/// The question to people; it does not change while the hold lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldSpec {
    /// `approval`, `input`, `handoff` or, for a standalone hold, `timer`.
    pub kind: HoldKind,
    /// The step that waits; none for a standalone hold.
    pub step: Option<String>,
    pub agent: Option<AgentName>,
    /// One sentence or more, for people.
    pub question: String,
    /// The answers there are; empty: any text, or what the schema says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "crate::form::words")]
    pub options: Vec<String>,
    /// Recipients: `@user.<name>` or `@role.<name>`; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Why it is asked, where it is not the plan's doing: `uncertain`, `missing_input`, or [`OPERATOR_TAKEOVER`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The effect of the timeout.
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
    /// Where a user enters a secret, instead of options and a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    #[serde(default, skip_serializing_if = "crate::is_default")]
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
    /// The members of a role that get it.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub assign: Assign,
    /// How many must agree, and who may not.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub policy: Policy,
    /// The requester, who may not decide it under [`Policy::not_requester`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// The escalation when no user acts; empty: the default ladder of its kind and priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<Rung>,
    /// Policies by name, at most one of each kind, as they are when the request is opened. An unknown name refuses a
    /// standalone hold; a run's hold is opened without it, and its history says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyName>,
    /// It names no time: that of its policies counts, and its owner notifies the run
    /// ([`HandoffEventKind::Timed`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub time_by_policy: bool,
    /// The request that this one asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_again: Option<HoldId>,
    /// Steps of the run that would still run: "let the agent go on - 2 steps left".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_left: Option<u32>,
    /// Where the outcome of a standalone hold is posted, signed by Standard Webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// The gated calls that an approval of a run decides (S2-R3): at present one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ApprovalItem>,
    /// The step that runs again if a person sends the arguments back; none: they cannot be sent back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<String>,
}

/// A gated call as people approve it (S2-R3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalItem {
    /// The step that makes the call.
    pub id: String,
    pub tool: ToolName,
    /// Version and revision of a registered tool, such as `1.2+3`: a changed registration is another call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The resolved arguments, without the parts in `redaction`.
    pub args: Value,
    /// Parts of the arguments that are hidden. The digest covers them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redaction: Vec<String>,
    /// JSON Schema of the arguments, also of edited ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_schema: Option<Value>,
    /// SHA-256, as hex, of the RFC 8785 form of `{tool, version, args}`. What was approved is what runs.
    pub digest: String,
    /// The step with `for_each` of which it is a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The request of another call of the same parent. While that is open, its notification covers this call too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notified_with: Option<HoldId>,
}

impl HoldSpec {
    /// A hold of a kind with this question and defaults for everything else: its recipients are the owners, and its
    /// timeout has the effect of [`OnTimeout::of`] its kind.
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
            items: Vec::new(),
            revises: None,
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
#[derive(EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
#[strum(parse_err_ty = String, parse_err_fn = unknown_priority)]
pub enum Priority {
    /// Some time.
    Low,
    /// As most things; `medium` is read as this.
    #[default]
    #[serde(alias = "medium")]
    #[strum(to_string = "normal", serialize = "medium")]
    Normal,
    /// Today.
    High,
    /// Now.
    Urgent,
    /// Wake a person.
    Critical,
}

impl Priority {
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

fn unknown_priority(text: &str) -> String {
    format!("invalid priority `{text}`; expected low, normal, high, urgent or critical")
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

/// The recipients of a request that get it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assign {
    /// All are notified, and the first one takes it.
    #[default]
    Anyone,
    /// The active member with the fewest open requests; on a tie the first by name.
    LeastLoaded,
}

/// The quorum, and who may not decide (S2-R4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Approvals that are needed, each by another person: 1 to 20. One rejection ends it.
    pub need: u32,
    /// The requester may not decide it.
    pub not_requester: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            need: 1,
            not_requester: false,
        }
    }
}

/// One rung of a ladder: what happens if no user has acted by then (S4-R15). Fires once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// Time from when it was asked, in milliseconds; a pause stops this clock too.
    pub after_ms: u64,
    #[serde(rename = "do")]
    pub act: RungAct,
    /// Recipients: `@user.<name>`, `@role.<name>`; empty: the workspace's owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungAct {
    Notify,
    /// Another user becomes the assignee.
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

/// The effect of a timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The run fails (class `human_timeout`).
    #[default]
    Fail,
    Skip,
    /// The given answer counts.
    Default,
    /// The run goes on.
    Continue,
    /// Request and run stay; the next rung is notified; an answer still counts.
    Escalate,
}

impl OnTimeout {
    /// The default of a kind: an input fails, a handoff goes on, an approval stays and escalates - never a silent
    /// denial.
    #[must_use]
    pub const fn of(kind: HoldKind) -> Self {
        match kind {
            HoldKind::Timer | HoldKind::Input | HoldKind::Signal | HoldKind::ChildRun => Self::Fail,
            HoldKind::Handoff => Self::Continue,
            HoldKind::Approval => Self::Escalate,
        }
    }
}

/// How a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum HoldOutcome {
    Answered,
    Approved,
    Rejected,
    /// A person sent the arguments back.
    Revised,
    Completed,
    /// A person took the run over: the hold stays, its timer has stopped, the agent is fenced off;
    /// [`HoldOutcome::Completed`] follows.
    TakenOver,
    /// The deadline passed.
    Timeout,
    /// It was withdrawn.
    Cancelled,
    Fired,
}

/// Reply of the owner to one [`DesiredHold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetHoldReply {
    Set,
    /// A newer desired state came before, or the same one.
    Stale,
    /// A person has decided: that stays, and is sent again.
    Decided,
    /// The deadline passed: that stays, and is sent again.
    TimedOut,
}
