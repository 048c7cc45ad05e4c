//! An operator takes a live run over from its page: the button, and what it does.

use std::time::Duration;

use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::TakeOverRun;
use holdpoint_contracts::handoff::GetRequest;
use holdpoint_contracts::run::{ChangedRun, HoldKind, RunView};
use holdpoint_ids::HoldId;
use maud::{Markup, html};
use tokio::time::Instant;

use super::super::sanitize::line;
use super::super::session::SignedInUser;
use crate::answered::CommandOutcome;
use crate::app::App;

/// How long the page waits for the request by which the run is handed back.
const HEARD_WAIT: Duration = Duration::from_secs(2);
/// How often it looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What is shown of it: a button for who may, or whose the run is.
pub(super) fn shown(person: &SignedInUser, run: &RunView) -> Markup {
    if let Some(by) = &run.taken_over_by {
        return html! {
            p.why { strong { (line(by, 120)) } " owns this run. The agent stands still until it is completed or handed back below." }
        };
    }
    if run.status.is_final() || !person.may(Right::Operate) {
        return html! {};
    }
    html! {
        (super::controls::form(person, run, "take_over", &html! {
            button { "Take the run over" }
            span.hint { "The agent and its steps stop; the run is yours until you hand it back or end it." }
        }))
    }
}

/// Makes the person the owner of the run.
pub(super) async fn take_over(
    app: &App,
    person: &SignedInUser,
    run: holdpoint_ids::RunId,
) -> Result<(), Problem> {
    let caller = &person.caller;
    // Stored for later: the page shows it when it has happened.
    if let CommandOutcome::Done(taken) = app.command(caller, None, TakeOverRun { run }).await?
        && let Some(id) = handed_to(&taken)
    {
        heard(app, person, id).await;
    }
    Ok(())
}

/// The request by which whoever has just taken the run over gives it back.
fn handed_to(taken: &ChangedRun) -> Option<HoldId> {
    let all = taken.run.waiting_on.iter();
    let mut own = all.filter(|on| on.kind == HoldKind::Handoff && on.step.is_empty());
    own.next().map(|on| on.id)
}

/// Its owner hears of it by a desired state; a page without script is loaded once.
async fn heard(app: &App, person: &SignedInUser, id: HoldId) {
    let by = Instant::now() + HEARD_WAIT;
    let query = GetRequest { id };
    let workspace = &person.caller.workspace;
    while Instant::now() < by && app.bus.query(workspace, &query).await.is_err() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
