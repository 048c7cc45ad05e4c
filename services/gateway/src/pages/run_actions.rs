//! The actions of a run's page: pause, resume, suspend, cancel, retry and take over (D-14), and decisions about lists of
//! calls.

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{
    CancelRun, PauseRun, PauseWaiting, ResumeRun, RetryRun, TakeOverRun,
};
use holdpoint_contracts::run::{HoldKind, ResumeMode};
use holdpoint_contracts::suspension::{StepOnResume, SuspendRun};
use holdpoint_ids::RunId;

use super::request_actions::refused_attempt;
use super::run;
use super::session::{Fields, PageError, PostedForm, Viewer, invalid_form, parse_id};
use crate::command_outcome::CommandOutcome;
use crate::problem;
use crate::use_cases::await_request::read_when_delivered;

/// Performs the form's action and shows the run as it is afterwards.
pub(super) async fn act(
    Path(id): Path<String>,
    PostedForm(viewer, fields): PostedForm,
) -> Result<Response, PageError> {
    let run = parse_id("run", &id)?;
    let Err(refused) = perform(&viewer, run, &fields).await else {
        return Ok(Redirect::to(&format!("/runs/{run}")).into_response());
    };
    let status = problem::status(&refused);
    let notice = refused_attempt(refused.into(), fields).notice;
    let page = run::render(&viewer, run, notice.as_ref()).await?;
    Ok((status, page).into_response())
}

/// If the executor is down, a command is stored and the page shows its effect later.
async fn perform(viewer: &Viewer, run: RunId, fields: &Fields) -> Result<(), Problem> {
    if let Some("approve_calls" | "reject_calls") = fields.get("do") {
        return run::calls::decide(viewer, run, fields).await;
    }
    viewer.caller.may(Right::Operate)?;
    match fields.get("do") {
        Some("take_over") => take_over(viewer, run).await,
        Some("pause") => {
            let waiting = PauseWaiting::Hold;
            viewer.command(PauseRun { run, waiting }).await.map(drop)
        }
        Some("resume") => {
            let (mode, step) = (read_mode(fields)?, read_step(fields)?);
            let command = ResumeRun { run, mode, step };
            viewer.command(command).await.map(drop)
        }
        Some("suspend") => {
            let reason = fields.get_text("reason").map(str::to_owned);
            viewer.command(SuspendRun { run, reason }).await.map(drop)
        }
        Some("cancel") => {
            let reason = fields.get_text("reason").map(str::to_owned);
            viewer.command(CancelRun { run, reason }).await.map(drop)
        }
        Some("retry") => {
            let from_step = fields.get_text("from_step").map(str::to_owned);
            viewer.command(RetryRun { run, from_step }).await.map(drop)
        }
        Some(_) | None => Err(invalid_form(
            "Invalid action; expected pause, resume, suspend, cancel, retry, take_over, approve_calls or reject_calls.",
        )),
    }
}

/// Makes the user the owner of the run. If the executor is down, the command is stored and the page
/// shows its effect later.
async fn take_over(viewer: &Viewer, run: RunId) -> Result<(), Problem> {
    let outcome = viewer.command(TakeOverRun { run }).await?;
    if let CommandOutcome::Done(taken) = outcome {
        let mut holds = taken.run.waiting_on.iter();
        let own = holds.find(|hold| hold.kind == HoldKind::Handoff && hold.step.is_empty());
        if let Some(hold) = own {
            // A page without the script is loaded only once, so its request has to be there.
            let workspace = &viewer.caller.workspace;
            drop(read_when_delivered(&viewer.app, workspace, hold.id, true).await);
        }
    }
    Ok(())
}

fn read_mode(fields: &Fields) -> Result<ResumeMode, Problem> {
    if fields.get_text("mode").is_none() {
        return Ok(ResumeMode::default());
    }
    fields.get_word("mode").ok_or_else(|| {
        let detail = "invalid mode; expected continue, keep_deadline, restart or now";
        Problem::new(422, "invalid_body", detail)
    })
}

/// The choice about the steps that were in progress at the suspension; none: as without one.
fn read_step(fields: &Fields) -> Result<Option<StepOnResume>, Problem> {
    let invalid = |detail| Problem::new(422, "invalid_body", detail);
    match fields.get_text("step") {
        None => Ok(None),
        Some("redo") => Ok(Some(StepOnResume::Redo)),
        Some("skip") => Ok(Some(StepOnResume::Skip)),
        Some("complete_with") => {
            let text = fields.get_text("result").unwrap_or("null");
            let result = serde_json::from_str(text);
            let result = result.map_err(|_no_json| invalid("invalid result; expected JSON"))?;
            Ok(Some(StepOnResume::CompleteWith { result }))
        }
        Some(_) => Err(invalid(
            "invalid step; expected redo, skip or complete_with",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::run::controls::RESUME_MODES;
    use super::*;

    /// D-14: each mode of the page is a word of the API.
    #[test]
    fn every_mode_is_offered_under_its_own_word() {
        for (word, _) in RESUME_MODES {
            let fields = Fields(vec![("mode".to_owned(), word.to_owned())]);
            assert_eq!(
                serde_json::to_value(read_mode(&fields).unwrap()).unwrap(),
                word
            );
        }
        let odd = Fields(vec![("mode".to_owned(), "later".to_owned())]);
        assert_eq!(read_mode(&odd).unwrap_err().status, 422);
    }
}
