//! A tool: one named asynchronous call with a result.
//!
//! Owns the types of a call and of its result. It must know nothing of leases or retries: the caller
//! decides whether and when a tool is called again.

mod cost;
mod result;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
pub use futures_util::future::BoxFuture;
use holdpoint_bus::Bus;
use holdpoint_contracts::steps::StepDispatch;
pub use holdpoint_contracts::tool::{Risk, ToolRetry};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::cost::CallCost;
pub use self::result::{PARKED, SUSPENDED, ToolFailure, ToolResult, ToolSuccess};
use crate::run_changes::RunChanges;
use crate::suspension::CallSuspension;

/// The input of one attempt (S2-R10).
#[derive(Clone)]
pub struct ToolCall {
    /// The call that the executor has dispatched, with all placeholders resolved. Its `token` is a secret with which
    /// the called system may act for this step. Its [`StepDispatch::idempotency_key`] is the same for every
    /// attempt, so that other systems can apply an effect once.
    pub dispatch: StepDispatch,
    /// For questions to people. `None` for a tool that runs inside the executor.
    pub bus: Option<Bus>,
    /// For answers of people. Shared by all calls of a worker.
    pub run_changes: RunChanges,
    /// The time of the call. A tool must not read any other clock.
    pub now: DateTime<Utc>,
    /// Cancelled when the step is cancelled or taken over, or when the worker gives up. The call's future
    /// is dropped at the same moment. Use this token to end what the tool has started elsewhere, such as a
    /// task or a session.
    pub stop: CancellationToken,
    /// The request to stop, and what the tool saves if its run is suspended or the worker shuts down.
    pub suspension: CallSuspension,
    /// What the call costs, if the tool says so.
    pub cost: CallCost,
}

impl fmt::Debug for ToolCall {
    /// Leaves out the token and the arguments, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall")
            .field("workspace", &self.dispatch.workspace)
            .field("run", &self.dispatch.run)
            .field("step", &self.dispatch.step)
            .field("tool", &self.dispatch.tool)
            .field("attempt", &self.dispatch.attempt)
            .field("dispatch", &self.dispatch.dispatch)
            .finish_non_exhaustive()
    }
}

/// Something that a step can call. A worker can die between effect and report, so a step may be called twice.
/// Pass [`StepDispatch::idempotency_key`] to every system that accepts one.
pub trait Tool: Send + Sync + 'static {
    fn name(&self) -> &str;

    /// How much harm it can do. A step on a tool of risk `high` starts only with an approval.
    fn risk(&self) -> Risk;

    /// Whether calling it twice does no harm. A lost step of such a tool is dispatched again.
    fn is_idempotent(&self) -> bool {
        false
    }

    /// What the worker registers of the tool beside its name, risk and promise.
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::default()
    }

    /// Whether the worker gives the tool a directory of its own for each run and step (S1-R8).
    fn has_sandbox(&self) -> bool {
        false
    }

    /// Makes one attempt. Dropping the future abandons it.
    ///
    /// # Errors
    /// [`ToolFailure`] if the attempt failed. The executor decides about another one.
    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult>;
}

/// Version, schemas and limits of a tool. The executor checks arguments before a call, and results after it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolDefinition {
    pub version: Option<String>,
    /// JSON Schema of at most 16 KiB, without `$ref`.
    pub args_schema: Option<Value>,
    /// As `args_schema`.
    pub result_schema: Option<Value>,
    /// Longest time of one attempt, for steps that state no `timeout`.
    pub timeout: Option<Duration>,
    /// When a failed call is repeated, for steps that state no `retry`. It counts for idempotent calls only.
    pub retry: Option<ToolRetry>,
    /// Names of the secrets that the tool uses. A tool with other secrets is another version, so approvals are asked
    /// again.
    pub secrets: BTreeSet<String>,
    /// Parts of arguments and results that no view shows, such as `args.card.number` or `result.token`. A worker may
    /// add some later. Only an operator shows one again.
    pub redaction: BTreeSet<String>,
}

/// Makes a tool from an asynchronous closure. A step on a tool of risk `high` starts only with an approval.
pub fn tool_fn<F, Fut>(name: impl Into<String>, risk: Risk, run: F) -> ToolFn<F>
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult> + Send + 'static,
{
    ToolFn {
        name: name.into(),
        risk,
        is_idempotent: false,
        definition: ToolDefinition::default(),
        run,
    }
}

pub struct ToolFn<F> {
    name: String,
    risk: Risk,
    is_idempotent: bool,
    definition: ToolDefinition,
    run: F,
}

impl<F> ToolFn<F> {
    /// States that calling the tool twice does no harm.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    /// States version, schemas and limits of the tool.
    #[must_use]
    pub fn with_definition(mut self, definition: ToolDefinition) -> Self {
        self.definition = definition;
        self
    }
}

impl<F> fmt::Debug for ToolFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolFn")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F, Fut> Tool for ToolFn<F>
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn risk(&self) -> Risk {
        self.risk
    }

    fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin((self.run)(call.clone()))
    }
}
