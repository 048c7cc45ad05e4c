//! The actions of a request's forms. They run the same signed commands as the API.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{
    ActOnRequest, AskAgain, Completion, DecideRequest, Decision, OutcomeType, RequestAction,
    RequestView, WithdrawHold,
};
use holdpoint_contracts::{Problem, duration};
use holdpoint_holds::Recipient;
use holdpoint_ids::HoldId;
use serde_json::Value;

use super::approval_items::{ARGS, edited_args, step_message};
use super::attempt::{Banner, RequestAttempt};
use super::card::card;
use super::schema::{FormSchema, InvalidField};
use super::session::{Fields, PageError, PostedForm, Viewer, invalid_form, parse_id};
use super::{labels, request, sanitize};
use crate::command_outcome::CommandOutcome;
use crate::problem;
use crate::redaction::with_snooze_of;
use crate::use_cases::decide_request::decide_request;
use crate::use_cases::plan_warnings::check_plan;

/// The script sends this header and gets only the card.
pub(super) const FRAGMENT_HEADER: &str = "x-holdpoint-fragment";

pub(super) const STORED: &str =
    "Stored. The action takes effect as soon as the responsible service is available again.";
const CHECKED_PLAN: &str = "The plan is valid. Nothing has started yet.";
const NO_PLAN: &str = "This request no longer waits for a plan.";
const NEEDS_RECIPIENT: &str = "Enter a recipient: @user.name or @role.name.";

#[derive(Debug)]
pub(super) enum FormAction {
    Decide(Decision),
    Act(RequestAction),
    Withdraw,
    /// Absent values are those of the earlier request.
    AskAgain {
        to: Option<Vec<String>>,
        timeout_ms: Option<u64>,
    },
}

/// A refused form: a problem, and the errors of single fields.
#[derive(Debug)]
pub(super) struct FormError {
    pub(super) problem: Box<Problem>,
    pub(super) fields: Vec<InvalidField>,
}

impl From<Problem> for FormError {
    fn from(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            fields: Vec::new(),
        }
    }
}

/// Performs the form's action and replies with the current card; without the script, with a page.
pub(super) async fn act(
    Path(id): Path<String>,
    headers: HeaderMap,
    PostedForm(viewer, fields): PostedForm,
) -> Result<Response, PageError> {
    let request = viewer.request(parse_id("request", &id)?).await?;
    let id = request.id;
    let is_fragment = headers.contains_key(FRAGMENT_HEADER);
    let version = fields.get("version").and_then(|text| text.parse().ok());
    let submitted = submit(&viewer, request, version, fields, Ok).await;
    let Submitted {
        status,
        request,
        attempt,
    } = submitted;
    // Asking again opens another request, which has another page.
    if attempt.notice.is_none() && (!is_fragment || request.id != id) {
        return Ok(Redirect::to(&format!("/requests/{}", request.id)).into_response());
    }
    let shown = if is_fragment {
        card(&viewer, &request, Some(&attempt))
    } else {
        request::render(&viewer, &request, Some(&attempt)).await
    };
    Ok((status, shown).into_response())
}

/// The request after a form was posted, and the attempt that its card shows.
pub(super) struct Submitted {
    pub(super) status: StatusCode,
    pub(super) request: RequestView,
    /// Without a notice if the card itself shows the action.
    pub(super) attempt: RequestAttempt,
}

/// Performs the form's action on a request if it is `allowed`.
pub(super) async fn submit(
    viewer: &Viewer,
    request: RequestView,
    version: Option<u64>,
    fields: Fields,
    allowed: fn(FormAction) -> Result<FormAction, FormError>,
) -> Submitted {
    let id = request.id;
    if fields.get("check").is_some() {
        return check_edited_plan(viewer, request, fields).await;
    }
    let done = async {
        let action = allowed(read_action(&fields, &request)?)?;
        perform(viewer, id, version, action).await
    };
    match done.await {
        Ok((request, notice)) => Submitted {
            status: StatusCode::OK,
            request,
            attempt: RequestAttempt::with_notice(notice),
        },
        Err(error) => Submitted {
            status: problem::status(&error.problem),
            request: viewer.request(id).await.unwrap_or(request),
            attempt: refused_attempt(error, fields),
        },
    }
}

/// Shows the edited plan in words, with its warnings. Nothing is decided.
async fn check_edited_plan(viewer: &Viewer, request: RequestView, fields: Fields) -> Submitted {
    let Viewer { app, user } = viewer;
    let checked = async {
        user.caller.may(Right::Decide)?;
        let item = request.items.first();
        let args = read_edited_args(&fields, &request)?;
        let args = args.or_else(|| Some(item?.args.clone()));
        let workspace = &user.caller.workspace;
        let planned = check_plan(app, workspace, request.id, args.unwrap_or_default()).await?;
        Ok::<_, FormError>(planned)
    };
    match checked.await {
        Ok(planned) => {
            let notice = planned.as_ref().map_or(NO_PLAN, |_| CHECKED_PLAN);
            let attempt = RequestAttempt {
                fields,
                planned,
                ..RequestAttempt::with_notice(Some(Banner::success(notice)))
            };
            Submitted {
                status: StatusCode::OK,
                request,
                attempt,
            }
        }
        Err(error) => Submitted {
            status: problem::status(&error.problem),
            request,
            attempt: refused_attempt(error, fields),
        },
    }
}

/// Sends the command of an action. The notice says what the card itself does not show.
async fn perform(
    viewer: &Viewer,
    id: HoldId,
    version: Option<u64>,
    action: FormAction,
) -> Result<(RequestView, Option<Banner>), FormError> {
    let Viewer { app, user } = viewer;
    let caller = &user.caller;
    caller.may(match action {
        FormAction::Decide(_) | FormAction::Act(_) => Right::Decide,
        FormAction::Withdraw | FormAction::AskAgain { .. } => Right::Ask,
    })?;
    let outcome = match action {
        FormAction::Decide(decision) => {
            let command = DecideRequest {
                id,
                decision,
                version,
                silent: false,
            };
            let outcome = decide_request(app, caller, None, command).await?;
            outcome.map(|decided| decided.request)
        }
        FormAction::Act(action) => {
            let command = ActOnRequest {
                id,
                action,
                version,
            };
            let outcome = viewer.command(command).await?;
            outcome.map(|view| with_snooze_of(&caller.claims, view))
        }
        FormAction::Withdraw => viewer.command(WithdrawHold { id, version }).await?,
        FormAction::AskAgain { to, timeout_ms } => {
            let command = AskAgain {
                id: id.asked_again(),
                again: id,
                to,
                timeout_ms,
            };
            viewer.command(command).await?
        }
    };
    match outcome {
        CommandOutcome::Done(view) => Ok((view, None)),
        CommandOutcome::Accepted(_) => {
            let view = viewer.request(id).await?;
            Ok((view, Some(Banner::success(STORED))))
        }
    }
}

/// Reads the action of a form on this request.
fn read_action(fields: &Fields, request: &RequestView) -> Result<FormAction, FormError> {
    let text = |name: &str| fields.get_text(name).map(str::to_owned);
    let required = |name: &str, message: &str| text(name).ok_or_else(|| invalid(message));
    let action = match fields.get("do").unwrap_or_default() {
        "respond" => FormAction::Decide(Decision::Respond {
            answer: read_answer(fields, request)?,
        }),
        "approve" => FormAction::Decide(Decision::Approve {
            comment: text("comment"),
            edited_args: read_edited_args(fields, request)?,
            digest: text("digest"),
        }),
        "reject" => FormAction::Decide(Decision::Reject {
            reason: required("reason", "Enter a reason for the rejection.")?,
        }),
        "revise" => FormAction::Decide(Decision::Revise {
            instructions: required("instructions", "Enter what the agent should change.")?,
        }),
        "complete" => FormAction::Decide(Decision::Complete(read_completion(fields)?)),
        "accept" => FormAction::Act(RequestAction::Accept),
        "take_over" => FormAction::Act(RequestAction::TakeOver),
        "acknowledge" => FormAction::Act(RequestAction::Acknowledge),
        "reassign" => FormAction::Act(RequestAction::Reassign {
            to: recipient(&required("to", NEEDS_RECIPIENT)?),
        }),
        "delegate" => FormAction::Act(RequestAction::Delegate {
            to: recipient(&required("to", NEEDS_RECIPIENT)?),
        }),
        "snooze" => FormAction::Act(RequestAction::Snooze {
            for_ms: milliseconds(&required("for", "Choose how long to snooze the request.")?)?,
        }),
        "withdraw" => FormAction::Withdraw,
        "ask_again" => FormAction::AskAgain {
            to: text("to").map(|to| {
                let names = to.split([',', ' ']).filter(|name| !name.is_empty());
                names.map(recipient).collect()
            }),
            timeout_ms: text("timeout")
                .map(|text| milliseconds(&text))
                .transpose()?,
        },
        other => {
            let other = sanitize::one_line(other, 40);
            let message = format!("invalid action `{other}`; expected an action of the card");
            return Err(invalid(&message));
        }
    };
    Ok(action)
}

/// The error is shown beside the editor.
fn read_edited_args(fields: &Fields, request: &RequestView) -> Result<Option<Value>, FormError> {
    edited_args(fields, request).map_err(|error| FormError {
        fields: vec![(ARGS.to_owned(), format!("invalid JSON: {error}"))],
        ..invalid("The arguments are not valid JSON.")
    })
}

fn invalid(message: &str) -> FormError {
    invalid_form(message).into()
}

/// A bare name is a user.
fn recipient(to: &str) -> String {
    if to.starts_with('@') {
        to.to_owned()
    } else {
        Recipient::user_text(&to)
    }
}

fn milliseconds(text: &str) -> Result<u64, FormError> {
    let time = duration::parse(text).map_err(|error| invalid(&error.to_string()))?;
    u64::try_from(time.as_millis()).map_err(|error| invalid(&error.to_string()))
}

fn read_completion(fields: &Fields) -> Result<Completion, FormError> {
    let no_outcome = "invalid outcome; expected resolved, escalated or no_action_needed";
    let no_disposition = "Choose whether the agent continues or the run ends.";
    let outcome_type = match fields.get_text("outcome_type") {
        None => OutcomeType::Resolved,
        Some(_) => fields
            .get_word("outcome_type")
            .ok_or_else(|| invalid(no_outcome))?,
    };
    let disposition = fields.get_word("disposition");
    Ok(Completion {
        notes: fields.get_text("notes").unwrap_or_default().to_owned(),
        outcome_type,
        disposition: disposition.ok_or_else(|| invalid(no_disposition))?,
    })
}

fn read_answer(fields: &Fields, request: &RequestView) -> Result<Value, FormError> {
    let chosen = unix_lines(fields.get("answer").unwrap_or_default());
    let is_chosen = |option: &&String| unix_lines(option) == chosen;
    if let Some(option) = request.options.iter().find(is_chosen) {
        return Ok(Value::String(option.clone()));
    }
    if request.link.is_some() {
        let message = "Choose Done or Decline. The value itself is entered at the link.";
        return Err(invalid(message));
    }
    let Some(schema) = &request.schema else {
        let text = fields.get_text("answer");
        let text = text.ok_or_else(|| invalid("Enter an answer."))?;
        return Ok(Value::String(text.replace("\r\n", "\n")));
    };
    if let Some(form) = FormSchema::read(schema) {
        return form.answer(fields).map_err(|errors| FormError {
            problem: Problem::new(422, "invalid_answer", "Some fields are invalid.").into(),
            fields: errors,
        });
    }
    let text = fields.get_text("json").unwrap_or_default();
    serde_json::from_str(text)
        .map_err(|error| invalid(&format!("The answer is not valid JSON: {error}.")))
}

/// Browsers submit `\r\n` at line ends.
fn unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// The card after a refusal: the notice, and the input for another try.
pub(super) fn refused_attempt(error: FormError, fields: Fields) -> RequestAttempt {
    let FormError {
        problem,
        fields: mut errors,
    } = error;
    let mut details = Vec::new();
    for error in &problem.errors {
        let pointer = error.pointer.as_deref().unwrap_or_default();
        if problem.code == "invalid_plan" {
            errors.push((ARGS.to_owned(), step_message(error)));
            continue;
        }
        if let Some((parent, name)) = pointer.rsplit_once('/')
            && parent.ends_with("/answer")
        {
            errors.push((name.to_owned(), error.message.clone()));
        }
        if error.message != problem.detail {
            details.push(error.message.clone());
        }
    }
    RequestAttempt {
        notice: Some(Banner::error(&refusal_text(&problem), details)),
        fields,
        errors,
        chosen: None,
        planned: None,
    }
}

/// A refusal as a sentence. A conflict names the earlier actor, the action and the instant.
fn refusal_text(problem: &Problem) -> String {
    let is_late = problem.data.get("late") == Some(&Value::Bool(true));
    let kept = match problem.code.as_str() {
        "version_conflict" => {
            return "This request has changed since you opened it. Check it again, then decide."
                .to_owned();
        }
        "already_decided" | "already_taken_over" | "already_accepted" if is_late => {
            " Your answer is kept as a late answer."
        }
        "already_decided" => " Your answer was not kept.",
        "already_taken_over" | "already_accepted" => "",
        _ => return problem.detail.clone(),
    };
    let winner = problem.data.get("winner").unwrap_or(&Value::Null);
    let text = |name: &str| winner.get(name).and_then(Value::as_str);
    let outcome = sanitize::humanize(text("outcome").unwrap_or("decided")).to_lowercase();
    let by = labels::actor(text("by").unwrap_or("another user"));
    let at = text("at").and_then(|at| at.parse::<DateTime<Utc>>().ok());
    let when = at.map_or_else(String::new, |at| {
        at.format(" on %-d %b %Y, %H:%M UTC").to_string()
    });
    format!("This request was already {outcome} by {by}{when}.{kept}")
}
