//! A tool asks people while its step runs (S3-R2) and reads the answer.
//!
//! The caller is a step with its token, or a user with the right to ask. A step's question is not stored while
//! the executor is down: the tool asks again with the same key.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use holdpoint_contracts::asking::{RequestInput, ToolQuestion};
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{Effect, RequestStatus, RequestView};
use holdpoint_contracts::{Actor, Envelope, Problem};
use holdpoint_ids::{HoldId, RunId};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::auth::run_reader::{QuestionSource, RunReader};
use crate::body::invalid_field;
use crate::call::{Call, JsonBody};
use crate::command_outcome::CommandOutcome;
use crate::nudges::Topic;
use crate::problem::ApiResult;
use crate::use_cases::await_request::{QUERY_INTERVAL_MAX, await_request, read_when_delivered};

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/runs/{run}/request-input", post(request_input))
}

/// `{question, options | schema | link, to, timeout_ms, on_timeout, default, key, mode}`. A user also names the `step`.
#[derive(Deserialize)]
struct AskBody {
    step: Option<String>,
    #[serde(flatten)]
    question: Map<String, Value>,
}

async fn request_input(
    State(app): State<App>,
    call: Call<QuestionSource, RunId, JsonBody<AskBody>>,
) -> ApiResult<Response> {
    let AskBody { step, question } = call.body;
    let command = RequestInput {
        run: call.id,
        step,
        dispatch: None,
        token: None,
        question: read_question(question)?,
    };
    let outcome = match call.caller {
        QuestionSource::User(caller) => app.command(&caller, call.key, command).await?,
        QuestionSource::Step { workspace, token } => {
            let envelope = Envelope {
                actor: Actor::service("step"),
                assertion: None,
                key: call.key,
                command: RequestInput {
                    step: None,
                    token: Some(token),
                    ..command
                },
            };
            CommandOutcome::Done(app.bus.ask(&workspace, &envelope).await?)
        }
    };
    Ok(outcome.with_status(StatusCode::ACCEPTED))
}

fn read_question(question: Map<String, Value>) -> Result<ToolQuestion, Problem> {
    serde_path_to_error::deserialize(Value::Object(question)).map_err(|error| {
        let pointer = match error.path().to_string().as_str() {
            "." => String::new(),
            path => format!("/{}", path.replace('.', "/")),
        };
        invalid_field(&pointer, &error.into_inner().to_string())
    })
}

/// The request of a step, for that step. Its answer is shown once it applies to the run, so not while the run is
/// paused. With `wait`, the reply comes then or after that time.
pub(super) async fn show_to_step(
    reader: &RunReader,
    id: HoldId,
    wait: Duration,
) -> ApiResult<RequestView> {
    reader.require_run(id.run)?;
    let run = reader.query(GetRun::of(id.run)).await?;
    let is_asked = run.waiting_on.iter().any(|on| on.id == id);
    let request = read_when_delivered(&reader.app, &reader.workspace, id, is_asked).await?;
    if !reader.may_read_question_of(request.step.as_deref()) {
        return Err(Problem::not_found(format!("request `{id}` not found")).into());
    }
    let deadline = Instant::now() + wait;
    let request = await_request(reader, id, deadline, has_ended).await?;
    let may_wait_for_resume = request.effect == Some(Effect::OnResume);
    if !has_ended(&request) || may_wait_for_resume && waits_for_resume(reader, id, deadline).await?
    {
        return Ok(without_answer(request));
    }
    Ok(request)
}

/// Whether the run is paused until the deadline and applies its decisions when it resumes.
async fn waits_for_resume(reader: &RunReader, id: HoldId, deadline: Instant) -> ApiResult<bool> {
    let app = &reader.app;
    let _permit = app.streams.take(&reader.workspace, &reader.name())?;
    let mut changes = app.nudges.subscribe(Topic::Run(id.run));
    loop {
        let run = reader.query(GetRun::of(id.run)).await?;
        if !run.waiting_on.iter().any(|on| on.id == id) {
            return Ok(false);
        }
        let now = Instant::now();
        if now >= deadline || app.closing.is_cancelled() {
            return Ok(true);
        }
        let latest = deadline.min(now + QUERY_INTERVAL_MAX);
        tokio::select! {
            _changed = timeout_at(latest, changes.next()) => {}
            () = app.closing.cancelled() => {}
        }
    }
}

/// Whether the request has ended and its effect on the run is known.
fn has_ended(request: &RequestView) -> bool {
    match request.status {
        RequestStatus::Withdrawn => true,
        RequestStatus::Decided | RequestStatus::Completed | RequestStatus::Expired => request
            .effect
            .is_some_and(|effect| effect != Effect::Pending),
        RequestStatus::Open
        | RequestStatus::Offered
        | RequestStatus::Accepted
        | RequestStatus::TakenOver
        | RequestStatus::Reassigned => false,
    }
}

/// Hides an answer that does not apply to the run yet.
fn without_answer(request: RequestView) -> RequestView {
    RequestView {
        status: RequestStatus::Open,
        outcome: None,
        response: None,
        decided_by: None,
        decided_at: None,
        effect: None,
        history: Vec::new(),
        late: Vec::new(),
        ..request
    }
}
