//! How a running tool asks people (S3-R2): `call.ask("Refund?").options(["yes", "no"]).park().await?`.
//!
//! Owns the way of a question to the executor and of the answer back. It must never take an answer for
//! one that counts before the executor says so: while the run is paused a tool goes on waiting.

use std::time::Duration;

use futures_util::StreamExt;
use holdpoint_bus::Bus;
use holdpoint_contracts::asking::{
    AskMode, GivenAnswer, InputStatus, RequestInput, RequestedInput, ToolQuestion,
};
use holdpoint_contracts::executor::SERVICE;
use holdpoint_contracts::history::Nudge;
use holdpoint_contracts::hold::{OnTimeout, Priority};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::subject;
use holdpoint_ids::{RunId, Workspace};
use serde_json::Value;
use tokio::time::Instant;

use crate::tool::ToolFailure;

/// Between two looks for an answer of which no nudge came.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// However many nudges come, it is looked no more often than this.
const LOOK_AT_MOST: Duration = Duration::from_millis(50);

/// Between two tries while the executor is away.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The way of one dispatch to the people.
#[derive(Clone)]
pub struct People {
    bus: Bus,
    workspace: Workspace,
    run: RunId,
    step: String,
    dispatch: u64,
    token: Option<String>,
}

impl std::fmt::Debug for People {
    /// Leaves out the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("People")
            .field("run", &self.run)
            .field("step", &self.step)
            .field("dispatch", &self.dispatch)
            .finish_non_exhaustive()
    }
}

impl People {
    /// For the tool of a dispatch.
    #[must_use]
    pub fn of(bus: Bus, step_dispatch: &StepDispatch) -> Self {
        Self {
            bus,
            workspace: step_dispatch.workspace.clone(),
            run: step_dispatch.run,
            step: step_dispatch.step.clone(),
            dispatch: step_dispatch.dispatch,
            token: step_dispatch.token.clone(),
        }
    }

    /// Asks once; the same key asks nothing new.
    async fn ask(&self, question: &ToolQuestion) -> Result<RequestedInput, Problem> {
        let command = RequestInput {
            run: self.run,
            step: Some(self.step.clone()),
            dispatch: Some(self.dispatch),
            token: self.token.clone(),
            question: question.clone(),
        };
        let envelope = Envelope::of_service("worker", command);
        self.bus.ask(&self.workspace, &envelope).await
    }

    /// The same for as long as the executor is away.
    async fn ask_until_heard(
        &self,
        question: &ToolQuestion,
    ) -> Result<RequestedInput, ToolFailure> {
        loop {
            match self.ask(question).await {
                Ok(asked) => return Ok(asked),
                Err(problem) if problem.is_transient() => {
                    tracing::debug!(%problem, "a question waits for the executor");
                    tokio::time::sleep(TRY_AGAIN).await;
                }
                Err(problem) => return Err(ToolFailure::new(&problem.code, problem.detail)),
            }
        }
    }

    /// Looks when the run moves, and now and then in case that was not heard.
    async fn until_answered(&self, question: &ToolQuestion) -> Result<GivenAnswer, ToolFailure> {
        let nudges = subject::live(&self.workspace, SERVICE);
        let nudges = self.bus.client().subscribe(nudges).await;
        let mut nudges = nudges
            .inspect_err(|error| tracing::debug!(%error, "no nudges: it is looked now and then"))
            .ok();
        loop {
            let looked_at = Instant::now();
            let asked = self.ask_until_heard(question).await?;
            if let (InputStatus::Answered, Some(given)) = (asked.status, asked.given) {
                return Ok(given);
            }
            let again = looked_at + LOOK_AGAIN;
            let nudged = async {
                match nudges.as_mut() {
                    Some(nudges) => self.nudged(nudges).await,
                    None => std::future::pending().await,
                }
            };
            if tokio::time::timeout_at(again, nudged).await.is_ok() {
                tokio::time::sleep_until(looked_at + LOOK_AT_MOST).await;
            }
        }
    }

    /// Returns when something happened to the run.
    async fn nudged(&self, nudges: &mut async_nats::Subscriber) {
        while let Some(message) = nudges.next().await {
            let is_own = serde_json::from_slice::<Nudge>(&message.payload)
                .is_ok_and(|nudge| nudge.runs.iter().any(|(run, _)| *run == self.run));
            if is_own {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

/// A question in the making. Without a [`Question::key`] the same text in the same step is the same
/// question.
#[derive(Debug, Clone)]
#[must_use = "nobody is asked before `.block()` or `.park()`"]
pub struct Question {
    people: Option<People>,
    question: ToolQuestion,
}

impl Question {
    pub(crate) fn new(people: Option<People>, text: impl Into<String>) -> Self {
        Self {
            people,
            question: ToolQuestion::new(text),
        }
    }

    /// The answers there are, 2 to 100; without them any text is one.
    pub fn options<T: Into<String>>(mut self, options: impl IntoIterator<Item = T>) -> Self {
        self.question.options = options.into_iter().map(Into::into).collect();
        self
    }

    /// A form instead: a flat JSON Schema.
    pub fn schema(mut self, schema: Value) -> Self {
        self.question.schema = Some(schema);
        self
    }

    /// A page where the person enters a secret instead, at its owner: the answer is `done` or
    /// `declined`, and the tool reads what was entered from that owner.
    pub fn link(mut self, url: impl Into<String>, label: Option<String>) -> Self {
        let url = url.into();
        self.question.link = Some(Link { url, label });
        self
    }

    /// Whom: `@user.<name>` or `@role.<name>`; may be repeated. Unless said, the workspace's owners.
    pub fn to(mut self, whom: impl Into<String>) -> Self {
        self.question.to.push(whom.into());
        self
    }

    /// Names the question within the step: asking again under it is the same question.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.question.key = Some(key.into());
        self
    }

    /// How long people have, 1 s to 90 days; 5 minutes unless said.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.question.timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// What happens when time is up: the run fails unless said.
    pub const fn on_timeout(mut self, then: OnTimeout) -> Self {
        self.question.on_timeout = then;
        self
    }

    /// The answer that counts when time is up.
    pub fn or(mut self, answer: impl Into<Value>) -> Self {
        self.question.on_timeout = OnTimeout::Default;
        self.question.default = Some(answer.into());
        self
    }

    /// How urgent it is.
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.question.priority = priority;
        self
    }

    /// Asks and waits for the answer, with the lease and the place that the tool has. When time is up
    /// and that ends the step, the tool is stopped here.
    ///
    /// # Errors
    /// [`ToolFailure`] when it cannot be asked so, with the refusal's code.
    pub async fn block(mut self) -> Result<GivenAnswer, ToolFailure> {
        self.question.mode = AskMode::Block;
        self.way()?.until_answered(&self.question).await
    }

    /// Asks, and ends the tool by the `?` behind it: the lease is released, and the step is called
    /// again with the answer, which is then returned here. What the tool does before it is done again.
    ///
    /// # Errors
    /// [`ToolFailure::parked`] while there is no answer: return it. Any other when it cannot be asked
    /// so, with the refusal's code.
    pub async fn park(mut self) -> Result<GivenAnswer, ToolFailure> {
        self.question.mode = AskMode::Park;
        let asked = self.way()?.ask_until_heard(&self.question).await?;
        asked.given.ok_or_else(ToolFailure::parked)
    }

    fn way(&self) -> Result<&People, ToolFailure> {
        self.people.as_ref().ok_or_else(|| {
            let text = "A tool that runs inside the executor cannot ask people; bring a worker.";
            ToolFailure::new("cannot_ask", text)
        })
    }
}
