//! The actions of a run's page: pause, resume, cancel and take over (D-14).

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{CancelRun, PauseRun, PauseWaiting, ResumeRun};
use holdpoint_contracts::run::ResumeMode;
use holdpoint_ids::RunId;

use super::request_actions::refused_attempt;
use super::run::controls::RESUME_MODES;
use super::run::{self, take_over};
use super::session::{Fields, PageError, PostedForm, SignedInUser, invalid_form, parse_id};
use crate::app::App;
use crate::problem;

/// Performs the form's action and shows the run as it is afterwards.
pub(super) async fn act(
    State(app): State<App>,
    Path(id): Path<String>,
    posted: PostedForm,
) -> Result<Response, PageError> {
    let PostedForm { user, fields } = posted;
    let run = parse_id("run", &id)?;
    let Err(refused) = perform(&app, &user, run, &fields).await else {
        return Ok(Redirect::to(&format!("/runs/{run}")).into_response());
    };
    let status = problem::status(&refused);
    let notice = refused_attempt(refused.into(), fields).notice;
    let page = run::render(&app, &user, run, notice.as_ref()).await?;
    Ok((status, page).into_response())
}

/// If the executor is down, a command is stored and the page shows its effect later.
async fn perform(
    app: &App,
    user: &SignedInUser,
    run: RunId,
    fields: &Fields,
) -> Result<(), Problem> {
    let caller = &user.caller;
    caller.may(Right::Operate)?;
    match fields.get("do") {
        Some("take_over") => take_over::take_over(app, user, run).await,
        Some("pause") => {
            let waiting = PauseWaiting::Hold;
            let pause = PauseRun { run, waiting };
            app.command(caller, None, pause).await.map(drop)
        }
        Some("resume") => {
            let mode = read_mode(fields)?;
            let resume = ResumeRun { run, mode };
            app.command(caller, None, resume).await.map(drop)
        }
        Some("cancel") => {
            let reason = fields.get_text("reason").map(str::to_owned);
            let cancel = CancelRun { run, reason };
            app.command(caller, None, cancel).await.map(drop)
        }
        Some(_) | None => Err(invalid_form(
            "Invalid action; expected pause, resume, cancel or take_over.",
        )),
    }
}

fn read_mode(fields: &Fields) -> Result<ResumeMode, Problem> {
    let Some(word) = fields.get_text("mode") else {
        return Ok(ResumeMode::default());
    };
    let mut modes = RESUME_MODES.into_iter();
    let mode = modes.find(|(known, ..)| *known == word);
    mode.map(|(_, mode, _)| mode).ok_or_else(|| {
        let detail = "invalid mode; expected continue, keep_deadline, restart or now";
        Problem::new(422, "invalid_body", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D-14: the page offers each resume mode of the API under the word of the API.
    #[test]
    fn every_mode_is_offered_under_its_own_word() {
        for (word, mode, _) in RESUME_MODES {
            assert_eq!(serde_json::to_value(mode).unwrap(), word);
            let fields = Fields(vec![("mode".to_owned(), word.to_owned())]);
            assert_eq!(read_mode(&fields).unwrap(), mode);
        }
        let odd = Fields(vec![("mode".to_owned(), "later".to_owned())]);
        assert_eq!(read_mode(&odd).unwrap_err().status, 422);
    }
}
