//! A tool: one named asynchronous call with a result.
//!
//! Owns the types of a call and of its result. It must know nothing of the bus, leases or retries: the caller
//! decides whether and when a tool is called again.

mod result;

use std::fmt;

use chrono::{DateTime, Utc};
pub use futures_util::future::BoxFuture;
use holdpoint_contracts::asking::Answers;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::tool::HttpCall;
use tokio_util::sync::CancellationToken;

pub use self::result::{PARKED, ToolFailure, ToolResult, ToolSuccess};
use crate::ask::{HumanClient, Question};

/// The input of one attempt (S2-R10).
#[derive(Clone)]
pub struct ToolCall {
    pub workspace: String,
    pub run: String,
    pub agent: String,
    /// Id of the step, unique in the run.
    pub step: String,
    /// Name of the tool that the step calls; several can share one queue and one [`Tool`].
    pub tool: String,
    /// Number of this call of the step, from 1.
    pub attempt: u32,
    /// Fencing token of this dispatch; it only rises (S4-R2).
    pub dispatch: u64,
    /// Arguments with all placeholders resolved.
    pub args: serde_json::Value,
    /// Id of the run's contact, if it has one.
    pub contact: Option<String>,
    /// `<run>/<step>`: the same for every attempt, so that other systems can apply an effect once.
    pub idempotency_key: String,
    /// The time of the call. A tool must not read any other clock.
    pub now: DateTime<Utc>,
    /// The user who started the run.
    pub user: String,
    /// Secret with which the called system may act for this step; never logged.
    pub step_token: Option<String>,
    /// W3C trace context of the step.
    pub traceparent: Option<String>,
    /// The address, for a tool that is registered as an HTTP call.
    pub http: Option<HttpCall>,
    /// Answers of people to this step, by the keys of the questions.
    pub answers: Answers,
    /// Asks people. `None` for a tool that runs inside the executor.
    pub human_client: Option<HumanClient>,
    /// Cancelled when the step is cancelled or taken over, or when the worker gives up. The call's future
    /// is dropped at the same moment. Use this token to end what the tool has started elsewhere, such as a
    /// task or a session.
    pub stop: CancellationToken,
}

impl ToolCall {
    /// The call that a dispatch requests.
    #[must_use]
    pub fn of(step_dispatch: &StepDispatch, now: DateTime<Utc>, stop: CancellationToken) -> Self {
        Self {
            answers: step_dispatch.answers.clone(),
            human_client: None,
            workspace: step_dispatch.workspace.to_string(),
            run: step_dispatch.run.to_string(),
            agent: step_dispatch.agent.to_string(),
            step: step_dispatch.step.clone(),
            tool: step_dispatch.tool.to_string(),
            attempt: step_dispatch.attempt,
            dispatch: step_dispatch.dispatch,
            args: step_dispatch.args.clone(),
            contact: step_dispatch.contact.as_ref().map(ToString::to_string),
            idempotency_key: step_dispatch.idempotency_key(),
            now,
            user: step_dispatch.user.to_string(),
            step_token: step_dispatch.token.clone(),
            http: step_dispatch.http.clone(),
            stop,
            traceparent: Some(step_dispatch.traceparent.clone()),
        }
    }

    /// Builds a question to people (S3-R2): `call.ask("Refund?").options(["yes", "no"]).block().await?`.
    pub fn ask(&self, question: impl Into<String>) -> Question {
        Question::new(self.human_client.clone(), question)
    }
}

impl fmt::Debug for ToolCall {
    /// Leaves out the token and the arguments, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCall")
            .field("workspace", &self.workspace)
            .field("run", &self.run)
            .field("step", &self.step)
            .field("tool", &self.tool)
            .field("attempt", &self.attempt)
            .field("dispatch", &self.dispatch)
            .finish_non_exhaustive()
    }
}

/// Something that a step can call. A worker can die between effect and report, so a step may be called twice.
/// Pass [`ToolCall::idempotency_key`] to every system that accepts one.
pub trait Tool: Send + Sync + 'static {
    /// The name that steps use.
    fn name(&self) -> &str;

    /// Makes one attempt. Dropping the future abandons it.
    ///
    /// # Errors
    /// [`ToolFailure`] if the attempt failed. The executor decides about another one.
    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult>;
}

/// Makes a tool from an asynchronous closure.
pub fn tool_fn<F, Fut>(name: impl Into<String>, run: F) -> ToolFn<F>
where
    F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ToolResult> + Send + 'static,
{
    ToolFn {
        name: name.into(),
        run,
    }
}

pub struct ToolFn<F> {
    name: String,
    run: F,
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

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin((self.run)(call.clone()))
    }
}
