//! Deciding a request. Every decision of a person runs through [`decide_request`], whichever way it arrives.

use std::time::Duration;

use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{DecideRequest, Decided};
use holdpoint_contracts::subject::EFFECT_WAIT;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::HoldId;
use tokio::time::{Instant, timeout, timeout_at};

use super::await_request::read_when_delivered;
use crate::app::App;
use crate::auth::caller::Caller;
use crate::command_outcome::CommandOutcome;

/// Longest time of the last repetition.
const REPETITION_MAX: Duration = Duration::from_millis(500);

/// Records a decision. The reply contains its effect on the run, or comes after two seconds without it.
pub(crate) async fn decide_request(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    command: DecideRequest,
) -> Result<CommandOutcome<Decided>, Problem> {
    let deadline = Instant::now() + EFFECT_WAIT;
    match record_decision(app, caller, key, command.clone()).await? {
        CommandOutcome::Done(decided) if decided.awaits_effect() => {
            let decided = read_effect(app, caller, command, decided, deadline).await;
            Ok(CommandOutcome::Done(decided))
        }
        outcome @ (CommandOutcome::Done(_) | CommandOutcome::Accepted(_)) => Ok(outcome),
    }
}

/// Repeats a decision whose reply has no effect, which changes nothing. A used key returns its first reply at once,
/// and another replica may have committed the effect.
async fn read_effect(
    app: &App,
    caller: &Caller,
    command: DecideRequest,
    decided: Decided,
    deadline: Instant,
) -> Decided {
    // Without the version, because the decision has changed it.
    let repetition = DecideRequest {
        version: None,
        ..command
    };
    let for_effect = app.ask_for_effect(caller, None, repetition.clone());
    if Instant::now() < deadline
        && let Ok(Ok(newer)) = timeout_at(deadline, for_effect).await
        && !newer.awaits_effect()
    {
        return newer;
    }
    let once_more = timeout(REPETITION_MAX, app.ask(caller, None, repetition));
    match once_more.await {
        Ok(Ok(newer)) => newer,
        Ok(Err(problem)) => {
            tracing::debug!(%problem, "the effect of a decision is unknown; the reply says pending");
            decided
        }
        Err(_elapsed) => decided,
    }
}

/// Sends the command. A run shows its request a moment before the handoff service has it: then the decision
/// waits for the request (C-3).
async fn record_decision(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    command: DecideRequest,
) -> Result<CommandOutcome<Decided>, Problem> {
    let id = command.id;
    match app
        .command_for_effect(caller, key.clone(), command.clone())
        .await
    {
        Err(problem) if problem.status == 404 => {
            if !has_waiting_run(app, caller, id).await {
                return Err(problem);
            }
            read_when_delivered(app, &caller.workspace, id, true).await?;
            app.command_for_effect(caller, key, command).await
        }
        outcome => outcome,
    }
}

async fn has_waiting_run(app: &App, caller: &Caller, id: HoldId) -> bool {
    let query = GetRun::of(id.run);
    match app.bus.query(&caller.workspace, &query).await {
        Ok(run) => run.waiting_on.iter().any(|on| on.id == id),
        Err(_no_such_run) => false,
    }
}
