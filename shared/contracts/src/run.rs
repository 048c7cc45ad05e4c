//! Runs and steps as the API shows them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, HoldId, NodeName, RunId, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantArray};

mod child_runs;
mod next_end;

use crate::tool::Risk;

pub use crate::page::Page;
pub use child_runs::{ChildRunView, ParentRunView};
pub use next_end::NextEnd;

words!(RunStatus, StepStatus, HoldKind, LeaseAction);
all_variants!(RunStatus);

/// The status of a run (`run.status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
#[strum(parse_err_ty = String, parse_err_fn = unknown_status)]
pub enum RunStatus {
    /// Accepted; nothing was dispatched yet.
    Queued,
    /// At least one step is with a worker or on its way there.
    Running,
    /// Everything that is left waits for time, a signal, a handoff or a child.
    Waiting,
    /// It waits at a risky step.
    AwaitingApproval,
    /// It waits for an answer.
    AwaitingInput,
    /// Suspended with a snapshot.
    PausedForIntervention,
    /// All steps ended.
    Completed,
    /// A step failed for good, or the run could not go on.
    Failed,
    /// A user ended it.
    Cancelled,
}

impl RunStatus {
    /// Whether the run has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

fn unknown_status(text: &str) -> String {
    let known = RunStatus::ALL.map(RunStatus::as_str).join(", ");
    format!("invalid run status `{text}`; expected one of {known}")
}

/// The status of a step (`step.status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::Display, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum StepStatus {
    /// Its turn has not come.
    Planned,
    WaitingConfirm,
    /// Dispatched; no worker is known to have started it.
    Queued,
    /// Reserved by a worker.
    Claimed,
    /// A worker was granted to start it.
    InProgress,
    /// A hold keeps it.
    Waiting,
    /// Its worker sends no heartbeats.
    Stale,
    /// Its worker may or may not have done it; a person decides.
    Uncertain,
    Completed,
    Failed,
    /// Its condition did not hold, or it was rejected.
    Skipped,
    /// The run ended first.
    Cancelled,
}

/// The cause of a failed or cancelled run; success rates count `agent` only (S0-NFR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The agent's plan or one of its tools.
    Agent,
    /// No answer came before the deadline.
    HumanTimeout,
    /// A rule or a person said no.
    Policy,
    /// The system or something it needs.
    Infra,
    Cancelled,
}

/// Why a run failed or was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: FailureClass,
    /// Stable, snake case.
    pub code: String,
    /// For people.
    pub message: String,
}

/// The result of every action (S0-R5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionResult {
    /// Whether the tool did what it was asked.
    pub success: bool,
    /// One sentence for people.
    pub description: String,
    /// Sanitised: no secret, path, SQL or stack.
    pub error: Option<String>,
    /// The tool's return value.
    #[serde(default)]
    pub data: Value,
    /// How long the tool took, in milliseconds.
    pub duration_ms: u64,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum HoldKind {
    Timer,
    /// A person says yes or no.
    Approval,
    /// A person answers a question.
    Input,
    /// A person takes over for a while.
    Handoff,
    /// A program or a user sends the named signal. Only runs have it.
    Signal,
    /// Other runs end, which a step of the run has started. Only runs have it.
    ChildRun,
}

/// One hold that keeps a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingOn {
    /// Also the request's id where a person is asked.
    pub id: HoldId,
    pub kind: HoldKind,
    /// The step that waits; empty: the run as a whole.
    pub step: String,
    /// Recipients: `@user.<name>` or `@role.<name>`; empty: the workspace's owners, or no user.
    #[serde(rename = "for", default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    #[serde(with = "crate::instant")]
    pub since: DateTime<Utc>,
    /// Until when; none while the clock is stopped by a pause.
    #[serde(default, with = "crate::instant::option")]
    pub until: Option<DateTime<Utc>>,
    /// The remaining time in milliseconds, while a pause has stopped the clock.
    pub remaining_ms: Option<u64>,
    /// Effect of the timeout.
    pub then: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseScope {
    /// This run alone.
    Run,
    Agent,
    /// Everything in the workspace.
    Workspace,
    /// The run whose step has started this one.
    Parent,
}

/// One pause; a run moves only when none is left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PausedBy {
    pub scope: PauseScope,
    pub by: String,
    /// The instant at which the clocks stopped.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// Steps that were with a worker at that time; they finish and are kept.
    pub in_flight: Vec<String>,
}

/// How a resumed wait goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeMode {
    /// With the time that was left when it was paused.
    #[default]
    Continue,
    /// At the due time it had before, or at once if that has passed.
    KeepDeadline,
    /// From the start: the whole wait again.
    Restart,
    /// The wait ends now.
    Now,
}

/// Three clocks of a run, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// Steps at work.
    pub active_ms: u64,
    /// Steps dispatched and not yet started.
    pub queued_ms: u64,
    /// Waiting for people.
    pub human_ms: u64,
}

/// What a run has used of its budget since its start, or since a person granted the budget again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Calls of tools.
    pub steps: u32,
    /// Time from then on, in milliseconds.
    pub wall_time_ms: u64,
    /// Time of tools, in milliseconds.
    pub active_time_ms: u64,
    /// As tools report it.
    pub cost: f64,
}

/// One step as the API shows it (S2-R15).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    /// The same in plan, log, event and row (S2-R1).
    pub id: String,
    /// `tool`, `wait`, `wait_for`, `ask`, `handoff`, `run` or `finish`.
    pub kind: String,
    pub status: StepStatus,
    pub tool: Option<ToolName>,
    /// The risk of the tool at the newest call (S2-R15); before that, its present risk. None: the step calls no tool, or
    /// nothing is registered for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// The system that the tool called: the host of an HTTP tool, or the name of the tool before its first dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Names of the secrets in the definition of the tool, separated by commas (S2-R15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
    /// One line for people: what this step does.
    pub action: String,
    /// The arguments as they were resolved.
    pub request: Option<Value>,
    pub response: Option<ActionResult>,
    /// Stable code of a failure.
    pub error_code: Option<String>,
    /// The error as the tool said it, at most 8,000 characters. Only operators see it: it may hold
    /// secrets, paths, SQL or a stack (S0-R5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_error: Option<String>,
    /// Failed attempts of the tool, oldest first; the newest 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_attempts: Vec<FailedAttempt>,
    /// Number of the current dispatch; only ever rises.
    pub dispatch: u64,
    pub attempts: u32,
    /// The worker that was granted the start.
    pub claimed_by: Option<NodeName>,
    /// When it was granted.
    #[serde(default, with = "crate::instant::option")]
    pub claimed_at: Option<DateTime<Utc>>,
    /// Whether it ran inside the executor (S2-R7).
    #[serde(default)]
    pub inline: bool,
    /// Whether it runs only with an approval (S2-R2).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting_confirm: bool,
    /// The call of a gated step that has not been reached, if all its arguments are literal: people may approve it early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_call: Option<EarlyCall>,
    /// The approval, once it has been asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_state: Option<ApprovalView>,
    /// Claims, takeovers and releases, in order; appended and never rewritten (S4-R7).
    #[serde(default)]
    pub handoff_history: Vec<LeaseEvent>,
    /// The number of its item, of a child of a step with `for_each`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The progress of a step with `for_each`, once it has begun. Its children follow it in the list of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<StepItems>,
    /// The runs that a step with `run` has started, in the order of the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_runs: Vec<ChildRunView>,
    /// When it began: started, or began to wait.
    #[serde(default, with = "crate::instant::option")]
    pub started_at: Option<DateTime<Utc>>,
    #[serde(default, with = "crate::instant::option")]
    pub ended_at: Option<DateTime<Utc>>,
}

/// A call that people may approve before its step is reached (S2-R4).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlyCall {
    /// Version and revision of a registered tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub args: Value,
    /// SHA-256, as hex, of the RFC 8785 form of `{tool, version, args}`.
    pub digest: String,
}

/// How many items of a step with `for_each` have which status (S2-R9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepItems {
    pub total: u32,
    pub completed: u32,
    pub failed: u32,
    /// Rejected by an approver.
    pub skipped: u32,
    /// Begun and not ended.
    pub in_progress: u32,
}

/// The approval of a gated step (S2-R3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalView {
    pub state: ApprovalState,
    /// The user who decided.
    pub by: Option<String>,
    #[serde(default, with = "crate::instant::option")]
    pub at: Option<DateTime<Utc>>,
    /// The comment, or the reason of a rejection.
    pub comment: Option<String>,
    /// The requested arguments, where the approver gave others.
    pub original_args: Option<Value>,
    /// SHA-256 of the requested call: tool, version and arguments.
    pub digest: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    Requested,
    Approved,
    Rejected,
    /// A person sent the arguments back. The step asks again with new ones.
    Revised,
}

/// Largest data of a failed call that is kept, in bytes of JSON. Of larger data the size is kept.
pub const FAILED_DATA_BYTES_MAX: usize = 4 * 1024;

/// An attempt of a tool that its worker reported as failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// From 1, as the tool was told.
    pub attempt: u32,
    pub dispatch: u64,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// Stable code of the failure.
    pub error_code: String,
    /// Data of more than 4 KiB is `{"omitted": true, "bytes": N}`.
    pub response: ActionResult,
}

/// One change of who has a step (S4-R7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEvent {
    pub action: LeaseAction,
    pub node: NodeName,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    pub dispatch: u64,
}

/// How a step changed hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum LeaseAction {
    /// A node was granted it.
    Claimed,
    /// A node was granted it after another one had lost it.
    TakenOver,
    /// Its node went silent, or left, without a result.
    Released,
}

/// One run as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    pub id: RunId,
    pub agent: AgentName,
    pub version: u32,
    /// A pause does not change it.
    pub status: RunStatus,
    /// When the run goes on by itself; none while paused.
    #[serde(default, with = "crate::instant::option")]
    pub resume_at: Option<DateTime<Utc>>,
    /// One sentence: what is going on.
    pub message: String,
    pub contact: Option<ContactId>,
    /// The step that has started it, if it is a child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentRunView>,
    pub labels: BTreeMap<String, String>,
    pub waiting_on: Vec<WaitingOn>,
    pub paused_by: Vec<PausedBy>,
    /// When it was suspended, while it is (S1-R1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::instant::option")]
    pub paused_at: Option<DateTime<Utc>>,
    /// Why it was suspended, while it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// Short forms of the open questions (S2-R12); the inbox has the details.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The person who owns the run: nothing of the agent starts until they hand it back (S0-AC7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::instant::option")]
    pub taken_over_at: Option<DateTime<Utc>>,
    /// The input at the start; only in the view of a single run. A large one is `{"omitted": true, "bytes": N}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// In the order of the plan; only in the view of a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
    /// `{summary}` once completed; with `output` if its `finish` has one, in the view of a single run.
    pub result: Option<Value>,
    /// Why it failed or was cancelled.
    pub failure: Option<Failure>,
    pub clocks: Clocks,
    /// What it has used of its budget, if its agent has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// When it was accepted.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    #[serde(default, with = "crate::instant::option")]
    pub ended_at: Option<DateTime<Utc>>,
}

/// One question that a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Also the request's id.
    pub id: HoldId,
    /// For people.
    pub question: String,
    /// The form of an answer; none: any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A run after a command, and whether the command changed anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedRun {
    #[serde(flatten)]
    pub run: RunView,
    /// False: it had this state already.
    pub changed: bool,
}

/// The run of a start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartedRun {
    #[serde(flatten)]
    pub run: RunView,
    /// False: its agent starts once for such a start, and this is the run of the first one.
    #[serde(default = "is_new", skip_serializing_if = "Clone::clone")]
    pub changed: bool,
}

/// An older executor does not say it.
const fn is_new() -> bool {
    true
}
