//! Lets a running tool ask people (S3-R2): `call.ask("Refund?").options(["yes", "no"]).park().await?`.
//!
//! Owns the question to the executor and its answer. It must never return an answer before the executor accepts
//! it: while the run is paused the tool keeps waiting.

use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::asking::{
    AskMode, GivenAnswer, InputStatus, RequestInput, RequestedInput, ToolQuestion,
};
use holdpoint_contracts::hold::{OnTimeout, Priority};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::steps::StepDispatch;
use serde_json::Value;
use tokio::time::Instant;

pub use crate::run_changes::RunChanges;
use crate::tool::{ToolCall, ToolFailure};

/// A lost nudge delays the answer by at most this time.
const ASK_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// A question is asked at most this often, however many nudges arrive.
const ASK_INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Wait between two tries while the executor is unavailable.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl ToolCall {
    /// Builds a question to people (S3-R2): `call.ask("Refund?").options(["yes", "no"]).block().await?`.
    pub fn ask(&self, question: impl Into<String>) -> Question {
        Question {
            call: self.clone(),
            question: ToolQuestion::new(question),
        }
    }
}

/// Builds a question. Without a [`Question::key`], the same text in the same step is the same question.
#[derive(Debug, Clone)]
#[must_use = "the question is sent by `.block()` or `.park()`"]
pub struct Question {
    call: ToolCall,
    question: ToolQuestion,
}

impl Question {
    /// Allows only these answers, 2 to 100. Without options any text is an answer.
    pub fn options<T: Into<String>>(mut self, options: impl IntoIterator<Item = T>) -> Self {
        self.question.options = options.into_iter().map(Into::into).collect();
        self
    }

    /// Asks for a form, given as a flat JSON Schema.
    pub fn schema(mut self, schema: Value) -> Self {
        self.question.schema = Some(schema);
        self
    }

    /// Asks the person to enter a secret on a page of its owner. The answer is `done` or `declined`, and
    /// the tool reads the secret from that owner.
    pub fn link(mut self, url: impl Into<String>, label: Option<String>) -> Self {
        let url = url.into();
        self.question.link = Some(Link { url, label });
        self
    }

    /// Adds a recipient, `@user.<name>` or `@role.<name>`. The default is the workspace's owners.
    pub fn to(mut self, recipient: impl Into<String>) -> Self {
        self.question.to.push(recipient.into());
        self
    }

    /// Sets the key of the question within the step. Asking again with the same key is the same question.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.question.key = Some(key.into());
        self
    }

    /// Sets the time for an answer, 1 s to 90 days. The default is 5 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.question.timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Sets what happens at the timeout. By default the run fails.
    pub const fn on_timeout(mut self, action: OnTimeout) -> Self {
        self.question.on_timeout = action;
        self
    }

    /// Sets the answer that is used at the timeout.
    pub fn or(mut self, answer: impl Into<Value>) -> Self {
        self.question.on_timeout = OnTimeout::Default;
        self.question.default = Some(answer.into());
        self
    }

    pub const fn priority(mut self, priority: Priority) -> Self {
        self.question.priority = priority;
        self
    }

    /// Asks and waits for the answer. The tool keeps its lease and its slot. If the timeout ends the step,
    /// the tool is stopped here.
    ///
    /// # Errors
    /// [`ToolFailure`] with the refusal's code if the question is invalid.
    pub async fn block(mut self) -> Result<GivenAnswer, ToolFailure> {
        self.question.mode = AskMode::Block;
        self.wait_for_answer().await
    }

    /// Asks, and ends the tool through `?`: the lease is released. When there is an answer the tool is
    /// called again from the beginning, and this call returns the answer.
    ///
    /// # Errors
    /// [`ToolFailure::parked`] while there is no answer: return it. Another [`ToolFailure`] with the
    /// refusal's code if the question is invalid.
    pub async fn park(mut self) -> Result<GivenAnswer, ToolFailure> {
        self.question.mode = AskMode::Park;
        let asked = self.send().await?;
        asked.given.ok_or_else(ToolFailure::parked)
    }

    fn bus(&self) -> Result<&Bus, ToolFailure> {
        self.call.bus.as_ref().ok_or_else(|| {
            let text =
                "A tool that runs inside the executor cannot ask people; run it in a worker.";
            ToolFailure::new("cannot_ask", text)
        })
    }

    /// Asks, and tries again while the executor is unavailable. The same key returns the same question.
    async fn send(&self) -> Result<RequestedInput, ToolFailure> {
        let bus = self.bus()?;
        let StepDispatch {
            workspace,
            run,
            step,
            dispatch,
            token,
            ..
        } = &self.call.dispatch;
        let command = RequestInput {
            run: *run,
            step: Some(step.clone()),
            dispatch: Some(*dispatch),
            token: token.clone(),
            question: self.question.clone(),
        };
        let envelope = Envelope::of_service("worker", command);
        loop {
            match bus.ask(workspace, &envelope).await {
                Ok(asked) => return Ok(asked),
                Err(problem) if problem.is_transient() => {
                    tracing::debug!(%problem, "executor unavailable; the question is sent again");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                Err(problem) => return Err(ToolFailure::new(&problem.code, problem.detail)),
            }
        }
    }

    /// Waits for the answer. Asks again after each nudge about the run, and rarely in case a nudge was lost.
    async fn wait_for_answer(&self) -> Result<GivenAnswer, ToolFailure> {
        let run = self.call.dispatch.run;
        let mut changes = self.call.run_changes.subscribe(self.bus()?, run).await;
        loop {
            let asked_at = Instant::now();
            let asked = self.send().await?;
            if let (InputStatus::Answered, Some(given)) = (asked.status, asked.given) {
                return Ok(given);
            }
            let nudged = tokio::time::timeout_at(asked_at + ASK_INTERVAL_MAX, changes.next());
            if nudged.await.is_ok() {
                tokio::time::sleep_until(asked_at + ASK_INTERVAL_MIN).await;
            }
        }
    }
}
