//! What a decision asks the shell to store or send, and what it tells the caller.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::asking::RequestedInput;
use holdpoint_contracts::contact::{Activity, ContactView};
use holdpoint_contracts::executor::{AppliedAgent, ChangedScope, RunEndWatched, TimerReply};
use holdpoint_contracts::handoff::UserChange;
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::hold::{CloseReply, DesiredHold, HandoffUpdateReply};
use holdpoint_contracts::notification::RunEnded;
use holdpoint_contracts::run::{ChangedRun, LeaseEvent, RunView};
use holdpoint_contracts::steps::{Grant, HeartbeatReply, ResultReply, StepDispatch, StepRef};
use holdpoint_contracts::tool::ToolView;
use holdpoint_ids::{AgentName, ContactId, HoldId, NodeName, RunId, Workspace};
use serde::Serialize;
use serde_json::Value;

use crate::domain::model::lease::Lease;
use crate::domain::model::plan::Plan;
use crate::domain::model::step_row::StepRow;

/// Something to store beside the state, to send, or both.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Store a new version of an agent's plan.
    AgentVersion {
        workspace: Workspace,
        agent: AgentName,
        version: u32,
        plan: Plan,
    },
    /// Store what a run was started with, or what a step returned.
    Value {
        run: RunId,
        /// Name of the value.
        name: String,
        value: Arc<Value>,
    },
    /// Store what was said to or by a contact, once an id.
    Activity {
        workspace: Workspace,
        contact: ContactId,
        id: String,
        activity: Activity,
    },
    /// Forget all that was said to and by a contact.
    ForgetActivities {
        workspace: Workspace,
        contact: ContactId,
    },
    /// Store where a step stands. Unset fields keep what the row has.
    Step(Box<StepRow>),
    /// Publish a dispatch to the step's queue.
    StepDispatch(Box<StepDispatch>),
    /// Tell the scheduler which timer is wanted.
    Timer {
        workspace: Workspace,
        hold: HoldId,
        /// Version of the run that wants it.
        rev: u64,
        /// When; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// Tell the handoff service which hold on people is wanted.
    Hold {
        workspace: Workspace,
        desired_state: Box<DesiredHold>,
    },
    /// Tell the notification service how a run ended. A person watches it, or a webhook asks for all ends.
    RunEnded {
        workspace: Workspace,
        end: Box<RunEnded>,
    },
    /// Store a lease: a step was granted.
    Lease(Box<Lease>),
    /// Forget a lease: the step is not with a worker any more.
    LeaseEnded { run: RunId, step: String },
    /// Append to the history of a step's claims (S4-R7).
    LeaseEvent {
        run: RunId,
        step: String,
        entry: LeaseEvent,
    },
    /// Tell the scheduler when a node counts as silent.
    NodeTimer {
        node: NodeName,
        /// Version of the node that wants it.
        rev: u64,
        /// When; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// A node works on these: their leases begin anew.
    LeasesRenewed {
        /// What is its own of what it says that it works on.
        working: Vec<StepRef>,
    },
    /// Ask a node to beat at once; it has a real second.
    ProbeNode { node: NodeName },
    /// Runs are to follow what was commanded: the sweep that brings their pages is woken.
    ScopeSyncPending,
    /// Store what has changed of users.
    Users(Vec<UserChange>),
    /// Append to a run's history; whoever watches is nudged.
    History {
        workspace: Workspace,
        run: RunId,
        /// At least one, numbered.
        items: Vec<HistoryItem>,
    },
}

/// What the caller is told after the commit.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Reply {
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
    /// To a fired timer.
    Timer(TimerReply),
    /// To a worker that asks to start.
    Grant(Grant),
    /// To a worker that reports.
    Result(ResultReply),
    /// To a tool that asks people.
    Asked(Box<RequestedInput>),
    /// To a closed hold.
    Closed(CloseReply),
    /// To what was done with a handoff.
    Handled(HandoffUpdateReply),
    /// To a node that beats.
    Heartbeat(HeartbeatReply),
    /// To whoever watches.
    Watched(RunEndWatched),
    /// To putting a tool.
    Tool(Box<ToolView>),
    /// Done, and there is nothing to say.
    Nothing(()),
}
