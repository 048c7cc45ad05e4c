//! Messages between the executor and workers: dispatch, start, result.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, NodeName, RunId, ToolName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::asking::Answers;
use crate::message::Actor;
use crate::run::ActionResult;

/// A dispatched step on its queue. A delivery of it only reserves; a grant starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepDispatch {
    /// The workspace of the run.
    pub workspace: Workspace,
    pub run: RunId,
    pub agent: AgentName,
    pub step: String,
    /// Number of this dispatch: the fence on everything the worker sends about it.
    pub dispatch: u64,
    /// The attempt of the tool, from 1.
    pub attempt: u32,
    pub tool: ToolName,
    /// With what; all placeholders are resolved.
    pub args: Value,
    /// The contact that the run is about.
    pub contact: Option<ContactId>,
    /// Whether doing it twice does no harm: a fresh first delivery may then start at once.
    pub idempotent: bool,
    /// The lease: how long a grant lasts without a heartbeat, in milliseconds (S4-R6). A node sends heartbeats at a
    /// third of its shortest lease.
    #[serde(default = "lease_default")]
    pub claim_timeout_ms: u64,
    /// Longest time of this attempt, in milliseconds. The worker then stops the tool and reports a failure with
    /// [`TIMEOUT_CODE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Proves to the API that a call comes from this very dispatch: workspace, run, step,
    /// dispatch, expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// For a tool that is registered as an HTTP call: whom to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<crate::tool::HttpCall>,
    /// The answers to this step's tool so far, by the keys of its questions (S3-R4).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: Answers,
    /// What a person wants changed, if the result of this step was sent back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Feedback>,
    /// A call of this step was suspended and has saved something: ask for it with `continue_step` (S1-R8).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// The actor that started the run.
    pub user: Actor,
    /// W3C trace context: one trace a run.
    pub traceparent: String,
    /// When the executor decided it.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}

/// A person sent back what a step had made for a gated call, or the plan of a planner is not valid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feedback {
    /// What to change, in the words of the person; empty without a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// How often the step was sent back so far, from 1; 0 without a person.
    #[serde(default)]
    pub revision: u32,
    /// What is wrong with the last plan of a planner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<String>,
    /// How many plans of this revision were not valid.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub refused: u32,
}

/// Lease of a step whose author names none: 30 s.
pub const LEASE_DEFAULT_MS: u64 = 30_000;

/// Code of a tool that did not end in time. A step that must not be done twice then becomes uncertain.
pub const TIMEOUT_CODE: &str = "timeout";

/// Shortest lease: 1 s.
pub const LEASE_MIN_MS: u64 = 1_000;

fn lease_default() -> u64 {
    LEASE_DEFAULT_MS
}

/// Queue of tools that are registered as HTTP calls; the built-in node takes them.
pub const HTTP_QUEUE: &str = "http-tool";

impl StepDispatch {
    /// The same for every attempt of one (run, step). A revision has a key of its own, and so has the call after a
    /// refused plan: the tool must not return its earlier result.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        let Self { run, step, .. } = self;
        match &self.feedback {
            Some(Feedback {
                revision,
                refused: 0,
                ..
            }) => format!("{run}/{step}~{revision}"),
            Some(Feedback {
                revision, refused, ..
            }) => format!("{run}/{step}~{revision}.{refused}"),
            None => format!("{run}/{step}"),
        }
    }

    /// The arguments as a tool outside of this process gets them: with the feedback as the field `feedback`.
    #[must_use]
    pub fn args_with_feedback(&self) -> Cow<'_, Value> {
        let (Some(feedback), Value::Object(args)) = (&self.feedback, &self.args) else {
            return Cow::Borrowed(&self.args);
        };
        let mut args = args.clone();
        args.insert("feedback".to_owned(), serde_json::json!(feedback));
        Cow::Owned(Value::Object(args))
    }
}

/// Asks whether pulled steps may start; one request a pulled batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSteps {
    pub node: NodeName,
    /// At least one.
    pub steps: Vec<StartStep>,
}

/// One step that was delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartStep {
    pub run: RunId,
    pub step: String,
    pub dispatch: u64,
    /// How often the bus has delivered it, from 1.
    pub delivery: u64,
    /// It needs no lease yet: an idempotent step on its first delivery that is only too old to start without a
    /// request. It requests a lease after it has run for half a second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_lease: bool,
    /// The worker's tool has the risk `high`: the step needs an approval, whatever its plan says (S2-R2).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub high_risk: bool,
    /// The worker's tool may run twice without harm: a lost step is dispatched again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
}

/// Answer to one [`StartStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Committed: start it.
    Go,
    /// For [`StartStep::without_lease`]: start it; nothing is stored. Its delivery is acked with its result.
    GoWithoutLease,
    /// Cancelled, paused, finished, or dispatched anew: forget it.
    Drop,
    /// It may have happened, and a person decides. Forget it.
    Uncertain,
}

/// Results of steps; one request a batch of what is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResults {
    /// The node that ran them.
    pub node: NodeName,
    /// At least one.
    pub results: Vec<StepResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResult {
    pub run: RunId,
    pub step: String,
    /// As in the dispatch; a lower one than the current is kept as evidence and never applied.
    pub dispatch: u64,
    pub result: ActionResult,
    /// Stable code of a failure.
    pub error_code: Option<String>,
    /// Not the end of the step: its tool has asked people and parks. The lease ends, and the step is
    /// dispatched again with the answer; `result` is for people only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parks: bool,
    /// What the call has cost, in the unit of the budgets of the workspace's agents; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// Answer to one [`StepResult`]; either way the worker may forget it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultReply {
    /// The run goes on with it.
    Applied,
    /// It was applied before.
    Known,
    /// Too late: kept as evidence, not applied.
    Late,
}

/// A node is alive, and works on these; one message a node (S4-R3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    pub node: NodeName,
    pub tools: Vec<ToolName>,
    /// The steps it works on: each a granted one.
    pub working: Vec<StepRef>,
    /// Steps that wait at the node for a place.
    #[serde(default)]
    pub queue_depth: u64,
    /// The shortest lease among `working`, in milliseconds; [`LEASE_DEFAULT_MS`] when idle.
    pub lease_ms: u64,
}

/// One step that a node works on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRef {
    /// The workspace of the run: a node may work for several.
    pub workspace: Workspace,
    pub run: RunId,
    pub step: String,
    pub dispatch: u64,
}

/// The executor's reply to a heartbeat (S4-R3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatReply {
    /// Steps that this node has lost (cancelled, taken over, ended): stop, report nothing.
    pub stop: Vec<StepRef>,
    /// Steps of suspended runs: report them with `suspend_steps` (S1-R2).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspend: Vec<StepRef>,
    /// The next heartbeat is due within this time, in milliseconds.
    pub again_ms: u64,
}

/// A node leaves: its steps are dispatched again at once, or become uncertain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deregister {
    pub node: NodeName,
}

/// Whether a node is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum NodeStatus {
    /// Its heartbeats arrive.
    Up,
    /// Its timer fired; a heartbeat was requested.
    Suspect,
    /// It finishes its steps and takes no more.
    Draining,
    /// Its heartbeats stopped, or it deregistered.
    Down,
}

/// One node as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    pub node: NodeName,
    pub status: NodeStatus,
    /// Its last heartbeat.
    #[serde(with = "crate::instant")]
    pub last_seen: DateTime<Utc>,
    pub tools: Vec<ToolName>,
    /// Steps that wait at the node for a place.
    pub queue_depth: u64,
    /// The steps that it works on, `run/step`.
    pub claimed_tasks: Vec<String>,
}

/// One lease as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimView {
    pub run: RunId,
    pub step: String,
    pub node: NodeName,
    pub dispatch: u64,
    /// When it was granted.
    #[serde(with = "crate::instant")]
    pub claimed_at: DateTime<Utc>,
    /// The last heartbeat of its node.
    #[serde(with = "crate::instant")]
    pub heartbeat_at: DateTime<Utc>,
    /// When the step last said how far it is.
    #[serde(default, with = "crate::instant::option")]
    pub progress_at: Option<DateTime<Utc>>,
    /// Length of the lease in milliseconds.
    pub claim_timeout: u64,
}
