//! What a decision asks the shell to store or send, and what it tells the caller.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{AppliedAgent, ChangedScope, TimerAnswer};
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::run::{ActionResult, ChangedRun, ContactView, RunView, StepStatus};
use holdpoint_contracts::steps::{Grant, HandOut, ResultAnswer};
use holdpoint_ids::{AgentName, HoldId, NodeName, RunId, Workspace};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

use super::plan::Plan;

/// Something to store beside the state, to send, or both.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Store a new version of an agent's plan.
    AgentVersion {
        /// Whose.
        workspace: Workspace,
        /// Which agent.
        agent: AgentName,
        /// Which version.
        version: u32,
        /// Its plan.
        plan: Plan,
    },
    /// Store what a run was started with, or what a step returned.
    Value {
        /// Which run.
        run: RunId,
        /// Name of the value.
        name: String,
        /// The value.
        value: Arc<Value>,
    },
    /// Store where a step stands. Unset fields keep what the row has.
    Step(Box<StepRow>),
    /// Publish a hand-out to the step's queue.
    HandOut(Box<HandOut>),
    /// Tell the scheduler which alarm is wanted.
    Timer {
        /// Whose run.
        workspace: Workspace,
        /// Which hold.
        hold: HoldId,
        /// Version of the run that wants it.
        rev: u64,
        /// When; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// Append to a run's history; whoever watches is nudged.
    History {
        /// Whose run.
        workspace: Workspace,
        /// Which run.
        run: RunId,
        /// At least one, numbered.
        items: Vec<HistoryItem>,
    },
}

/// A step's row (S2-R15).
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    /// Which run.
    pub run: RunId,
    /// Which step.
    pub step: String,
    /// Where it stands.
    pub status: StepStatus,
    /// What it calls.
    pub tool: Option<String>,
    /// Arguments as resolved.
    pub request: Option<Value>,
    /// What came back.
    pub response: Option<ActionResult>,
    /// Code of a failure.
    pub error_code: Option<String>,
    /// The worker that was granted the start.
    pub claimed_by: Option<NodeName>,
    /// When.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Tries of the tool so far.
    pub attempts: u32,
    /// Number of the current hand-out.
    pub dispatch: u64,
}

/// What the caller is told after the commit.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// To applying an agent.
    Agent(AppliedAgent),
    /// To putting or patching a contact.
    Contact(ContactView),
    /// To starting a run.
    Run(Box<RunView>),
    /// To pause, resume, cancel.
    Changed(Box<ChangedRun>),
    /// To pausing, resuming and deleting many.
    Scope(Box<ChangedScope>),
    /// To a fired alarm.
    Timer(TimerAnswer),
    /// To a worker that asks to start.
    Grant(Grant),
    /// To a worker that reports.
    Result(ResultAnswer),
    /// Done, and there is nothing to say.
    Nothing(()),
}
