//! Buttons of a run's page: pause, resume and cancel, and what each of them does (D-14).

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{CancelRun, PauseRun, PauseWaiting, ResumeRun};
use holdpoint_contracts::run::{PauseScope, ResumeMode, RunView};
use holdpoint_ids::RunId;
use maud::{Markup, html};

use super::super::request_actions::{invalid, refused};
use super::super::session::{Fields, PageError, Posted, SignedInUser};
use crate::app::App;
use crate::problem;

/// How waits go on, as a form sends it and as a person reads it.
const MODES: [(&str, ResumeMode, &str); 4] = [
    ("continue", ResumeMode::Continue, "with the time left"),
    (
        "keep_deadline",
        ResumeMode::KeepDeadline,
        "until the original deadline",
    ),
    ("restart", ResumeMode::Restart, "with the whole wait again"),
    ("now", ResumeMode::Now, "and end the wait now"),
];

/// The buttons that an operator may press at this moment.
pub(super) fn shown(person: &SignedInUser, run: &RunView) -> Markup {
    if run.status.is_final() || !person.may(Right::Operate) {
        return html! {};
    }
    let is_paused = run
        .paused_by
        .iter()
        .any(|pause| pause.scope == PauseScope::Run);
    let pause = html! { button { "Pause" } span.hint { "Timers stop until the run is resumed." } };
    let resume = html! {
        button { "Resume" }
        label.hidden for="resume-mode" { "How waits go on" }
        select #resume-mode name="mode" {
            @for (word, _, text) in MODES { option value=(word) { (text) } }
        }
    };
    let cancel = html! {
        details.unfold {
            summary.button { "Cancel…" }
            div.stack {
                label for="cancel-reason" { "Reason " span.muted { "(optional)" } }
                input #cancel-reason name="reason" maxlength="10000";
                button.danger { "Cancel this run" }
                p.hint { "Nothing of the run starts any more. A cancelled run cannot be resumed." }
            }
        }
    };
    html! {
        div.run-controls {
            @if is_paused { (form(person, run, "resume", &resume)) } @else { (form(person, run, "pause", &pause)) }
            (form(person, run, "cancel", &cancel))
        }
    }
}

/// A form of the page that does one thing to the run.
pub(super) fn form(person: &SignedInUser, run: &RunView, what: &str, inside: &Markup) -> Markup {
    html! {
        form.row method="post" action={ "/runs/" (run.id) "/act" } {
            input type="hidden" name="csrf" value=(person.csrf());
            input type="hidden" name="do" value=(what);
            (inside)
        }
    }
}

/// Does what the form says; the answer is the run's page as it then is.
pub(in crate::pages) async fn act(
    State(app): State<App>,
    Path(text): Path<String>,
    posted: Posted,
) -> Result<Response, PageError> {
    let Posted { person, fields } = posted;
    let run = super::id(&text)?;
    let Err(fault) = control(&app, &person, run, &fields).await else {
        return Ok(Redirect::to(&format!("/runs/{run}")).into_response());
    };
    let status = problem::status(&fault);
    let notice = refused(fault.into(), fields).notice;
    let page = super::whole(&app, &person, run, notice.as_ref()).await?;
    Ok((status, page).into_response())
}

async fn control(
    app: &App,
    person: &SignedInUser,
    run: RunId,
    fields: &Fields,
) -> Result<(), Problem> {
    let caller = &person.caller;
    caller.may(Right::Operate)?;
    // An accepted command of a service that is away is stored: the page shows its effect later.
    match fields.get("do") {
        Some("take_over") => super::take_over::take_over(app, person, run).await,
        Some("pause") => {
            let waiting = PauseWaiting::Hold;
            let pause = PauseRun { run, waiting };
            app.command(caller, None, pause).await.map(drop)
        }
        Some("resume") => {
            let mode = mode(fields)?;
            let resume = ResumeRun { run, mode };
            app.command(caller, None, resume).await.map(drop)
        }
        Some("cancel") => {
            let reason = fields.said("reason").map(str::to_owned);
            let cancel = CancelRun { run, reason };
            app.command(caller, None, cancel).await.map(drop)
        }
        Some(_) | None => Err(*invalid(
            "This form does nothing here. A run can be paused, resumed, cancelled or taken over.",
        )
        .problem),
    }
}

fn mode(fields: &Fields) -> Result<ResumeMode, Problem> {
    let Some(word) = fields.said("mode") else {
        return Ok(ResumeMode::default());
    };
    let known = MODES.iter().find(|(known, _, _)| *known == word);
    known.map(|(_, mode, _)| *mode).ok_or_else(|| {
        Problem::new(
            422,
            "invalid_body",
            "invalid mode; expected continue, keep_deadline, restart or now",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D-14: each mode of the API is offered, under the word that the API takes.
    #[test]
    fn every_mode_is_offered_under_its_own_word() {
        for (word, mode, _) in MODES {
            assert_eq!(serde_json::to_value(mode).unwrap(), word);
            let fields = Fields(vec![("mode".to_owned(), word.to_owned())]);
            assert_eq!(self::mode(&fields).unwrap(), mode);
        }
        let odd = Fields(vec![("mode".to_owned(), "later".to_owned())]);
        assert_eq!(mode(&odd).unwrap_err().status, 422);
    }
}
