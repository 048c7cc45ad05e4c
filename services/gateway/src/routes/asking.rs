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
use holdpoint_auth::Right;
use holdpoint_contracts::asking::{RequestInput, ToolQuestion};
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{Effect, RequestStatus, RequestView};
use holdpoint_contracts::{Actor, Envelope, Problem};
use holdpoint_ids::{HoldId, RunId};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::app::App;
use crate::auth::run_reader::{QuestionSource, RunReader};
use crate::body::{Body, invalid_field};
use crate::command_outcome::CommandOutcome;
use crate::params::Params;
use crate::path::PathId;
use crate::problem::ApiError;
use crate::use_cases::await_request::{await_request, read_when_delivered};

/// How often it is looked whether a paused run goes on.
const LOOK_AT_RUN: Duration = Duration::from_millis(500);

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/runs/{run}/request-input", post(request_input))
}

/// `{question, options | schema | link, to, timeout_ms, on_timeout, default, key, mode}`, and `step` for
/// whoever is none.
#[derive(Deserialize)]
struct AskBody {
    step: Option<String>,
    #[serde(flatten)]
    question: Map<String, Value>,
}

async fn request_input(
    State(app): State<App>,
    asker: QuestionSource,
    PathId(run): PathId<RunId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    if let QuestionSource::User(caller) = &asker {
        caller.may(Right::Ask)?;
    }
    let AskBody { step, question } = body.json()?;
    let command = RequestInput {
        run,
        step,
        dispatch: None,
        token: None,
        question: read(question)?,
    };
    let answered = match asker {
        QuestionSource::User(caller) => app.command(&caller, body.key, command).await?,
        QuestionSource::Step { workspace, token } => {
            let envelope = Envelope {
                actor: Actor::service("step"),
                assertion: None,
                key: body.key,
                command: RequestInput {
                    step: None,
                    token: Some(token),
                    ..command
                },
            };
            CommandOutcome::Done(app.bus.ask(&workspace, &envelope).await?)
        }
    };
    Ok(answered.with_status(StatusCode::ACCEPTED))
}

fn read(question: Map<String, Value>) -> Result<ToolQuestion, Problem> {
    serde_path_to_error::deserialize(Value::Object(question)).map_err(|error| {
        let pointer = match error.path().to_string().as_str() {
            "." => String::new(),
            path => format!("/{}", path.replace('.', "/")),
        };
        invalid_field(&pointer, &error.into_inner().to_string())
    })
}

/// What a step has asked, for the step: its answer is there when it counts for the run, and not as
/// long as that is paused. With `wait`, then, or when that time is over.
pub(super) async fn show_to_step(
    app: &App,
    reader: &RunReader,
    id: HoldId,
    wait: Duration,
) -> Result<RequestView, ApiError> {
    reader.require_run(id.run)?;
    let run = app
        .bus
        .query(&reader.workspace, &GetRun::of(id.run))
        .await?;
    let is_asked = run.waiting_on.iter().any(|on| on.id == id);
    let request = read_when_delivered(app, &reader.workspace, id, is_asked).await?;
    if !reader.may_read_question_of(request.step.as_deref()) {
        return Err(Problem::not_found(format!("there is no request `{id}`")).into());
    }
    let by = Instant::now() + wait;
    let request = await_request(app, reader, id, by, has_ended).await?;
    let is_kept = request.effect == Some(Effect::OnResume) && is_kept(app, reader, id, by).await?;
    Ok(match has_ended(&request) && !is_kept {
        true => request,
        false => withheld(request),
    })
}

/// Whether the run is paused and keeps what was decided; looks until then whether it goes on.
async fn is_kept(app: &App, reader: &RunReader, id: HoldId, by: Instant) -> Result<bool, Problem> {
    let query = GetRun::of(id.run);
    let _permit = app.streams.take(&reader.workspace, &reader.name())?;
    loop {
        let run = app.bus.query(&reader.workspace, &query).await?;
        if !run.waiting_on.iter().any(|on| on.id == id) {
            return Ok(false);
        }
        let now = Instant::now();
        if now >= by || app.closing.is_cancelled() {
            return Ok(true);
        }
        tokio::time::sleep_until(by.min(now + LOOK_AT_RUN)).await;
    }
}

/// Whether it has ended, and the executor has said what that does to the run.
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

/// Hides an answer that does not count for the run yet.
fn withheld(request: RequestView) -> RequestView {
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
