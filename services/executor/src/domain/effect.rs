//! What a decision stores and sends, and its replies.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::asking::RequestedInput;
use holdpoint_contracts::contact::{Activity, ContactView};
use holdpoint_contracts::erasure::ErasureView;
use holdpoint_contracts::executor::{
    AppliedAgent, ChangedScope, ChildRunEnd, ChildRunEndReply, DesiredChildRun, LibraryEntryView,
    RunEndWatched, ScheduledStartReply, TimerReply,
};
use holdpoint_contracts::handoff::UserChange;
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::hold::{CloseReply, DesiredHold, HandoffUpdateReply};
use holdpoint_contracts::notification::{ContactEvent, RunEnded};
use holdpoint_contracts::operation::OperationView;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::{ChangedRun, LeaseEvent, StartedRun};
use holdpoint_contracts::steps::{Grant, HeartbeatReply, ResultReply, StepDispatch, StepRef};
use holdpoint_contracts::suspension::{BlobContent, BlobView, ContinuedStep, SnapshotView};
use holdpoint_contracts::tool::{RegisteredTool, ToolView};
use holdpoint_ids::{AgentName, ContactId, HoldId, NodeName, RunId, Workspace};
use serde::Serialize;
use serde_json::Value;
use strum::EnumTryAs;

use crate::domain::model::contact::Contact;
use crate::domain::model::node::Lease;
use crate::domain::model::operation::OperationResult;
use crate::domain::model::plan::Plan;
use crate::domain::model::run::LimitRow;
use crate::domain::model::step_row::StepRow;

/// Something to store beside the state, to send, or both.
#[derive(Debug, Clone, EnumTryAs)]
pub enum Effect {
    /// Store a new version of an agent's plan.
    AgentVersion {
        workspace: Workspace,
        agent: AgentName,
        version: u32,
        plan: Box<Plan>,
    },
    /// Store the input of a run, or the result of a step.
    Value {
        run: RunId,
        name: String,
        value: Arc<Value>,
    },
    /// Store an activity of a contact. An id is stored once.
    Activity {
        workspace: Workspace,
        contact: ContactId,
        id: String,
        activity: Activity,
    },
    /// Delete all activities of a contact.
    ForgetActivities {
        workspace: Workspace,
        contact: ContactId,
    },
    /// Delete the replies and dead letters that name an erased contact.
    EraseContactTraces {
        workspace: Workspace,
        contact: ContactId,
    },
    /// Wake the sweep that erases the runs of contacts.
    ErasurePending,
    /// Delete a run with all its rows, and the replies and dead letters that name it.
    DeleteRun { workspace: Workspace, run: RunId },
    /// Store the row of a step. Unset fields keep their value.
    Step(Box<StepRow>),
    /// Publish a dispatch to the step's queue.
    StepDispatch(Box<StepDispatch>),
    /// Send the desired timer to the scheduler.
    Timer {
        workspace: Workspace,
        hold: HoldId,
        /// Version of the run that sets it.
        rev: u64,
        /// When; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// Send the desired hold on people to the handoff service.
    Hold {
        workspace: Workspace,
        desired_state: Box<DesiredHold>,
    },
    /// Send the end of a run to the notification service, because a user or a webhook watches it.
    RunEnded {
        workspace: Workspace,
        end: Box<RunEnded>,
    },
    /// Count the names of the fields that a contact gets or loses.
    ContactFields {
        workspace: Workspace,
        added: Vec<String>,
        removed: Vec<String>,
    },
    /// Send a change of a contact to the notification service.
    ContactEvent {
        workspace: Workspace,
        event: Box<ContactEvent>,
    },
    /// Send the desired state of a run that a step has started.
    ChildRun {
        workspace: Workspace,
        /// Among the runs of the step.
        place: u32,
        desired_state: Box<DesiredChildRun>,
    },
    /// Send the end of a child run to its parent.
    ChildRunEnded {
        workspace: Workspace,
        end: Box<ChildRunEnd>,
    },
    /// Store a lease: a step was granted.
    Lease(Box<Lease>),
    /// Delete a lease: the step is no longer with a worker.
    LeaseEnded { run: RunId, step: String },
    /// Append to the lease history of a step (S4-R7).
    LeaseEvent {
        run: RunId,
        step: String,
        entry: LeaseEvent,
    },
    /// Send the timer of a node to the scheduler.
    NodeTimer {
        node: NodeName,
        /// Version of the node that sets it.
        rev: u64,
        /// When; none: not at all.
        due: Option<DateTime<Utc>>,
    },
    /// Renew the leases of the steps that a node works on.
    LeasesRenewed {
        /// Those of its steps that are its own.
        working: Vec<StepRef>,
    },
    /// Ask a node for a heartbeat within a real second.
    ProbeNode { node: NodeName },
    /// Wake the sweep that makes runs apply their scopes.
    ScopeSyncPending,
    /// Store what an operation did with a run. The first result counts.
    OperationResult(OperationResult),
    /// Wake the sweep that works through operations.
    OperationPending,
    /// Store changes of users.
    Users(Vec<UserChange>),
    /// Delete a page of the runs that ended before an instant, with all their rows.
    DeleteExpiredRuns { before: DateTime<Utc> },
    /// Store the snapshot of a suspended run. The newest one counts.
    Snapshot(Arc<SnapshotView>),
    /// Store a chunk of a blob, or change or delete the blob.
    Blob {
        run: RunId,
        step: String,
        sha256: String,
        change: BlobChange,
    },
    /// Delete a page of the chunks that expired before an instant.
    DeleteExpiredBlobs { before: DateTime<Utc> },
    /// Store which place a run holds or wants, and for which start it counts.
    Limits {
        workspace: Workspace,
        row: Box<LimitRow>,
    },
    /// Wake the sweep that starts queued runs: a run of this key has ended or has left the queue.
    PlacesChanged { key: String },
    /// Wake the sweep that ends waits for a reply: the contact has replied, or a run begins to wait for it.
    ReplyPending {
        workspace: Workspace,
        contact: ContactId,
    },
    /// Append to a run's history, and nudge its subscribers.
    History {
        workspace: Workspace,
        run: RunId,
        /// At least one, numbered.
        items: Vec<HistoryItem>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobChange {
    Chunk {
        offset: u64,
        content: BlobContent,
        expires_at: Option<DateTime<Utc>>,
    },
    /// None: it is kept with its run.
    Expire(Option<DateTime<Utc>>),
    Delete,
}

/// The reply to the caller, after the commit.
#[derive(Debug, Clone, Serialize, EnumTryAs)]
#[serde(untagged)]
pub enum Reply {
    Agent(Box<AppliedAgent>),
    Contact(ContactView),
    Run(Box<StartedRun>),
    Changed(Box<ChangedRun>),
    Scope(Box<ChangedScope>),
    Operation(Box<OperationView>),
    Timer(TimerReply),
    Grant(Grant),
    Result(ResultReply),
    InputRequested(Box<RequestedInput>),
    Closed(CloseReply),
    HandoffUpdated(HandoffUpdateReply),
    Heartbeat(HeartbeatReply),
    Watched(RunEndWatched),
    Tool(Box<ToolView>),
    LibraryEntry(Box<LibraryEntryView>),
    Registered(RegisteredTool),
    Continued(Box<ContinuedStep>),
    Blob(BlobView),
    /// To a worker whose part of a snapshot is not kept, although its step was released, and to an upload that was
    /// deleted.
    Refused(Box<Problem>),
    ScheduledStart(ScheduledStartReply),
    ChildRunEnd(ChildRunEndReply),
    Erasure(ErasureView),
    /// To any other command: it is done.
    Nothing(()),
}

impl Reply {
    /// The erasure of a contact; without one, nothing.
    pub(crate) fn of_erasure(contact: &Contact) -> Self {
        let view = contact.erasure_view();
        view.map_or(Self::Nothing(()), Self::Erasure)
    }
}
