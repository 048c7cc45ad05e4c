//! Deciding a request. Every decision about one request runs through [`decide_request`], whichever way it arrives. A batch
//! of requests has a route of its own.

use holdpoint_contracts::executor::{CheckEditedPlan, GetRun};
use holdpoint_contracts::handoff::{DecideRequest, Decided, Decision, Effect, RequestView};
use holdpoint_contracts::subject::EFFECT_WAIT;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{HoldId, Workspace};
use tokio::time::Instant;

use super::await_request::{query_until, read_when_delivered};
use crate::app::App;
use crate::auth::caller::Caller;
use crate::command_outcome::CommandOutcome;
use crate::redaction::redact_for;

/// Where the arguments that a person edited are in [`DecideRequest`].
const EDITED_ARGS: &str = "/decision/approve/edited_args";

/// Records a decision. The reply contains its effect on the run, or comes after two seconds without it. Its request is
/// redacted as in every other reply: a person who repeats a decision may have lost the request since.
pub(crate) async fn decide_request(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    command: DecideRequest,
) -> Result<CommandOutcome<Decided>, Problem> {
    let deadline = Instant::now() + EFFECT_WAIT;
    check_edited_plan(app, &caller.workspace, command.id, &command.decision).await?;
    let mut decided = match record_decision(app, caller, key, command).await? {
        CommandOutcome::Done(decided) => decided,
        accepted @ CommandOutcome::Accepted(_) => return Ok(accepted),
    };
    if decided.awaits_effect() {
        decided = await_effect(app, &caller.workspace, decided, deadline).await;
    }
    decided.request = redact_for(&caller.claims, decided.request);
    Ok(CommandOutcome::Done(decided))
}

/// Refuses a plan that a person edited and that is not valid. The executor asks again about one that comes another way.
pub(crate) async fn check_edited_plan(
    app: &App,
    workspace: &Workspace,
    request: HoldId,
    decision: &Decision,
) -> Result<(), Problem> {
    let Decision::Approve {
        edited_args: Some(args),
        ..
    } = decision
    else {
        return Ok(());
    };
    if args.get("steps").is_none() {
        return Ok(());
    }
    let query = CheckEditedPlan {
        request,
        args: args.clone(),
    };
    match app.bus.query(workspace, &query).await {
        Err(problem) if problem.status == 422 => {
            let errors = problem.errors.into_iter();
            let errors = errors.map(|error| error.under(EDITED_ARGS)).collect();
            Err(Problem { errors, ..problem })
        }
        // The handoff service takes a decision while the executor is away.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Reads the effect of a decision whose reply has none. A used key returns its first reply at once, and another
/// replica may have committed the effect.
async fn await_effect(
    app: &App,
    workspace: &Workspace,
    decided: Decided,
    deadline: Instant,
) -> Decided {
    let has_effect = |it: &RequestView| it.effect.is_some_and(|effect| effect != Effect::Pending);
    match query_until(app, workspace, decided.request.id, deadline, has_effect).await {
        Ok(request) => Decided {
            effect: request.effect.unwrap_or(Effect::Pending),
            request,
            ..decided
        },
        Err(problem) => {
            tracing::debug!(%problem, "the effect of a decision is unknown; the reply says pending");
            decided
        }
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
