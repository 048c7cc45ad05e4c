//! What a form of a card does: the same commands as the API, by the same signed person.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{
    ActOnRequest, AskAgain, Completion, DecideRequest, Decision, Disposition, OutcomeType,
    RequestAction, RequestView, WithdrawHold,
};
use holdpoint_contracts::{Problem, duration};
use holdpoint_ids::HoldId;
use serde_json::Value;

use super::card::{Notice, Tried, card};
use super::labels;
use super::request;
use super::schema::{FieldFault, FormSchema};
use super::session::{Fields, PageError, Posted, SignedInUser};
use crate::answered::CommandOutcome;
use crate::app::App;
use crate::problem;
use crate::routes::requests::decided;
use crate::sight::put_away_by;

/// The script sends it, and gets the card alone.
pub(super) const FRAGMENT: &str = "x-holdpoint-fragment";

/// What a form asks for.
#[derive(Debug)]
pub(super) enum FormAction {
    Decide(Decision),
    Act(RequestAction),
    Withdraw,
    /// Of whom, and how long in milliseconds; none: as before.
    AskAgain(Option<Vec<String>>, Option<u64>),
}

/// Why a form was not taken: a sentence, and what is wrong with single fields.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) problem: Box<Problem>,
    fields: Vec<FieldFault>,
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            fields: Vec::new(),
        }
    }
}

/// Does what the form says. The answer is the card as it then is; without the script a page.
pub(super) async fn act(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    posted: Posted,
) -> Result<Response, PageError> {
    let Posted { person, fields } = posted;
    let id = request::id(&id)?;
    let seen = request::get(&app, &person, id).await?;
    let is_fragment = headers.contains_key(FRAGMENT);
    let desired_state = desired_state(&fields, &seen);
    let done = match desired_state {
        Ok(desired_state) => done(&app, &person, (id, version(&fields)), desired_state).await,
        Err(fault) => Err(fault),
    };
    let (tried, status) = match done {
        // What is asked again is another request, on a page of its own.
        Ok((view, None)) if !is_fragment || view.id != id => {
            return Ok(Redirect::to(&format!("/requests/{}", view.id)).into_response());
        }
        Ok((view, notice)) => {
            let tried = Tried {
                notice,
                ..Tried::default()
            };
            return Ok(shown(&app, &person, &view, (tried, is_fragment)).await);
        }
        Err(fault) => {
            let status = problem::status(&fault.problem);
            (refused(fault, fields), status)
        }
    };
    let now = request::get(&app, &person, id).await.unwrap_or(seen);
    Ok((
        status,
        shown(&app, &person, &now, (tried, is_fragment)).await,
    )
        .into_response())
}

async fn shown(
    app: &App,
    person: &SignedInUser,
    view: &RequestView,
    how: (Tried, bool),
) -> Response {
    let (tried, is_fragment) = how;
    if is_fragment {
        card(person, view, Some(&tried)).into_response()
    } else {
        request::whole(app, person, view, Some(&tried))
            .await
            .into_response()
    }
}

/// Carries it out; a notice where the card does not say it by itself.
pub(super) async fn done(
    app: &App,
    person: &SignedInUser,
    (id, version): (HoldId, Option<u64>),
    desired_state: FormAction,
) -> Result<(RequestView, Option<Notice>), Fault> {
    let caller = &person.caller;
    let needed = match desired_state {
        FormAction::Decide(_) | FormAction::Act(_) => Right::Decide,
        FormAction::Withdraw | FormAction::AskAgain(..) => Right::Ask,
    };
    caller.may(needed)?;
    let answered = match desired_state {
        FormAction::Decide(decision) => {
            let command = DecideRequest {
                id,
                decision,
                version,
            };
            let decided = decided(app, caller, None, command).await?;
            decided.map(|decided| decided.request)
        }
        FormAction::Act(action) => {
            let command = ActOnRequest {
                id,
                action,
                version,
            };
            let answered = app.command(caller, None, command).await?;
            answered.map(|view| put_away_by(&caller.claims, view))
        }
        FormAction::Withdraw => {
            let command = WithdrawHold { id, version };
            app.command(caller, None, command).await?
        }
        FormAction::AskAgain(to, timeout_ms) => {
            let command = AskAgain {
                id: id.asked_again(),
                again: id,
                to,
                timeout_ms,
            };
            app.command(caller, None, command).await?
        }
    };
    match answered {
        CommandOutcome::Done(view) => Ok((view, None)),
        CommandOutcome::Accepted(_) => {
            let text =
                "It is stored, and will be done as soon as the service that owns it is back.";
            let notice = Notice {
                is_good: true,
                text: text.to_owned(),
                lines: Vec::new(),
            };
            Ok((request::get(app, person, id).await?, Some(notice)))
        }
    }
}

fn version(fields: &Fields) -> Option<u64> {
    fields.get("version").and_then(|text| text.parse().ok())
}

pub(super) fn desired_state(fields: &Fields, request: &RequestView) -> Result<FormAction, Fault> {
    let text = |name: &str| fields.said(name).map(str::to_owned);
    let needed = |name: &str, message: &str| text(name).ok_or_else(|| invalid(message));
    let desired_state = match fields.get("do").unwrap_or_default() {
        "respond" => FormAction::Decide(Decision::Respond {
            answer: answer(fields, request)?,
        }),
        "approve" => FormAction::Decide(Decision::Approve {
            comment: text("comment"),
        }),
        "reject" => FormAction::Decide(Decision::Reject {
            reason: needed("reason", "Say why: a rejection needs a reason.")?,
        }),
        "complete" => FormAction::Decide(Decision::Complete(completion(fields)?)),
        "accept" => FormAction::Act(RequestAction::Accept),
        "take_over" => FormAction::Act(RequestAction::TakeOver),
        "acknowledge" => FormAction::Act(RequestAction::Acknowledge),
        "reassign" => FormAction::Act(RequestAction::Reassign {
            to: audience(&needed("to", "Say who: @user.name or @role.name.")?),
        }),
        "delegate" => FormAction::Act(RequestAction::Delegate {
            to: audience(&needed("to", "Say who: @user.name or @role.name.")?),
        }),
        "snooze" => FormAction::Act(RequestAction::Snooze {
            for_ms: milliseconds(&needed("for", "Say for how long.")?)?,
        }),
        "withdraw" => FormAction::Withdraw,
        "ask_again" => FormAction::AskAgain(
            text("to").map(|to| {
                to.split([',', ' '])
                    .filter(|one| !one.is_empty())
                    .map(audience)
                    .collect()
            }),
            text("timeout")
                .map(|text| milliseconds(&text))
                .transpose()?,
        ),
        other => {
            let other = super::sanitize::line(other, 40);
            return Err(invalid(&format!(
                "`{other}` is nothing that one can do here."
            )));
        }
    };
    Ok(desired_state)
}

pub(super) fn invalid(message: &str) -> Fault {
    Problem::new(422, "invalid_form", message).into()
}

/// A bare name is a user's.
fn audience(to: &str) -> String {
    if to.starts_with('@') {
        to.to_owned()
    } else {
        format!("@user.{to}")
    }
}

fn milliseconds(text: &str) -> Result<u64, Fault> {
    let time = duration::parse(text).map_err(|error| invalid(&error.to_string()))?;
    u64::try_from(time.as_millis()).map_err(|error| invalid(&error.to_string()))
}

fn completion(fields: &Fields) -> Result<Completion, Fault> {
    let outcome_type = match fields.said("outcome_type") {
        None | Some("resolved") => OutcomeType::Resolved,
        Some("escalated") => OutcomeType::Escalated,
        Some("no_action_needed") => OutcomeType::NoActionNeeded,
        Some(_) => return Err(invalid("Choose what came of it.")),
    };
    let disposition = match fields.get("disposition") {
        Some("return_to_agent") => Disposition::ReturnToAgent,
        Some("finish") => Disposition::Finish,
        Some(_) | None => {
            return Err(invalid("Choose: let the agent go on, or end the run."));
        }
    };
    Ok(Completion {
        notes: fields.said("notes").unwrap_or_default().to_owned(),
        outcome_type,
        disposition,
    })
}

fn answer(fields: &Fields, request: &RequestView) -> Result<Value, Fault> {
    let chosen = fields.get("answer").unwrap_or_default();
    let is_chosen = |option: &&String| unbroken(option) == unbroken(chosen);
    if let Some(option) = request.options.iter().find(is_chosen) {
        return Ok(Value::String(option.clone()));
    }
    if request.link.is_some() {
        return Err(invalid(
            "Say that it is done, or decline: it is entered at the link.",
        ));
    }
    let Some(schema) = &request.schema else {
        let text = fields.said("answer").map(|text| text.replace("\r\n", "\n"));
        return text
            .map(Value::String)
            .ok_or_else(|| invalid("There is no answer yet."));
    };
    if let Some(form) = FormSchema::read(schema) {
        return form.answer(fields).map_err(|faults| Fault {
            problem: Problem::new(422, "invalid_answer", "Some fields need another look.").into(),
            fields: faults,
        });
    }
    let text = fields.said("json").unwrap_or_default();
    serde_json::from_str(text).map_err(|error| invalid(&format!("This is no JSON: {error}.")))
}

/// Browsers write the ends of lines their own way.
fn unbroken(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// What the card tells of a refusal.
pub(super) fn refused(fault: Fault, fields: Fields) -> Tried {
    let Fault {
        problem,
        fields: mut faults,
    } = fault;
    let mut lines = Vec::new();
    for error in &problem.errors {
        let pointer = error.pointer.as_deref().unwrap_or_default();
        match pointer.rsplit_once('/') {
            Some((before, name)) if before.ends_with("/answer") => {
                faults.push((name.to_owned(), error.message.clone()));
            }
            Some(_) | None => {}
        }
        if error.message != problem.detail {
            lines.push(error.message.clone());
        }
    }
    Tried {
        notice: Some(Notice {
            is_good: false,
            text: sentence(&problem),
            lines,
        }),
        fields,
        faults,
        chosen: None,
    }
}

/// A refusal in words: who was first, when, and with what.
fn sentence(problem: &Problem) -> String {
    if problem.code == "version_conflict" {
        return "This has changed since you opened it. Look again, then decide.".to_owned();
    }
    let is_first = ["already_decided", "already_taken_over", "already_accepted"];
    if !is_first.contains(&problem.code.as_str()) {
        return problem.detail.clone();
    }
    let winner = problem.data.get("winner").unwrap_or(&Value::Null);
    let text = |name: &str| winner.get(name).and_then(Value::as_str);
    let outcome = super::sanitize::spoken(text("outcome").unwrap_or("decided")).to_lowercase();
    let by = labels::who(text("by").unwrap_or("somebody else"));
    let at = text("at").and_then(|at| at.parse::<chrono::DateTime<chrono::Utc>>().ok());
    let when = at.map_or_else(String::new, |at| {
        at.format(" on %-d %b %Y, %H:%M UTC").to_string()
    });
    let is_late = problem.data.get("late") == Some(&Value::Bool(true));
    let kept = match (problem.code.as_str(), is_late) {
        (_, true) => " What you said is kept as a late answer.",
        ("already_decided", false) => " What you said is not kept.",
        (_, false) => "",
    };
    format!("Somebody was first: it was {outcome} by {by}{when}.{kept}")
}
