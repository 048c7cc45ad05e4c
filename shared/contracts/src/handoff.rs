//! Commands and queries of the handoff service: people, and what is asked of them.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, HoldId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hold::{DesiredHold, HoldOutcome, HoldSpec, Priority, SetHoldReply, Task};
use crate::link::Link;
use crate::message::{Command, Query, Reply};
use crate::run::HoldKind;

mod again;
mod batch;
mod listing;
mod live;
mod policies;
mod users;

pub use again::{AskAgain, WithdrawHold};
pub use batch::{DecideRequests, DecidedOne};
pub use listing::{ListOrder, ListRequests};
pub use live::RequestNudge;
pub use policies::{
    ApprovalRules, Calendar, DeletePolicy, EscalationRules, GetPolicy, ListPolicies, PolicyRules,
    PolicyRung, PolicyView, PutPolicy, Repeat, StopOn, Weekday,
};
pub use users::{DisableUser, GetUser, ListUserChanges, ListUsers, PutUser, UserChange, UserView};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "handoff";

/// The holds on people that are wanted; one message a batch of the service that wants them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetHolds {
    /// The service that is notified when they are closed.
    pub owner: String,
    /// At least one.
    pub holds: Vec<DesiredHold>,
}
command!(SetHolds, "set_holds", Vec<Reply<SetHoldReply>>, |it| it
    .holds
    .first()
    .map(|first| first.id.to_string())
    .unwrap_or_default());

/// Alarms of requests that have come due; one message a batch of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTimersFired {
    /// At least one.
    pub fired: Vec<crate::executor::TimerFired>,
}
command!(
    RequestTimersFired,
    "timers_fired",
    Vec<Reply<crate::executor::TimerReply>>,
    |it| it
        .fired
        .first()
        .map(|first| first.id.clone())
        .unwrap_or_default()
);

/// Opens a hold that stands alone (M-6, `POST /holds`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenHold {
    /// Made by the caller ([`HoldId::standalone`]), so that asking again opens nothing twice.
    pub id: HoldId,
    /// The question.
    pub spec: HoldSpec,
    /// How long until the deadline has passed, in milliseconds: 1 s to 90 days. A timer fires then. 0 where it names
    /// policies: as one of them says, else 5 minutes for an input and 7 days for anything else. 0 of a
    /// handoff: no automatic end, unless its `time_by_policy` is set.
    pub timeout_ms: u64,
}
command!(OpenHold, "open_hold", RequestView, |it| it.id.to_string());

/// A person decides a request. Needs a signed assertion; one handler for all ways that lead here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    /// The id.
    pub id: HoldId,
    /// The decision.
    pub decision: Decision,
    /// The version of the request that the person has seen, if it matters to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
command!(DecideRequest, "decide_request", Decided, |it| it
    .id
    .to_string());

/// What a person decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// To an input: one of the options, a text, or what the schema says.
    Respond {
        /// The answer.
        answer: Value,
    },
    /// To an approval: yes.
    Approve {
        /// Comment for the record.
        #[serde(default)]
        comment: Option<String>,
    },
    /// To an approval: no.
    Reject {
        /// The reason; required.
        reason: String,
    },
    /// To a handoff: the person has done it (S0-T3). Taking it over first is not needed: one button
    /// may do both.
    Complete(Completion),
}

/// What a person did of a handoff (S0-T3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// Notes; bounded.
    #[serde(default)]
    pub notes: String,
    /// What came of it.
    #[serde(default)]
    pub outcome_type: OutcomeType,
    /// What becomes of the run.
    pub disposition: Disposition,
}

/// What came of a handoff (S0-T3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeType {
    /// Done.
    #[default]
    Resolved,
    /// Others deal with it.
    Escalated,
    /// There was nothing to do.
    NoActionNeeded,
}

impl OutcomeType {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Escalated => "escalated",
            Self::NoActionNeeded => "no_action_needed",
        }
    }
}

/// What becomes of a run once its handoff is completed (S0-T3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The run completes.
    Finish,
    /// The remaining steps run; the agent is notified what the person did.
    ReturnToAgent,
}

/// A person acts on a request without deciding it. Needs a signed assertion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActOnRequest {
    /// The id.
    pub id: HoldId,
    /// The action.
    pub action: RequestAction,
    /// The version of the request that the person has seen, if it matters to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}
command!(ActOnRequest, "act_on_request", RequestView, |it| it
    .id
    .to_string());

/// What a person does with a request short of deciding it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RequestAction {
    /// "Mine": the person becomes the assignee.
    Accept,
    /// The person becomes the owner of the run (handoffs): its timer stops, its other live steps are
    /// revoked, the agent is fenced off.
    TakeOver,
    /// A user else has it now.
    Reassign {
        /// `@user.<name>` or `@role.<name>`.
        to: String,
    },
    /// A user else may decide it too; the assignee stays.
    Delegate {
        /// `@user.<name>` or `@role.<name>`.
        to: String,
    },
    /// "Seen": the ladder is quiet for a while, and begins again if nothing is done.
    Acknowledge,
    /// Not now: it leaves the person's list, and comes back by itself. Where no user else has it, the ladder
    /// waits.
    Snooze {
        /// For how long, in milliseconds: 1 minute to 30 days, never beyond the deadline.
        for_ms: u64,
    },
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// It stands, and never changes.
    pub recorded: bool,
    /// What it did to the run.
    pub effect: Effect,
    /// The request as it now stands.
    pub request: RequestView,
}

/// What a recorded decision did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The run went on with it (or the hold stands alone).
    Applied,
    /// The run is paused.
    OnResume,
    /// The run had ended.
    RunEnded,
    /// The executor has not said yet.
    Pending,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStatus {
    /// Undecided.
    Open,
    /// A handoff that no user has taken.
    Offered,
    /// A handoff that a user said is theirs.
    Accepted,
    /// A handoff whose run a person owns now.
    TakenOver,
    /// A handoff that was given to another user, who has not said a word.
    Reassigned,
    /// A person has decided.
    Decided,
    /// A handoff is done.
    Completed,
    /// The deadline passed.
    Expired,
    /// It is not wanted any more.
    Withdrawn,
}

impl RequestStatus {
    /// Every status.
    pub const ALL: [Self; 9] = [
        Self::Open,
        Self::Offered,
        Self::Accepted,
        Self::TakenOver,
        Self::Reassigned,
        Self::Decided,
        Self::Completed,
        Self::Expired,
        Self::Withdrawn,
    ];

    /// Whether no user has decided: what the filter `open` finds.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Open | Self::Offered | Self::Accepted | Self::TakenOver | Self::Reassigned => {
                true
            }
            Self::Decided | Self::Completed | Self::Expired | Self::Withdrawn => false,
        }
    }

    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Offered => "offered",
            Self::Accepted => "accepted",
            Self::TakenOver => "taken_over",
            Self::Reassigned => "reassigned",
            Self::Decided => "decided",
            Self::Completed => "completed",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// One request as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestView {
    /// The hold's id.
    pub id: HoldId,
    /// `approval`, `input`, `handoff`, `timer`.
    pub kind: HoldKind,
    /// Whose; none for a hold that stands alone.
    pub run: Option<RunId>,
    /// The step that waits.
    pub step: Option<String>,
    /// The agent that asks.
    pub agent: Option<AgentName>,
    /// The status.
    pub status: RequestStatus,
    /// Rises with every change.
    pub version: u64,
    /// Whom it is addressed to, as it was asked for; empty: the workspace's owners.
    pub to: Vec<String>,
    /// For people.
    pub question: String,
    /// The answers there are.
    pub options: Vec<String>,
    /// Why it is asked, where the plan did not: `uncertain`.
    pub reason: Option<String>,
    /// What helps to decide.
    pub context: Value,
    /// The deadline; none while frozen, or when there is no deadline.
    #[serde(default, with = "crate::instant::option")]
    pub deadline: Option<DateTime<Utc>>,
    /// What is left while a pause has stopped the clock, in milliseconds.
    pub remaining_ms: Option<u64>,
    /// What happens when the deadline passes.
    pub on_timeout: crate::hold::OnTimeout,
    /// What can be done to it in its state: `respond approve reject complete accept take_over reassign
    /// delegate acknowledge snooze withdraw`. Whether this caller may is decided when it is done.
    pub actions: Vec<String>,
    /// How it ended.
    pub outcome: Option<HoldOutcome>,
    /// What was decided: the answer, the comment, the reason.
    pub response: Option<Value>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When it was decided.
    #[serde(default, with = "crate::instant::option")]
    pub decided_at: Option<DateTime<Utc>>,
    /// What the decision, or time, did to the run: the executor's word. None while nothing has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// When the deadline passed with [`OnTimeout::Escalate`](crate::hold::OnTimeout::Escalate): an
    /// answer still counts.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::instant::option"
    )]
    pub escalated_at: Option<DateTime<Utc>>,
    /// Answers that came too late; kept and shown.
    pub late: Vec<LateAnswer>,
    /// When it was opened.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// Headline (S0-R2).
    #[serde(default)]
    pub title: Option<String>,
    /// Who has it, by name; none: any of those it is addressed to.
    #[serde(default)]
    pub assignee: Option<String>,
    /// The priority.
    #[serde(default)]
    pub priority: Priority,
    /// The form of an answer.
    #[serde(default)]
    pub schema: Option<Value>,
    /// Where a person enters what is asked for: nothing of it passes through here, and the options are
    /// `done` and `declined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The to-do that it shows.
    #[serde(default)]
    pub task: Option<Task>,
    /// A contact that is interested.
    #[serde(default)]
    pub warm_lead: bool,
    /// Votes so far, where more than one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<Votes>,
    /// Who did what with it, in order; bounded.
    #[serde(default)]
    pub history: Vec<RequestHistoryEntry>,
    /// Who may decide it too: it was delegated to them, or a rung broadened it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The answer that counts when the deadline passes, with
    /// [`OnTimeout::Default`](crate::hold::OnTimeout::Default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Until when it is put away: of the caller who has it alone; as the API shows it, of the caller who looks.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::instant::option"
    )]
    pub snoozed_until: Option<DateTime<Utc>>,
    /// Who has put it away for later, each for themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snoozed_by: Vec<Snooze>,
    /// The version since which nothing has changed that people look at, where that is an older one than
    /// `version`: the caller who has seen it, or one since, still decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged_since: Option<u64>,
    /// The request that this one asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_again: Option<HoldId>,
    /// Steps of the run that would still run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_left: Option<u32>,
    /// Where the outcome is posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<String>,
    /// It has ended, or its timer was stopped, and the scheduler has not confirmed that yet (S0-R4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timer_unconfirmed: bool,
    /// Who wanted it asked, by name: the user who started the run or opened the hold, and the requester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_by: Vec<String>,
    /// What people said, and what is known of the contact, is left out for this reader.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A user has put a request away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snooze {
    /// Name of the user, or `service:<name>`.
    pub by: String,
    /// Until when it is not in their list.
    #[serde(with = "crate::instant")]
    pub until: DateTime<Utc>,
}

/// Votes on an approval that needs more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Votes {
    /// Votes in favour.
    pub have: u32,
    /// Votes that are needed.
    pub need: u32,
}

/// One thing that was done with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHistoryEntry {
    /// `opened accepted taken_over reassigned delegated acknowledged snoozed approved rejected answered
    /// completed expired withdrawn escalated`.
    pub action: String,
    /// Name of the user, or `service:<name>`.
    pub by: String,
    /// The instant.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// To whom, until when, why: one sentence at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An answer that came after the request was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateAnswer {
    /// Name of the user.
    pub by: String,
    /// The instant.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// The data.
    pub data: Value,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    /// The id.
    pub id: HoldId,
}
query!(GetRequest, "request", RequestView);
