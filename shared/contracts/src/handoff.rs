//! Commands and queries of the handoff service: people, and what is asked of them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, HoldId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};

use crate::executor::{TimerFired, TimerReply};
use crate::hold::{
    ApprovalItem, DesiredHold, HoldOutcome, HoldSpec, OnTimeout, Priority, SetHoldReply, Task,
};
use crate::link::Link;
use crate::message::Reply;
use crate::problem::FieldError;
use crate::run::{HoldKind, Page};

mod ask_again;
mod batch;
mod listing;
mod policies;
mod standing_approvals;
mod users;

pub use ask_again::{AskAgain, WithdrawHold};
pub use batch::{DecideRequests, DecidedOne};
pub use listing::{ListOrder, ListRequests};
pub use policies::{
    ApprovalRules, Calendar, DeletePolicy, EscalationRules, GetPolicy, ListPolicies, PolicyRules,
    PolicyRung, PolicyView, PutPolicy, Repeat, StopOn, Weekday,
};
pub use standing_approvals::{
    CreateStandingApproval, GetStandingApproval, ListStandingApprovals, PlannedCall,
    RevokeStandingApproval, StandingApprovalStatus, StandingApprovalTerms, StandingApprovalUse,
    StandingApprovalView,
};
pub use users::{DisableUser, GetUser, ListUserChanges, ListUsers, PutUser, UserChange, UserView};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "handoff";

words!(Effect, OutcomeType, RequestStatus);
all_variants!(RequestStatus);

commands! {
    SetHolds:           "set_holds"(holds[0].id)    -> Vec<Reply<SetHoldReply>>;
    RequestTimersFired: "timers_fired"(fired[0].id) -> Vec<Reply<TimerReply>>;
    OpenHold:           "open_hold"(id)             -> RequestView;
    WithdrawHold:       "withdraw_hold"(id)         -> RequestView;
    AskAgain:           "ask_again"(id)             -> RequestView;
    DecideRequest:      "decide_request"(id)        -> Decided;
    DecideRequests:     "decide_requests"(ids[0])   -> Vec<Reply<DecidedOne>>;
    ActOnRequest:       "act_on_request"(id)        -> RequestView;
    PutUser:            "put_user"(name)            -> UserView;
    DisableUser:        "disable_user"(name)        -> UserView;
    PutPolicy:          "put_policy"(name)          -> PolicyView;
    DeletePolicy:       "delete_policy"(name)       -> PolicyView;
    CreateStandingApproval: "create_standing_approval"(id) -> StandingApprovalView;
    RevokeStandingApproval: "revoke_standing_approval"(id) -> ();
}

queries! {
    GetRequest:      "request"      -> RequestView;
    ListRequests:    "requests"     -> Page<RequestView>;
    GetUser:         "user"         -> UserView;
    ListUsers:       "users"        -> Page<UserView>;
    ListUserChanges: "user_changes" -> Vec<UserChange>;
    GetPolicy:       "policy"       -> PolicyView;
    ListPolicies:    "policies"     -> Page<PolicyView>;
    GetStandingApproval:   "standing_approval"  -> StandingApprovalView;
    ListStandingApprovals: "standing_approvals" -> Page<StandingApprovalView>;
}

/// The holds on people that are wanted; one message a batch of the service that wants them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetHolds {
    /// The service that is notified when they are closed.
    pub owner: String,
    /// At least one.
    pub holds: Vec<DesiredHold>,
}

/// Timers of requests that have fired; one message a batch of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTimersFired {
    /// At least one.
    pub fired: Vec<TimerFired>,
}

/// Opens a standalone hold (M-6, `POST /holds`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenHold {
    /// Made by the caller ([`HoldId::standalone`]), so that a repetition opens nothing.
    pub id: HoldId,
    pub spec: HoldSpec,
    /// How long until the deadline has passed, in milliseconds: 1 s to 90 days. A timer fires then. 0 where it names
    /// policies: as one of them says, else 5 minutes for an input and 7 days for anything else. 0 of a
    /// handoff: no automatic end, unless its `time_by_policy` is set.
    pub timeout_ms: u64,
}

/// A person decides a request. Needs a signed assertion; one handler for all ways that lead here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    pub id: HoldId,
    pub decision: Decision,
    /// The version of the request that the person has seen, if it matters to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// It is one of several decisions with the same text, so the text mentions no user.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub silent: bool,
}

/// A user's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Decision {
    /// To an input: one of the options, a text, or what the schema says.
    Respond { answer: Value },
    Approve {
        comment: Option<String>,
        /// Arguments that the step gets instead of the requested ones (S2-R4); an object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited_args: Option<Value>,
        /// The digest that the person has seen. Another one refuses the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    Reject {
        /// The reason; required.
        reason: String,
    },
    /// To an approval of a run: the step that made the arguments runs again.
    Revise {
        /// What the agent should change; required.
        instructions: String,
    },
    /// To a handoff: the person has done it (S0-T3). Taking it over first is not needed: one button
    /// may do both.
    Complete(Completion),
}

impl Decision {
    /// Approves as requested.
    #[must_use]
    pub const fn approve(comment: Option<String>) -> Self {
        Self::Approve {
            comment,
            edited_args: None,
            digest: None,
        }
    }
}

/// The completion of a handoff by a user (S0-T3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// Notes; bounded.
    #[serde(default)]
    pub notes: String,
    #[serde(default)]
    pub outcome_type: OutcomeType,
    /// The run's way to go on.
    pub disposition: Disposition,
}

/// The result of a handoff (S0-T3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum OutcomeType {
    #[default]
    Resolved,
    /// Others deal with it.
    Escalated,
    /// There was nothing to do.
    NoActionNeeded,
}

/// How a run goes on after its handoff is completed (S0-T3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    Finish,
    /// The remaining steps run; the agent is notified what the person did.
    ReturnToAgent,
}

/// A person acts on a request without deciding it. Needs a signed assertion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActOnRequest {
    pub id: HoldId,
    pub action: RequestAction,
    /// The version of the request that the person has seen, if it matters to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// An action of a user on a request, other than a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RequestAction {
    /// "Mine": the person becomes the assignee.
    Accept,
    /// The person becomes the owner of the run (handoffs): its timer stops, its other live steps are
    /// revoked, the agent is fenced off.
    TakeOver,
    /// Another user becomes the assignee.
    Reassign {
        /// `@user.<name>` or `@role.<name>`.
        to: String,
    },
    /// Another user may decide it too; the assignee stays.
    Delegate {
        /// `@user.<name>` or `@role.<name>`.
        to: String,
    },
    /// "Seen": the ladder is quiet for a while, and begins again if nothing is done.
    Acknowledge,
    /// It leaves the user's list for some time. If no other user has it, the ladder waits.
    Snooze {
        /// For how long, in milliseconds: 1 minute to 30 days, never beyond the deadline.
        for_ms: u64,
    },
}

/// The reply to a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Whether the decision is stored and final.
    pub recorded: bool,
    /// Its effect on the run.
    pub effect: Effect,
    /// The current request.
    pub request: RequestView,
}

impl Decided {
    /// Whether the run has not replied to the decision yet. A vote that does not decide has no effect to wait for.
    #[must_use]
    pub fn awaits_effect(&self) -> bool {
        self.effect == Effect::Pending && !self.request.status.is_open()
    }
}

/// The effect of a stored decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Effect {
    /// The run went on with it (or the hold is standalone).
    Applied,
    /// The run is paused.
    OnResume,
    RunEnded,
    /// The executor has not said yet.
    Pending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum RequestStatus {
    Open,
    /// A handoff that no user has taken.
    Offered,
    /// A handoff that its assignee accepted.
    Accepted,
    /// A handoff whose run a person owns now.
    TakenOver,
    /// A handoff that was reassigned and not accepted yet.
    Reassigned,
    Decided,
    /// A handoff is done.
    Completed,
    /// The deadline passed.
    Expired,
    Withdrawn,
}

impl RequestStatus {
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
}

/// One request as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestView {
    pub id: HoldId,
    /// `approval`, `input`, `handoff`, `timer`.
    pub kind: HoldKind,
    /// None for a standalone hold.
    pub run: Option<RunId>,
    pub step: Option<String>,
    pub agent: Option<AgentName>,
    pub status: RequestStatus,
    /// Rises with every change.
    pub version: u64,
    /// The recipients, as the requester named them; empty: the workspace's owners.
    pub to: Vec<String>,
    /// For people.
    pub question: String,
    pub options: Vec<String>,
    /// Why it is asked, where the plan did not: `uncertain`.
    pub reason: Option<String>,
    pub context: Value,
    /// None while frozen, or without a deadline.
    #[serde(default, with = "crate::instant::option")]
    pub deadline: Option<DateTime<Utc>>,
    /// The remaining time while a pause has stopped the clock, in milliseconds.
    pub remaining_ms: Option<u64>,
    /// The effect of the timeout.
    pub on_timeout: OnTimeout,
    /// The actions that its state allows: `respond approve reject complete accept take_over reassign delegate
    /// acknowledge snooze withdraw`. The caller's rights are checked when an action is done.
    pub actions: Vec<String>,
    pub outcome: Option<HoldOutcome>,
    /// The answer, the comment or the reason.
    pub response: Option<Value>,
    pub decided_by: Option<String>,
    #[serde(default, with = "crate::instant::option")]
    pub decided_at: Option<DateTime<Utc>>,
    /// The effect of its end on the run, as the executor reports it. None while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// When the deadline passed with [`OnTimeout::Escalate`]: an
    /// answer still counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::instant::option")]
    pub escalated_at: Option<DateTime<Utc>>,
    /// Answers that came too late; kept and shown.
    pub late: Vec<LateAnswer>,
    /// When it was opened.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// Headline (S0-R2).
    pub title: Option<String>,
    /// The assignee's name; none: any recipient.
    pub assignee: Option<String>,
    #[serde(default)]
    pub priority: Priority,
    /// The form of an answer.
    pub schema: Option<Value>,
    /// Where a user enters a secret; the options are `done` and `declined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The to-do that it shows.
    pub task: Option<Task>,
    /// A contact that is interested.
    #[serde(default)]
    pub warm_lead: bool,
    /// Votes so far, where more than one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<Votes>,
    /// Its history in order; bounded.
    #[serde(default)]
    pub history: Vec<RequestHistoryEntry>,
    /// Further users who may decide it: it was delegated to them, or a rung broadened it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The answer that counts when the deadline passes, with
    /// [`OnTimeout::Default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Until when it is snoozed, by its only assignee; in API responses, by the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::instant::option")]
    pub snoozed_until: Option<DateTime<Utc>>,
    /// The users who have snoozed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snoozed_by: Vec<Snooze>,
    /// The version since which nothing visible has changed, if that is older than `version`. A caller who has seen it
    /// or a later one may still decide.
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
    /// The gated calls that it decides: their arguments and digests (S2-R3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ApprovalItem>,
    /// What is doubtful in the plan that it asks about, in API responses with one request. None: the plan was not
    /// checked, or it asks about no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<FieldError>>,
    /// The names of the user who started the run or opened the hold, and of the requester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_by: Vec<String>,
    /// Whether answers and contact data are left out for this reader.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// When the contact of its run was erased. Then only the record of its decision is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::instant::option")]
    pub erased_at: Option<DateTime<Utc>>,
}

/// One user's snooze of a request.
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
    pub need: u32,
}

/// One action on a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHistoryEntry {
    /// `opened accepted taken_over reassigned delegated acknowledged snoozed approved rejected answered
    /// completed expired withdrawn escalated`.
    pub action: String,
    /// Name of the user, or `service:<name>`.
    pub by: String,
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
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    pub data: Value,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    pub id: HoldId,
}

/// Core message, one a batch and workspace: these requests have changed (S0-R3). It may be lost; readers also
/// refresh from time to time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestNudge {
    /// Requests, each with its newest version.
    pub requests: BTreeMap<HoldId, u64>,
}
