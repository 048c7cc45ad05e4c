//! What the executor and workers say to each other: hand-out, start, result.

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, NodeName, RunId, ToolName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Actor, Command, Reply};
use crate::run::ActionResult;

/// A dispatched step on its queue. A delivery of it only reserves; a grant starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandOut {
    /// Whose run.
    pub workspace: Workspace,
    /// Which run.
    pub run: RunId,
    /// Which agent.
    pub agent: AgentName,
    /// Which step.
    pub step: String,
    /// Number of this hand-out: the fence on everything the worker sends about it.
    pub dispatch: u64,
    /// Which try of the tool, from 1.
    pub attempt: u32,
    /// What to call.
    pub tool: ToolName,
    /// With what; all placeholders are resolved.
    pub args: Value,
    /// Whom the run is about.
    pub contact: Option<ContactId>,
    /// Whether doing it twice does no harm: a fresh first delivery may then start at once.
    pub idempotent: bool,
    /// Who started the run.
    pub user: Actor,
    /// W3C trace context: one trace a run.
    pub traceparent: String,
    /// When the executor decided it.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}

impl HandOut {
    /// The same for every attempt of one (run, step).
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.run, self.step)
    }
}

/// Asks whether pulled steps may start; one request a pulled batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartSteps {
    /// Who asks.
    pub node: NodeName,
    /// At least one.
    pub steps: Vec<StartStep>,
}

/// One step that was delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartStep {
    /// Which run.
    pub run: RunId,
    /// Which step.
    pub step: String,
    /// As in the hand-out.
    pub dispatch: u64,
    /// How often the bus has delivered it, from 1.
    pub delivery: u64,
}

/// Answer to one [`StartStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Committed: start it.
    Go,
    /// Cancelled, paused, finished, or handed out anew: forget it.
    Drop,
    /// Another worker was granted it and never reported: a person decides. Forget it.
    Uncertain,
}

impl Command for StartSteps {
    const SERVICE: &'static str = crate::executor::SERVICE;
    const VERB: &'static str = "start_steps";
    type Answer = Vec<Reply<Grant>>;

    fn aggregate(&self) -> String {
        self.steps
            .first()
            .map(|step| step.run.to_string())
            .unwrap_or_default()
    }
}

/// Results of steps; one request a batch of what is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResults {
    /// Who did them.
    pub node: NodeName,
    /// At least one.
    pub results: Vec<StepResult>,
}

/// Result of one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResult {
    /// Which run.
    pub run: RunId,
    /// Which step.
    pub step: String,
    /// As in the hand-out; a lower one than the current is kept as evidence and never applied.
    pub dispatch: u64,
    /// What came of it.
    pub result: ActionResult,
    /// Stable code of a failure.
    #[serde(default)]
    pub error_code: Option<String>,
}

/// Answer to one [`StepResult`]; either way the worker may forget it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultAnswer {
    /// The run goes on with it.
    Applied,
    /// It was applied before.
    Known,
    /// Too late: kept as evidence, not applied.
    Late,
}

impl Command for StepResults {
    const SERVICE: &'static str = crate::executor::SERVICE;
    const VERB: &'static str = "step_results";
    type Answer = Vec<Reply<ResultAnswer>>;

    fn aggregate(&self) -> String {
        self.results
            .first()
            .map(|result| result.run.to_string())
            .unwrap_or_default()
    }
}
