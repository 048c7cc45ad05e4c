//! What the outside sees of runs and their steps.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, HoldId, NodeName, RunId, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a run stands (`run.status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted; nothing was dispatched yet.
    Queued,
    /// At least one step is with a worker or on its way there.
    Running,
    /// Everything that is left waits for time, a signal, a handoff or a child.
    Waiting,
    /// Stands at a risky step.
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
    /// Every status, in the order of the API page.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::AwaitingApproval,
        Self::AwaitingInput,
        Self::PausedForIntervention,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word in bodies, rows and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::AwaitingApproval => "awaiting_approval",
            Self::AwaitingInput => "awaiting_input",
            Self::PausedForIntervention => "paused_for_intervention",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing can happen to the run any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl std::fmt::Display for RunStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for RunStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|status| status.as_str()).collect();
                format!(
                    "`{text}` is no status of a run; known are {}",
                    known.join(", ")
                )
            })
    }
}

/// Where a step stands (`step.status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Its turn has not come.
    Planned,
    /// Waits for an approval.
    WaitingConfirm,
    /// Handed out; no worker has started it yet as far as is known.
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
    /// Done.
    Completed,
    /// Did not succeed.
    Failed,
    /// Its condition did not hold, or it was rejected.
    Skipped,
    /// The run ended first.
    Cancelled,
}

impl StepStatus {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::WaitingConfirm => "waiting_confirm",
            Self::Queued => "queued",
            Self::Claimed => "claimed",
            Self::InProgress => "in_progress",
            Self::Waiting => "waiting",
            Self::Stale => "stale",
            Self::Uncertain => "uncertain",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for StepStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whose doing a failed or cancelled run is; success rates count `agent` only (S0-NFR).
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
    /// A user cancelled it.
    Cancelled,
}

/// Why a run failed or was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class of the failure.
    pub class: FailureClass,
    /// Stable, snake case.
    pub code: String,
    /// For people.
    pub message: String,
}

/// What every action returns (S0-R5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionResult {
    /// Whether the tool did what it was asked.
    pub success: bool,
    /// One sentence for people.
    pub description: String,
    /// Sanitised: no secret, path, SQL or stack.
    #[serde(default)]
    pub error: Option<String>,
    /// What the tool returned.
    #[serde(default)]
    pub data: Value,
    /// How long the tool took, in milliseconds.
    pub duration_ms: u64,
}

/// What kind of thing makes a run wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldKind {
    /// Time.
    Timer,
    /// A person says yes or no.
    Approval,
    /// A person answers a question.
    Input,
    /// A person takes over for a while.
    Handoff,
}

impl HoldKind {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Approval => "approval",
            Self::Input => "input",
            Self::Handoff => "handoff",
        }
    }
}

impl std::fmt::Display for HoldKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One hold that keeps a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingOn {
    /// Also the request's id where a person is asked.
    pub id: HoldId,
    /// The kind of the hold.
    pub kind: HoldKind,
    /// The step that waits; empty: the run as a whole.
    pub step: String,
    /// Whom: `@user.<name>` or `@role.<name>`; empty: the workspace's owners, or no user.
    #[serde(rename = "for", default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// Since this instant.
    #[serde(with = "crate::instant")]
    pub since: DateTime<Utc>,
    /// Until when; none while the clock is stopped by a pause.
    #[serde(default, with = "crate::instant::option")]
    pub until: Option<DateTime<Utc>>,
    /// What is left of the wait, in milliseconds, while a pause has stopped the clock.
    pub remaining_ms: Option<u64>,
    /// Effect of the timeout.
    pub then: String,
}

/// What a pause was put on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseScope {
    /// This run alone.
    Run,
    /// All runs of its agent.
    Agent,
    /// Everything in the workspace.
    Workspace,
}

/// One pause; a run moves only when none is left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PausedBy {
    /// What it was put on.
    pub scope: PauseScope,
    /// Who did it.
    pub by: String,
    /// When; clocks stand since then.
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

/// One step as the API shows it (S2-R15).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    /// The same in plan, log, event and row (S2-R1).
    pub id: String,
    /// `tool`, `wait`, `ask` or `handoff`.
    pub kind: String,
    /// The status.
    pub status: StepStatus,
    /// The tool.
    pub tool: Option<ToolName>,
    /// One line for people: what this step does.
    pub action: String,
    /// The arguments as they were resolved.
    pub request: Option<Value>,
    /// What came back.
    pub response: Option<ActionResult>,
    /// Stable code of a failure.
    pub error_code: Option<String>,
    /// The error as the tool said it, at most 8,000 characters. Only operators see it: it may hold
    /// secrets, paths, SQL or a stack (S0-R5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_error: Option<String>,
    /// Number of the current dispatch; only ever rises.
    pub dispatch: u64,
    /// Tries of the tool.
    pub attempts: u32,
    /// The worker that was granted the start.
    pub claimed_by: Option<NodeName>,
    /// When it was granted.
    #[serde(default, with = "crate::instant::option")]
    pub claimed_at: Option<DateTime<Utc>>,
    /// Whether it ran inside the executor (S2-R7).
    #[serde(default)]
    pub inline: bool,
    /// Claims, takeovers and releases, in order; appended and never rewritten (S4-R7).
    #[serde(default)]
    pub handoff_history: Vec<LeaseEvent>,
    /// When it began: started, or began to wait.
    #[serde(default, with = "crate::instant::option")]
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    #[serde(default, with = "crate::instant::option")]
    pub ended_at: Option<DateTime<Utc>>,
}

/// One change of who has a step (S4-R7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEvent {
    /// What happened.
    pub action: LeaseAction,
    /// The node that it concerns.
    pub node: NodeName,
    /// The instant.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// Number of the dispatch.
    pub dispatch: u64,
}

/// How a step changed hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseAction {
    /// A node was granted it.
    Claimed,
    /// A node was granted it after another one had lost it.
    TakenOver,
    /// Its node went silent, or left, without a result.
    Released,
}

impl LeaseAction {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::TakenOver => "taken_over",
            Self::Released => "released",
        }
    }
}

/// One run as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// Its id.
    pub id: RunId,
    /// The agent.
    pub agent: AgentName,
    /// Which version of it.
    pub version: u32,
    /// Where it stands; a pause leaves it as it is.
    pub status: RunStatus,
    /// When the run goes on by itself; none while paused.
    #[serde(default, with = "crate::instant::option")]
    pub resume_at: Option<DateTime<Utc>>,
    /// One sentence: what is going on.
    pub message: String,
    /// The contact that the run is about.
    pub contact: Option<ContactId>,
    /// Labels given at the start.
    pub labels: BTreeMap<String, String>,
    /// The holds that it waits for.
    pub waiting_on: Vec<WaitingOn>,
    /// The pauses of the run.
    pub paused_by: Vec<PausedBy>,
    /// What people are to answer, in short (S2-R12); the inbox has all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The person who owns the run: nothing of the agent starts until they hand it back (S0-AC7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over_by: Option<String>,
    /// Since this instant.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "crate::instant::option"
    )]
    pub taken_over_at: Option<DateTime<Utc>>,
    /// What the run was started with; only in the view of a single run. An input that is too large to
    /// show is `{"omitted": true, "bytes": N}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// In the order of the plan; only in the view of a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
    /// `{summary}` once completed.
    pub result: Option<Value>,
    /// Why it failed or was cancelled.
    pub failure: Option<Failure>,
    /// Its time by activity.
    pub clocks: Clocks,
    /// When it was accepted.
    #[serde(with = "crate::instant")]
    pub created_at: DateTime<Utc>,
    /// When it ended.
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
    /// The run as it now stands.
    #[serde(flatten)]
    pub run: RunView,
    /// False: it was so already.
    pub changed: bool,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// At most `limit` of them.
    pub items: Vec<T>,
    /// Ask with it for the next page; none at the end.
    pub next_cursor: Option<String>,
}
