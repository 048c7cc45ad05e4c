//! Deciding several gated steps of a run (S2-R4). Each one is decided by [`decide_request`], which checks every
//! right; a step is only another name of its request.

use std::collections::{HashMap, HashSet};

use futures_util::{StreamExt, stream};
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{
    DecideRequest, Decided, Decision, Effect, ListRequests, RequestView, Votes,
};
use holdpoint_contracts::run::{HoldKind, Page, RunView};
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{HoldId, RunId};
use serde_json::json;

use super::decide_request::decide_request;
use crate::app::App;
use crate::auth::caller::Caller;
use crate::body::key_of_part;
use crate::command_outcome::CommandOutcome;

/// Decisions that are sent at the same time.
const AT_ONCE: usize = 16;

/// Requests of a run that are read at once.
const REQUESTS_PER_PAGE: u64 = 500;

/// The decision for one step.
#[derive(Debug, Clone)]
pub(crate) struct StepDecision {
    pub(crate) step: String,
    pub(crate) decision: Decision,
}

/// A recorded decision. A command that was stored for later has a pending effect.
#[derive(Debug)]
pub(crate) struct DecidedStep {
    pub(crate) request: HoldId,
    pub(crate) recorded: bool,
    pub(crate) effect: Effect,
    /// The votes so far, if more are needed.
    pub(crate) votes: Option<Votes>,
}

/// The result for each step, in the order of the decisions.
///
/// # Errors
/// Nothing is decided if a step is unknown, or has not asked for an approval.
pub(crate) async fn decide_steps(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    run: RunId,
    decisions: Vec<StepDecision>,
) -> Result<Vec<(String, Result<DecidedStep, Problem>)>, Problem> {
    let view = app.bus.query(&caller.workspace, &GetRun::of(run)).await?;
    check_known(&view, &decisions)?;
    let requests = find_requests(app, caller, &view, &decisions).await?;
    let results = stream::iter(requests.into_iter().zip(decisions)).map(|(id, one)| {
        // The step and not the request: a repetition gets the first reply, even if the step asks again now.
        let part = key.as_ref();
        let part = part.map(|key| key_of_part(key, &one.step, key.digest.as_bytes()));
        let command = DecideRequest {
            id,
            decision: one.decision,
            version: None,
        };
        async move {
            let decided = decide_request(app, caller, part, command).await;
            (one.step, decided.map(|outcome| summarize(id, outcome)))
        }
    });
    Ok(results.buffered(AT_ONCE).collect().await)
}

fn check_known(run: &RunView, decisions: &[StepDecision]) -> Result<(), Problem> {
    let known: HashSet<_> = run.steps.iter().map(|step| step.id.as_str()).collect();
    let mut unknown = decisions.iter().map(|one| &one.step);
    match unknown.find(|step| !known.contains(step.as_str())) {
        None => Ok(()),
        Some(step) => {
            let detail = format!("run `{}` has no step `{step}`; see its `steps`", run.id);
            Err(Problem::new(422, "unknown_step", detail).with_data(json!({ "step": step })))
        }
    }
}

/// The newest approval request of each step. A decided one refuses the decision itself, and says who decided.
async fn find_requests(
    app: &App,
    caller: &Caller,
    run: &RunView,
    decisions: &[StepDecision],
) -> Result<Vec<HoldId>, Problem> {
    let open = run.waiting_on.iter();
    let open = open.filter(|on| on.kind == HoldKind::Approval && !on.step.is_empty());
    let mut requests: HashMap<_, _> = open.map(|on| (on.step.clone(), on.id)).collect();
    if decisions
        .iter()
        .any(|one| !requests.contains_key(&one.step))
    {
        add_decided(app, caller, run.id, &mut requests).await?;
    }
    let found = decisions.iter().map(|one| {
        let id = requests.get(&one.step).copied();
        id.ok_or_else(|| not_reviewable_yet(&one.step))
    });
    found.collect()
}

async fn add_decided(
    app: &App,
    caller: &Caller,
    run: RunId,
    requests: &mut HashMap<String, HoldId>,
) -> Result<(), Problem> {
    let mut query = ListRequests {
        limit: REQUESTS_PER_PAGE,
        kind: Some(HoldKind::Approval),
        run: Some(run),
        ..ListRequests::default()
    };
    let mut newest: HashMap<String, HoldId> = HashMap::new();
    loop {
        let page: Page<RequestView> = app.bus.query(&caller.workspace, &query).await?;
        for request in page.items {
            let Some(step) = request.step else {
                continue;
            };
            let id = newest.entry(step).or_insert(request.id);
            if request.id.number > id.number {
                *id = request.id;
            }
        }
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    for (step, id) in newest {
        requests.entry(step).or_insert(id);
    }
    Ok(())
}

fn not_reviewable_yet(step: &str) -> Problem {
    let detail = format!(
        "step `{step}` has not asked for an approval; it can be decided once the run's `waiting_on` names it"
    );
    Problem::new(409, "not_reviewable_yet", detail).with_data(json!({ "step": step }))
}

fn summarize(request: HoldId, outcome: CommandOutcome<Decided>) -> DecidedStep {
    match outcome {
        CommandOutcome::Done(decided) => DecidedStep {
            request,
            recorded: decided.recorded,
            effect: decided.effect,
            votes: decided.request.votes_so_far(),
        },
        CommandOutcome::Accepted(_) => DecidedStep {
            request,
            recorded: true,
            effect: Effect::Pending,
            votes: None,
        },
    }
}
