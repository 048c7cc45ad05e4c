//! Deciding a request. Every decision of a person runs through [`decide_request`], whichever way it arrives.

use std::time::Duration;

use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{DecideRequest, Decided, Effect};
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::HoldId;
use tokio::time::Instant;

use super::await_request::{QUERY_INTERVAL_MIN, read_when_delivered};
use crate::app::App;
use crate::auth::caller::Caller;
use crate::command_outcome::CommandOutcome;

/// How long a decision waits for its effect on the run.
const EFFECT_WAIT: Duration = Duration::from_secs(2);

/// Records a decision. Then it repeats the command, which changes nothing, until the reply contains the effect on
/// the run.
pub(crate) async fn decide_request(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    command: DecideRequest,
) -> Result<CommandOutcome<Decided>, Problem> {
    match record_decision(app, caller, key, command.clone()).await? {
        CommandOutcome::Done(decided) => {
            let decided = await_effect(app, caller, command, decided).await;
            Ok(CommandOutcome::Done(decided))
        }
        later @ CommandOutcome::Accepted(_) => Ok(later),
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
    match app.command(caller, key.clone(), command.clone()).await {
        Err(problem) if problem.status == 404 => {
            if !has_waiting_run(app, caller, id).await {
                return Err(problem);
            }
            read_when_delivered(app, &caller.workspace, id, true).await?;
            app.command(caller, key, command).await
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

async fn await_effect(
    app: &App,
    caller: &Caller,
    command: DecideRequest,
    mut decided: Decided,
) -> Decided {
    let deadline = Instant::now() + EFFECT_WAIT;
    let mut pause = QUERY_INTERVAL_MIN;
    // Without the version, because the decision has changed it.
    let repetition = DecideRequest {
        version: None,
        ..command
    };
    // A vote that does not decide yet has no effect to wait for.
    let has_effect_to_come =
        |decided: &Decided| decided.effect == Effect::Pending && !decided.request.status.is_open();
    while has_effect_to_come(&decided) && Instant::now() < deadline {
        tokio::time::sleep(pause).await;
        pause *= 2;
        match app.ask(caller, None, repetition.clone()).await {
            Ok(newer) => decided = newer,
            Err(problem) => {
                tracing::debug!(%problem, "the effect of a decision is unknown; the reply says pending");
                return decided;
            }
        }
    }
    decided
}
