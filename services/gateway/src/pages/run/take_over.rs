//! The button by which an operator takes over a live run, and its command.

use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::TakeOverRun;
use holdpoint_contracts::run::{HoldKind, RunView};
use holdpoint_ids::RunId;
use maud::{Markup, html};

use super::super::sanitize::one_line;
use super::super::session::{SignedInUser, Viewer};
use crate::command_outcome::CommandOutcome;
use crate::use_cases::await_request::read_when_delivered;

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
pub(in crate::pages) async fn take_over(viewer: &Viewer, run: RunId) -> Result<(), Problem> {
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
