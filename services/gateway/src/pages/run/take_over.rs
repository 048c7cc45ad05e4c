//! The button by which an operator takes over a live run, and its command.

use std::time::Duration;

use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::TakeOverRun;
use holdpoint_contracts::handoff::GetRequest;
use holdpoint_contracts::run::{HoldKind, RunView};
use holdpoint_ids::{HoldId, RunId};
use maud::{Markup, html};
use tokio::time::Instant;

use super::super::sanitize::one_line;
use super::super::session::SignedInUser;
use crate::app::App;
use crate::command_outcome::CommandOutcome;

/// Time to wait for the request that hands the run back.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) fn render(user: &SignedInUser, run: &RunView) -> Markup {
    if let Some(by) = &run.taken_over_by {
        return html! {
            p.why { strong { (one_line(by, 120)) } " owns this run. The agent is stopped until the run is completed or handed back below." }
        };
    }
    if run.status.is_final() || !user.may(Right::Operate) {
        return html! {};
    }
    let inside = html! {
        button { "Take the run over" }
        span.hint { "The agent and its steps stop. You own the run until you hand it back or end it." }
    };
    super::controls::form(user, run, "take_over", &inside)
}

/// Makes the user the owner of the run. If the executor is down, the command is stored and the page
/// shows its effect later.
pub(in crate::pages) async fn take_over(
    app: &App,
    user: &SignedInUser,
    run: RunId,
) -> Result<(), Problem> {
    let outcome = app.command(&user.caller, None, TakeOverRun { run }).await?;
    if let CommandOutcome::Done(taken) = outcome {
        let mut holds = taken.run.waiting_on.iter();
        let own = holds.find(|hold| hold.kind == HoldKind::Handoff && hold.step.is_empty());
        if let Some(hold) = own {
            wait_for_request(app, user, hold.id).await;
        }
    }
    Ok(())
}

/// The request arrives at handoff as desired state. A page without the script is loaded only once, so
/// it has to be there before the redirect.
async fn wait_for_request(app: &App, user: &SignedInUser, id: HoldId) {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let query = GetRequest { id };
    let workspace = &user.caller.workspace;
    while Instant::now() < deadline && app.bus.query(workspace, &query).await.is_err() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
