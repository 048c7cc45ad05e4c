//! Commands and queries of the executor.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, HoldId, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{AgentStats, AgentView, GetAgentStats, PlannedStepView};
use crate::asking::{RequestInput, RequestedInput};
use crate::contact::{Activity, ContactView};
use crate::erasure::{EraseContact, ErasureView, GetErasure};
use crate::history::HistoryItem;
use crate::hold::{CloseReply, HandoffUpdate, HandoffUpdateReply, HoldClosed};
use crate::message::Reply;
use crate::operation::{
    CancelOperation, GetOperation, ListOperationResults, ListOperations, OperationView,
    PlanOperation, PlannedOperation, RunResultView, StartOperation,
};
use crate::problem::FieldError;
use crate::rehearsal::{Rehearsal, RehearseAgent};
use crate::run::{ChangedRun, HoldKind, Page, PausedBy, ResumeMode, RunStatus, RunView};
use crate::steps::{
    ClaimView, Deregister, Grant, Heartbeat, HeartbeatReply, NodeView, ResultReply, StartSteps,
    StepResults,
};
use crate::suspension::{
    BlobChunk, BlobView, ContinueStep, ContinuedStep, EndedRuns, GetBlob, GetSnapshot, GetStepBlob,
    PutBlob, SnapshotView, StepOnResume, SuspendRun, SuspendSteps,
};
use crate::tool::{RegisterTools, RegisteredTool, ToolView};

mod child_runs;
mod contact_commands;
mod library;
mod mail_thread;
mod migrate_run;
mod patch_context;
mod pauses;
mod scheduled_starts;
mod search_contacts;
mod signal_run;
mod tools;
mod watch_run_ends;

pub use child_runs::{
    ChildRunEnd, ChildRunEndReply, ChildRunStart, ChildRunState, ChildRunsEnded, DesiredChildRun,
    RemainingBudget, SetChildRuns,
};
pub use contact_commands::{AddActivity, DeleteContact, ListActivities, PatchContact, PutContact};
pub use library::{
    DeleteLibraryEntry, GetLibraryEntry, LibraryEntryView, LibraryKind, ListLibrary,
    PutLibraryEntry,
};
pub use mail_thread::{GetMailThread, MailThread};
pub use migrate_run::MigrateRun;
pub use patch_context::PatchContext;
pub use pauses::{PauseNew, PauseWaiting};
pub use scheduled_starts::{ScheduledStart, ScheduledStartReply, StartScheduled};
pub use search_contacts::{FOUND_MAX, SearchContacts};
pub use signal_run::SignalRun;
pub use tools::{DeleteTool, GetTool, ListTools, PutTool};
pub use watch_run_ends::{RunEndWatched, RunEndsOf, WatchRunEnds};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "executor";

commands! {
    ApplyAgent:      "apply_agent"(agent)              -> AppliedAgent;
    DeleteAgent:     "delete_agent"(agent)             -> ChangedScope;
    PauseScope:      "pause_scope"(scope agent)        -> ChangedScope;
    ResumeScope:     "resume_scope"(scope agent)       -> ChangedScope;
    PutContact:      "put_contact"(contact)            -> ContactView;
    PatchContact:    "patch_contact"(contact)          -> ContactView;
    DeleteContact:   "delete_contact"(contact)         -> ();
    EraseContact:    "erase_contact"(contact)          -> ErasureView;
    AddActivity:     "add_activity"(contact)           -> ContactView;
    PutTool:         "put_tool"(tool.name)             -> ToolView;
    DeleteTool:      "delete_tool"(name)               -> ();
    PutLibraryEntry: "put_library_entry"(= "library")  -> LibraryEntryView;
    DeleteLibraryEntry: "delete_library_entry"(= "library") -> ();
    RegisterTools:   "register_tools"(node)            -> Vec<Reply<RegisteredTool>>;
    StartRun:        "start_run"(run)                  -> crate::run::StartedRun;
    StartScheduled:  "start_scheduled"(starts[0].run)  -> Vec<Reply<ScheduledStartReply>>;
    SetChildRuns:    "set_child_runs"(children[0].run) -> Vec<Reply<()>>;
    ChildRunsEnded:  "child_runs_ended"(ends[0].id)    -> Vec<Reply<ChildRunEndReply>>;
    PauseRun:        "pause_run"(run)                  -> ChangedRun;
    ResumeRun:       "resume_run"(run)                 -> ChangedRun;
    CancelRun:       "cancel_run"(run)                 -> ChangedRun;
    RetryRun:        "retry_run"(run)                  -> ChangedRun;
    MigrateRun:      "migrate_run"(run)                -> ChangedRun;
    PatchContext:    "patch_context"(run)              -> ChangedRun;
    SignalRun:       "signal_run"(run)                 -> ChangedRun;
    SuspendRun:      "suspend_run"(run)                -> ChangedRun;
    TakeOverRun:     "take_over_run"(run)              -> ChangedRun;
    StartOperation:  "start_operation"(id)             -> OperationView;
    CancelOperation: "cancel_operation"(id)            -> OperationView;
    WatchRunEnds:    "watch_run_ends"(of[0])           -> Vec<Reply<RunEndWatched>>;
    HoldsClosed:     "holds_closed"(closed[0].id)      -> Vec<Reply<CloseReply>>;
    HandoffsUpdated: "handoffs_updated"(handled[0].id) -> Vec<Reply<HandoffUpdateReply>>;
    TimersFired:     "timers_fired"(fired[0].id)       -> Vec<Reply<TimerReply>>;
    StartSteps:      "start_steps"(steps[0].run)       -> Vec<Reply<Grant>>;
    StepResults:     "step_results"(results[0].run)    -> Vec<Reply<ResultReply>>;
    SuspendSteps:    "suspend_steps"(steps[0].run)     -> Vec<Reply<ResultReply>>;
    ContinueStep:    "continue_step"(run)              -> ContinuedStep;
    PutBlob:         "put_blob"(run)                   -> BlobView;
    Heartbeat:       "heartbeat"(node)                 -> HeartbeatReply;
    Deregister:      "deregister"(node)                -> ();
    RequestInput:    "request_input"(run)              -> RequestedInput;
}

queries! {
    PlanAgent:      "plan_agent" -> PlannedAgent;
    CheckEditedPlan: "check_edited_plan" -> Option<PlannedAgent>;
    RehearseAgent:  "rehearse_agent" -> Rehearsal;
    GetAgent:       "agent"      -> AgentView;
    GetAgentStats:  "agent_stats" -> AgentStats;
    ListAgents:     "agents"     -> Page<AgentView>;
    GetContact:     "contact"    -> ContactView;
    ListContacts:   "contacts"   -> Page<ContactView>;
    SearchContacts: "search_contacts" -> Page<ContactView>;
    GetMailThread:  "mail_thread" -> MailThread;
    GetErasure:     "erasure"    -> ErasureView;
    ListActivities: "activities" -> Page<Activity>;
    ListTools:      "tools"      -> Page<ToolView>;
    GetTool:        "tool"       -> ToolView;
    GetLibraryEntry: "library_entry" -> LibraryEntryView;
    ListLibrary:    "library"    -> Page<LibraryEntryView>;
    GetRun:         "run"        -> RunView;
    ListRuns:       "runs"       -> Page<RunView>;
    GetSnapshot:    "snapshot"   -> Option<SnapshotView>;
    GetBlob:        "blob"       -> BlobChunk;
    GetStepBlob:    "step_blob"  -> BlobChunk;
    PlanOperation:  "plan_operation" -> PlannedOperation;
    GetOperation:   "operation"  -> OperationView;
    ListOperations: "operations" -> Page<OperationView>;
    ListOperationResults: "operation_results" -> Page<RunResultView>;
    EndedRuns:      "ended_runs" -> Vec<RunId>;
    GetHistory:     "history"    -> HistoryPage;
    ListNodes:      "nodes"      -> Page<NodeView>;
    ListClaims:     "claims"     -> Page<ClaimView>;
}

/// Creates an agent, or a new version of it if its text has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyAgent {
    /// The name in the text; decides the partition.
    pub agent: AgentName,
    /// YAML or JSON.
    pub text: String,
}

/// The agent, and whether it has changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliedAgent {
    #[serde(flatten)]
    pub agent: AgentView,
    /// False: the newest version has the same content.
    pub changed: bool,
}

/// Starts a run of the newest version of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// Made by the caller, so that a repetition starts nothing.
    pub run: RunId,
    pub agent: AgentName,
    /// `$input` in the steps.
    #[serde(default)]
    pub input: Value,
    /// The contact that it is about; it must exist.
    pub contact: Option<ContactId>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Freezes a run: its clocks stop, nothing new starts (S0-AC4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRun {
    pub run: RunId,
    /// Whether a run that waits is held or cancelled.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub waiting: PauseWaiting,
}

/// Resumes a paused or suspended run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeRun {
    pub run: RunId,
    /// The effect on its waits.
    #[serde(default)]
    pub mode: ResumeMode,
    /// The effect on steps that were in progress when the run was suspended; none: they start again, unless that may
    /// do harm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepOnResume>,
}

/// Ends a run; none of its steps starts any more (S2-R13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CancelRun {
    pub run: RunId,
    /// Reason in one sentence.
    pub reason: Option<String>,
}

/// Continues a failed run. Its failed and cancelled steps run again; completed results and answers of people are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryRun {
    pub run: RunId,
    /// This step and the steps that depend on it run again too.
    pub from_step: Option<String>,
}

/// An operator becomes the owner of a live run: its other live steps are revoked, the agent is fenced
/// off, and the user has a handoff until they complete it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeOverRun {
    pub run: RunId,
}

/// Freezes an agent, or the whole workspace: every waiting run of it, and every later one (S0-AC4, S0-T6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseScope {
    /// None: the whole workspace.
    pub agent: Option<AgentName>,
    /// The effect on waiting runs.
    #[serde(default)]
    pub waiting: PauseWaiting,
    /// The effect on runs that are started during the pause.
    #[serde(default)]
    pub new: PauseNew,
}

/// Lifts the pause of an agent or of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeScope {
    /// None: the whole workspace.
    pub agent: Option<AgentName>,
    /// The effect on the waits of its runs.
    #[serde(default)]
    pub mode: ResumeMode,
}

/// Deletes an agent: its open runs fail from that commit on (S0-AC9); its name is free again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteAgent {
    pub agent: AgentName,
}

/// A scope after a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedScope {
    /// None: the whole workspace.
    pub agent: Option<AgentName>,
    /// `active`, `paused` or `deleted`.
    pub status: String,
    /// The pause; it lists the steps in progress only if they are few.
    pub paused_by: Option<PausedBy>,
    /// False: it had this state already.
    pub changed: bool,
}

/// Holds that were closed; one message a batch of the handoff service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HoldsClosed {
    /// At least one.
    pub closed: Vec<HoldClosed>,
}

/// Actions on open handoffs, for the histories of their runs; one message a batch of the
/// handoff service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffsUpdated {
    /// At least one.
    pub handled: Vec<HandoffUpdate>,
}

/// Timers that have fired; one message a batch of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimersFired {
    /// At least one.
    pub fired: Vec<TimerFired>,
}

/// One timer that has come due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerFired {
    /// The owner's id for it: a hold's id, or `node_` and a node's name.
    pub id: String,
    /// As it was set; an older one is dropped and counted.
    pub rev: u64,
    #[serde(with = "crate::instant")]
    pub due: DateTime<Utc>,
}

/// The reply to a fired timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerReply {
    /// The hold ended.
    Applied,
    /// The hold had ended, moved or was frozen already.
    Stale,
}

/// Compiles an agent's text without storing it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanAgent {
    /// YAML or JSON.
    pub text: String,
}

/// A compiled agent that was not stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedAgent {
    pub agent: AgentName,
    pub steps: Vec<PlannedStepView>,
    /// Allowed and probably not intended, such as a tool that no node offers.
    #[serde(default)]
    pub warnings: Vec<FieldError>,
}

/// Compiles the steps of a plan that a request asks about, which a person may have edited. The reply has them with their
/// warnings. It has nothing if the request asks about no plan, or the plan has started. A plan that is not valid is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckEditedPlan {
    pub request: HoldId,
    /// `{"steps": [...]}`
    pub args: Value,
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetAgent {
    pub agent: AgentName,
}

/// Agents by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListAgents {
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
}

/// One contact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetContact {
    pub contact: ContactId,
}

/// Contacts by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListContacts {
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
    /// Only with this mail address, in capitals or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Only those to whom a run sent a mail with one of these Message-IDs, without angle brackets. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub message_ids: Vec<String>,
}

/// One run with its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRun {
    pub run: RunId,
    /// Whether it contains the tools' raw error texts, too: for operators only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw_errors: bool,
}

impl GetRun {
    /// The run without raw errors.
    #[must_use]
    pub const fn of(run: RunId) -> Self {
        Self {
            run,
            raw_errors: false,
        }
    }
}

/// Nodes that work for this workspace, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListNodes {}

/// Current leases, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListClaims {
    /// 1 to 500.
    pub limit: u64,
}

/// Runs, newest first, without their steps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRuns {
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
    pub status: Option<RunStatus>,
    pub agent: Option<AgentName>,
    /// Only with this label, `name=value`.
    pub label: Option<String>,
    #[serde(default, with = "crate::instant::option")]
    pub created_after: Option<DateTime<Utc>>,
    /// Only those that wait on a hold of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldKind>,
}

/// History of a run from a number on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetHistory {
    pub run: RunId,
    /// Items with a greater number; 0 is the beginning.
    pub after: u64,
    /// 1 to 500.
    pub limit: u64,
}

/// A part of a run's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPage {
    /// In order of `seq`.
    pub items: Vec<HistoryItem>,
    /// Number of the newest item there is.
    pub last_seq: u64,
    /// Whether the run has ended, so that nothing more will come.
    pub run_final: bool,
}
