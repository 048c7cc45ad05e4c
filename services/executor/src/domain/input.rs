//! Everything that can happen to the executor's aggregates, each with its source.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::asking::ToolQuestion;
use holdpoint_contracts::contact::{Activity, TagChange};
use holdpoint_contracts::executor::{
    ChildRunEnd, DesiredChildRun, LibraryKind, PauseNew, PauseWaiting, ScheduledStart,
};
use holdpoint_contracts::handoff::UserChange;
use holdpoint_contracts::hold::HandoffEvent;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::operation::{RunAction, RunFilter};
use holdpoint_contracts::run::{ActionResult, ResumeMode};
use holdpoint_contracts::steps::Heartbeat;
use holdpoint_contracts::suspension::{BlobContent, Sandbox, StepOnResume, Supplement};
use holdpoint_contracts::tool::ToolSpec;
use holdpoint_ids::{
    AgentName, ContactId, HoldId, NodeName, OperationId, RunId, ToolName, UserName, Workspace,
};
use serde_json::{Map, Value};

use crate::domain::model::run::{HoldClosure, Signal};
use crate::domain::model::scope::Cursor;
use crate::domain::need::Key;

#[derive(Debug, Clone, PartialEq)]
pub enum ContactInput {
    /// Replaces all fields, or merges some into them.
    Put {
        fields: Map<String, Value>,
        /// `null` removes a field, and fields that are not named stay.
        merge: bool,
        /// No user is notified of it.
        silent: bool,
    },
    /// Changes some of it; `null` removes. Then single tags come and go.
    Patch {
        patch: Map<String, Value>,
        tags: TagChange,
    },
    /// Adds an activity and changes some fields.
    Say {
        id: String,
        activity: Activity,
        patch: Map<String, Value>,
    },
    /// Forgets it.
    Delete,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopeInput {
    /// A person stops everything in it (S0-AC4, S0-T6).
    Pause {
        by: Actor,
        waiting: PauseWaiting,
        /// What happens to runs that are started during the pause.
        new: PauseNew,
    },
    /// A person lets everything in it go on.
    Resume { by: Actor, mode: ResumeMode },
    /// A person deletes the agent (S0-AC9); a workspace is left as it is.
    Delete { by: Actor },
    /// The sweep has brought one page of runs up to a change; in the same batch as that page.
    Paged {
        /// The newest change when the page was read: a newer one begins again.
        epoch: u64,
        /// The last run of the page; none: there was no run after the one before.
        upto: Option<Cursor>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum OperationInput {
    /// An operator begins it.
    Start {
        by: Actor,
        action: RunAction,
        filter: RunFilter,
        /// Runs that matched a moment ago.
        matched: u64,
    },
    /// An operator ends it early.
    Cancel { by: Actor },
    /// The sweep has acted on one page of runs; in the same batch as that page.
    Paged {
        /// The last run of the page before.
        after: Option<RunId>,
        /// The last run of the page; none: no run follows it.
        upto: Option<RunId>,
        /// Runs of the page that match.
        runs: u64,
    },
}

/// One run of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationItem {
    pub workspace: Workspace,
    pub run: RunId,
    pub operation: OperationId,
    /// The action, shared by all runs.
    pub input: Arc<RunInput>,
    /// The user on whose behalf it acts; none: a program.
    pub user: Option<UserName>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A user applies an agent's text.
    ApplyAgent {
        workspace: Workspace,
        agent: AgentName,
        /// YAML or JSON.
        text: String,
    },
    /// A user or a tool changes a contact.
    Contact {
        workspace: Workspace,
        contact: ContactId,
        input: ContactInput,
    },
    /// An administrator erases a contact.
    EraseContact {
        workspace: Workspace,
        contact: ContactId,
        by: Actor,
    },
    /// The sweep found no run of an erased contact any more.
    ErasureCompleted {
        workspace: Workspace,
        contact: ContactId,
        /// When the erasure began.
        at: DateTime<Utc>,
    },
    /// The sweep found an ended run of an erased contact.
    EraseRun {
        workspace: Workspace,
        run: RunId,
        contact: ContactId,
        /// The tasks that its steps have created. They may not exist.
        tasks: Vec<HoldId>,
    },
    /// An operator commands something for all runs of an agent or of the whole workspace.
    Scope {
        workspace: Workspace,
        /// Which agent; none: everything in the workspace.
        agent: Option<AgentName>,
        input: ScopeInput,
    },
    /// The notification service subscribes to the ends of all runs of an agent or workspace. The gateway asks
    /// ahead of it.
    WatchRunEnds {
        workspace: Workspace,
        /// Which agent; none: everything in the workspace.
        agent: Option<AgentName>,
    },
    /// The notification service no longer needs these ends.
    UnwatchedEnds {
        workspace: Workspace,
        /// Which agent; none: everything in the workspace.
        agent: Option<AgentName>,
        /// The number of watches that it knows of.
        watch: u64,
    },
    /// A request was named instead of a run. It is refused by itself, so that its neighbours in the message
    /// count.
    WatchRequest(HoldId),
    /// A node sends a heartbeat or leaves, or a sweep reports its silence.
    Node { node: NodeName, input: NodeInput },
    /// An operator changes the library of a workspace.
    Library {
        workspace: Workspace,
        input: LibraryInput,
    },
    /// An operator registers or deletes a tool, or a node offers one.
    Tool {
        workspace: Workspace,
        name: ToolName,
        input: ToolInput,
    },
    /// An operator begins or ends an operation, or the sweep reports a page of it.
    Operation {
        workspace: Workspace,
        id: OperationId,
        input: OperationInput,
    },
    /// The sweep applies the action of an operation to one of its runs.
    OperationItem(OperationItem),
    /// A user commands something. It counts only while the user is active.
    OnBehalfOf {
        workspace: Workspace,
        user: UserName,
        input: Box<Self>,
    },
    /// The handoff service reports changes of users.
    Users(Vec<UserChange>),
    /// Runs that ended before an instant are past their retention.
    DeleteExpiredRuns { before: DateTime<Utc> },
    /// Blobs without a reference have expired before an instant.
    DeleteExpiredBlobs { before: DateTime<Utc> },
    /// The scheduler names a timer that the executor never sets: refused by itself, so that its neighbours count.
    UnknownTimer { id: String },
    Run {
        /// The workspace that the message came under; another one's run does not exist for it.
        workspace: Workspace,
        run: RunId,
        input: RunInput,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunInput {
    /// A caller starts it.
    Start {
        /// Of this agent's newest version.
        agent: AgentName,
        input: Value,
        contact: Option<ContactId>,
        labels: BTreeMap<String, String>,
        by: Actor,
    },
    /// A schedule starts it.
    StartScheduled(Box<ScheduledStart>),
    /// The run whose step starts it wants it to go on, to pause or to end.
    SetChildRun(Box<DesiredChildRun>),
    /// A run that its step has started has ended.
    ChildRunEnded(Box<ChildRunEnd>),
    /// The start of a run by its step was refused.
    ChildRunRefused(Box<RefusedChildRun>),
    /// A person freezes it.
    Pause { by: Actor, waiting: PauseWaiting },
    /// An operator resumes it, and says what happens with the steps that were in progress at its suspension.
    Resume {
        by: Actor,
        mode: ResumeMode,
        step: Option<StepOnResume>,
    },
    /// An operator suspends it.
    Suspend { by: Actor, reason: Option<String> },
    /// A person ends it.
    Cancel { by: Actor, reason: Option<String> },
    /// An operator continues it after it has failed, perhaps from an earlier step.
    Retry { by: Actor, from: Option<String> },
    /// An operator moves it to a newer version of its agent; none: the newest.
    Migrate { by: Actor, version: Option<u32> },
    /// An operator changes what later steps see as its input.
    PatchContext {
        by: Actor,
        patch: Map<String, Value>,
    },
    /// A program or a user sends a signal to it.
    Signal { by: Actor, signal: Signal },
    /// An operator becomes the owner of the run.
    TakeOver { by: Actor },
    /// The notification service subscribes to its end.
    Watch,
    /// The sweep makes the run apply what was commanded for its agent or workspace.
    ApplyScopes,
    /// The sweep says that its contact has replied.
    ContactReplied,
    /// The sweep says that a place of its agent may be free.
    TakePlace,
    /// The sweep says that no live node offers the tool of a queued step, or that one offers it again.
    ToolAvailability {
        step: String,
        dispatch: u64,
        tool: ToolName,
        is_offered: bool,
    },
    /// The scheduler says that a timer is due.
    TimerFired { hold: HoldId, rev: u64 },
    /// A worker asks whether it may start a delivered step.
    StartStep(DeliveredStep),
    /// The tool of a step that is in progress asks people.
    AskPeople {
        by: Actor,
        /// Which step; none: the one that is in progress.
        step: Option<String>,
        /// Its dispatch; none: the current one.
        dispatch: Option<u64>,
        question: Box<ToolQuestion>,
    },
    /// A worker reports that the tool of a step has asked people and parks.
    StepParks {
        step: String,
        dispatch: u64,
        /// How long it has worked, in milliseconds.
        duration_ms: u64,
    },
    /// A worker reports.
    StepResult(StepReport),
    /// A worker reports a step of a suspended run, or shuts down.
    SuspendStep(Box<SuspensionReport>),
    /// The tool of a step, or its worker, uploads a chunk of a blob.
    PutBlob(Box<BlobUpload>),
    /// A node was granted a step of an earlier suspension, and asks for what the last call saved.
    ContinueStep(Box<ContinuedCall>),
    /// The sweep reports a grant that ended without a result. Its node is down, has left, or no longer names
    /// the step.
    LeaseEnded {
        step: String,
        dispatch: u64,
        node: NodeName,
    },
    /// The handoff service says that a hold on people was closed.
    HoldClosed { hold: HoldId, closing: HoldClosure },
    /// The handoff service reports users' actions on an open handoff.
    HandoffUpdate {
        hold: HoldId,
        /// In order.
        handoff_events: Vec<HandoffEvent>,
    },
    /// The kernel reports a dead letter that concerns the run.
    Incident { reason: String },
}

/// A child run that cannot start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedChildRun {
    pub hold: HoldId,
    /// Among the runs of the step.
    pub place: u32,
    /// Of the refused desired state.
    pub rev: u64,
    /// Code of the refusal.
    pub code: String,
    pub message: String,
}

/// A delivered step that a worker wants to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredStep {
    pub node: NodeName,
    pub step: String,
    pub dispatch: u64,
    /// How often the bus has delivered it.
    pub delivery: u64,
    pub without_lease: bool,
    /// The worker says that its tool has the risk `high`.
    pub is_high_risk: bool,
    /// The worker says that its tool may run twice without harm.
    pub is_idempotent: bool,
}

/// What a worker says of a step at a suspension.
#[derive(Debug, Clone, PartialEq)]
pub struct SuspensionReport {
    pub node: NodeName,
    pub step: String,
    pub dispatch: u64,
    /// The worker shuts down.
    pub shutdown: bool,
    /// The tool has stopped without a result.
    pub stopped: bool,
    pub supplement: Option<Supplement>,
}

/// A chunk of a blob. The token of the step has decided step and dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobUpload {
    pub step: String,
    pub dispatch: u64,
    pub sha256: String,
    pub size: u64,
    pub offset: u64,
    pub content: BlobContent,
}

/// A node continues a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinuedCall {
    pub node: NodeName,
    pub step: String,
    pub dispatch: u64,
    /// None: the node has none.
    pub sandbox: Option<Sandbox>,
}

/// The result of a step, as its worker reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct StepReport {
    pub node: NodeName,
    pub step: String,
    pub dispatch: u64,
    pub result: ActionResult,
    /// Stable code of a failure.
    pub error_code: Option<String>,
    /// What the call has cost.
    pub cost: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum NodeInput {
    /// It sends a heartbeat.
    Heartbeat(Heartbeat),
    /// It leaves.
    Deregister,
    /// Its timer is due, or a lease of it has expired. It is probed at once.
    HeartbeatMissed {
        /// Version of the node. A later heartbeat makes this void.
        rev: u64,
    },
    /// It was probed, and did not answer within a real second.
    ProbeTimedOut {
        /// As for [`NodeInput::HeartbeatMissed`].
        rev: u64,
    },
    /// It has been down for a day and holds no lease: its row is deleted.
    Forget {
        /// As for [`NodeInput::HeartbeatMissed`].
        rev: u64,
    },
}

/// An operator's word about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPut {
    pub spec: ToolSpec,
    /// The revision of the entry of nodes that the operator has looked at.
    pub seen: Option<u64>,
    pub by: Actor,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ToolInput {
    /// It is registered, or changed.
    Put(Box<ToolPut>),
    Delete {
        by: Actor,
    },
    /// A node offers it.
    Offer {
        node: NodeName,
        spec: Box<ToolSpec>,
    },
}

/// A change of one template or calendar.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryInput {
    pub kind: LibraryKind,
    pub name: String,
    pub change: LibraryChange,
    pub by: Actor,
}

#[derive(Debug, Clone, PartialEq)]
pub enum LibraryChange {
    /// It is added or replaced.
    Put(Value),
    Delete,
}

impl Input {
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::ApplyAgent {
                workspace, agent, ..
            } => Key::Agent(workspace.clone(), agent.clone()),
            Self::Contact {
                workspace, contact, ..
            }
            | Self::EraseContact {
                workspace, contact, ..
            }
            | Self::ErasureCompleted {
                workspace, contact, ..
            } => Key::Contact(workspace.clone(), contact.clone()),
            Self::Scope {
                workspace, agent, ..
            }
            | Self::WatchRunEnds { workspace, agent }
            | Self::UnwatchedEnds {
                workspace, agent, ..
            } => match agent {
                Some(agent) => Key::Agent(workspace.clone(), agent.clone()),
                None => Key::Workspace(workspace.clone()),
            },
            Self::WatchRequest(id) => Key::Unknown(id.to_string()),
            Self::Node { node, .. } => Key::Node(node.clone()),
            Self::Tool {
                workspace, name, ..
            } => Key::Tool(workspace.clone(), name.clone()),
            Self::Library { workspace, .. } => Key::Library(workspace.clone()),
            Self::Operation { id, .. } => Key::Operation(*id),
            Self::OnBehalfOf { input, .. } => input.key(),
            Self::Users(_) => Key::Users,
            Self::DeleteExpiredRuns { .. } | Self::DeleteExpiredBlobs { .. } => Key::ExpiredRuns,
            Self::UnknownTimer { id } => Key::Unknown(id.clone()),
            Self::Run { run, .. }
            | Self::EraseRun { run, .. }
            | Self::OperationItem(OperationItem { run, .. }) => Key::Run(*run),
        }
    }
}
