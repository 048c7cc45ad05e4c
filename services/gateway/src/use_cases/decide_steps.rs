//! Deciding several gated steps of a run (S2-R4). Each one is decided by [`decide_request`], which checks every
//! right; a step is only another name of its request.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::{StreamExt, stream};
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{
    CreateStandingApproval, DecideRequest, Decided, Decision, Effect, ListRequests, PlannedCall,
    RequestView, StandingApprovalTerms, Votes,
};
use holdpoint_contracts::run::{HoldKind, Page, RunView};
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{HoldId, RunId, StandingApprovalId};
use serde_json::json;

use super::decide_request::decide_request;
use crate::app::App;
use crate::auth::caller::Caller;
use crate::body::{invalid_field, key_of_part};
use crate::command_outcome::CommandOutcome;
use crate::redaction::runs::parent_of;

/// Decisions that are sent at the same time.
const AT_ONCE: usize = 16;

/// How long an early approval may be used: 90 days, the longest life of a standing approval.
const EARLY_APPROVAL_MS: u64 = 90 * 24 * 60 * 60 * 1_000;

/// Requests of a run that are read at once.
const REQUESTS_PER_PAGE: u64 = 500;

/// The decision for one step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepDecision {
    pub(crate) step: String,
    pub(crate) decision: Decision,
    /// Of a step with `for_each`: the digests of the calls that the person has seen, by the id of the call.
    pub(crate) seen: BTreeMap<String, String>,
}

/// A recorded decision. A command that was stored for later has a pending effect.
#[derive(Debug)]
pub(crate) struct DecidedStep {
    /// None: the step has not been reached, and `early` is what approves its call then.
    pub(crate) request: Option<HoldId>,
    pub(crate) early: Option<StandingApprovalId>,
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
    let decisions = with_calls(&view, decisions)?;
    let targets = find_targets(app, caller, &view, &decisions).await?;
    let results = stream::iter(targets.into_iter().zip(decisions)).map(|(target, one)| {
        // The step and not the request: a repetition gets the first reply, even if the step asks again now.
        let part = key.as_ref();
        let part = part.map(|key| key_of_part(key, &one.step, key.digest.as_bytes()));
        async move {
            let decided = match target {
                Target::Request(id) => {
                    let command = DecideRequest {
                        id,
                        decision: one.decision,
                        version: None,
                        silent: true,
                    };
                    let decided = decide_request(app, caller, part, command).await;
                    decided.map(|outcome| summarize(id, outcome))
                }
                Target::Early(terms) => approve_early(app, caller, part, *terms).await,
            };
            (one.step, decided)
        }
    });
    Ok(results.buffered(AT_ONCE).collect().await)
}

fn check_known(run: &RunView, decisions: &[StepDecision]) -> Result<(), Problem> {
    let known: HashSet<_> = run.steps.iter().map(|step| step.id.as_str()).collect();
    // The view leaves ended calls of a large step out.
    let parents = parents(run);
    let is_call = |step: &str| parent_of(step).is_some_and(|parent| parents.contains(parent));
    let mut steps = decisions.iter().map(|one| one.step.as_str());
    match steps.find(|step| !known.contains(step) && !is_call(step)) {
        None => Ok(()),
        Some(step) => {
            let detail = format!("run `{}` has no step `{step}`; see its `steps`", run.id);
            Err(Problem::new(422, "unknown_step", detail).with_data(json!({ "step": step })))
        }
    }
}

/// The steps with `for_each` that have begun.
fn parents(run: &RunView) -> HashSet<&str> {
    let parents = run.steps.iter().filter(|step| step.items.is_some());
    parents.map(|step| step.id.as_str()).collect()
}

/// Replaces the decision for a step with `for_each` by one for each call of it that the person has seen. Calls that came
/// later stay undecided.
fn with_calls(run: &RunView, decisions: Vec<StepDecision>) -> Result<Vec<StepDecision>, Problem> {
    let parents = parents(run);
    let mut all = Vec::with_capacity(decisions.len());
    for one in decisions {
        let is_parent = parents.contains(one.step.as_str());
        if is_parent && has_edited_args(&one.decision) {
            let pointer = format!("/edited_args/{}", one.step);
            let message = "must be one call, because each call of a step with `for_each` has arguments of its own";
            return Err(invalid_field(&pointer, message));
        }
        match one.seen.keys().next() {
            None if is_parent => {
                let step = &one.step;
                let message = format!(
                    "must name the calls of `{step}` that you have seen, each with its digest"
                );
                return Err(invalid_field("/digests", &message));
            }
            Some(call) if !is_parent => {
                let pointer = format!("/digests/{call}");
                let message =
                    "must be one of `approved_steps`, or a call of a step with `for_each`";
                return Err(invalid_field(&pointer, message));
            }
            None => all.push(one),
            Some(_) => {
                let of_call = |(step, digest)| StepDecision {
                    step,
                    decision: with_digest(&one.decision, digest),
                    seen: BTreeMap::new(),
                };
                all.extend(one.seen.into_iter().map(of_call));
            }
        }
    }
    Ok(all)
}

const fn has_edited_args(decision: &Decision) -> bool {
    matches!(
        decision,
        Decision::Approve {
            edited_args: Some(_),
            ..
        }
    )
}

/// The same decision about a call with this digest. A rejection needs none: it starts nothing.
fn with_digest(decision: &Decision, digest: String) -> Decision {
    match decision.clone() {
        Decision::Approve {
            comment,
            edited_args,
            ..
        } => Decision::Approve {
            comment,
            edited_args,
            digest: Some(digest),
        },
        other @ (Decision::Respond { .. }
        | Decision::Reject { .. }
        | Decision::Revise { .. }
        | Decision::Complete(_)) => other,
    }
}

/// What a decision about a step is recorded with.
enum Target {
    /// Its newest approval request. A decided one refuses the decision itself, and says who decided.
    Request(HoldId),
    /// The step has not been reached: an approval that votes for its request then.
    Early(Box<StandingApprovalTerms>),
}

async fn find_targets(
    app: &App,
    caller: &Caller,
    run: &RunView,
    decisions: &[StepDecision],
) -> Result<Vec<Target>, Problem> {
    let open = run.waiting_on.iter();
    let open = open.filter(|on| on.kind == HoldKind::Approval && !on.step.is_empty());
    let mut requests: HashMap<_, _> = open.map(|on| (on.step.clone(), on.id)).collect();
    let early = run.steps.iter().filter(|step| step.early_call.is_some());
    let early: HashSet<_> = early.map(|step| &step.id).collect();
    let is_found = |step: &String| requests.contains_key(step) || early.contains(step);
    if !decisions.iter().all(|one| is_found(&one.step)) {
        add_decided(app, caller, run.id, &mut requests).await?;
    }
    let found = decisions.iter().map(|one| match requests.get(&one.step) {
        Some(id) => Ok(Target::Request(*id)),
        None => early_target(run, one),
    });
    found.collect()
}

/// The early approval of a call that is known before its step is reached.
fn early_target(run: &RunView, one: &StepDecision) -> Result<Target, Problem> {
    let step = run.steps.iter().find(|step| step.id == one.step);
    let call = step.and_then(|step| Some((step.tool.clone()?, step.early_call.as_ref()?)));
    let Decision::Approve {
        comment,
        edited_args: None,
        digest,
    } = &one.decision
    else {
        return Err(not_reviewable_yet(&one.step));
    };
    let Some((tool, call)) = call else {
        return Err(not_reviewable_yet(&one.step));
    };
    if digest.as_ref().is_some_and(|seen| *seen != call.digest) {
        let detail = format!("the call of step `{}` has another digest now", one.step);
        let data = json!({ "step": one.step, "digest": call.digest });
        return Err(Problem::new(409, "digest_mismatch", detail).with_data(data));
    }
    Ok(Target::Early(Box::new(StandingApprovalTerms {
        agent: run.agent.clone(),
        tool,
        version: call.version.clone(),
        args_schema: json!({}),
        max_uses: 1,
        expires_in: EARLY_APPROVAL_MS,
        reason: comment.clone(),
        call: Some(PlannedCall {
            run: run.id,
            step: one.step.clone(),
            digest: call.digest.clone(),
        }),
    })))
}

async fn approve_early(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    terms: StandingApprovalTerms,
) -> Result<DecidedStep, Problem> {
    caller.in_person()?;
    let id = StandingApprovalId::fresh();
    let command = CreateStandingApproval { id, terms };
    let outcome = app.command(caller, key, command).await?;
    let early = match outcome {
        CommandOutcome::Done(view) => view.id,
        CommandOutcome::Accepted(_) => id,
    };
    Ok(DecidedStep {
        request: None,
        early: Some(early),
        recorded: true,
        effect: Effect::Pending,
        votes: None,
    })
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
        "step `{step}` has not asked for an approval; it can be decided once the run's `waiting_on` names it. A step with `early_call` can be approved before it asks, without edits"
    );
    Problem::new(409, "not_reviewable_yet", detail).with_data(json!({ "step": step }))
}

fn summarize(request: HoldId, outcome: CommandOutcome<Decided>) -> DecidedStep {
    match outcome {
        CommandOutcome::Done(decided) => DecidedStep {
            request: Some(request),
            early: None,
            recorded: decided.recorded,
            effect: decided.effect,
            votes: decided.request.votes_so_far(),
        },
        CommandOutcome::Accepted(_) => DecidedStep {
            request: Some(request),
            early: None,
            recorded: true,
            effect: Effect::Pending,
            votes: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with a fan-out `pay` that has begun, and a gated step `note` with a literal call.
    fn run() -> RunView {
        let step = |id: &str| {
            json!({ "id": id, "kind": "tool", "status": "in_progress", "tool": "pay", "action": "",
                "request": null, "response": null, "error_code": null, "dispatch": 0, "attempts": 0,
                "claimed_by": null })
        };
        let (mut pay, mut note) = (step("pay"), step("note"));
        pay["items"] =
            json!({ "total": 3, "completed": 0, "failed": 0, "skipped": 0, "in_progress": 3 });
        note["early_call"] = json!({ "args": { "n": 1 }, "digest": "8f43" });
        let run = json!({
            "id": "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee", "agent": "refund", "version": 1,
            "status": "awaiting_approval", "resume_at": null, "message": "", "contact": null,
            "labels": {}, "waiting_on": [], "paused_by": [], "result": null, "failure": null,
            "clocks": { "active_ms": 0, "queued_ms": 0, "human_ms": 0 },
            "created_at": "2026-01-01T00:00:00Z", "ended_at": null, "steps": [pay, note],
        });
        serde_json::from_value(run).unwrap()
    }

    fn approve(step: &str, seen: &[(&str, &str)], digest: Option<&str>) -> StepDecision {
        let own = |(id, digest): &(&str, &str)| ((*id).to_owned(), (*digest).to_owned());
        StepDecision {
            step: step.to_owned(),
            decision: Decision::Approve {
                comment: None,
                edited_args: None,
                digest: digest.map(str::to_owned),
            },
            seen: seen.iter().map(own).collect(),
        }
    }

    /// Gate: a decision about a fan-out concerns the calls that the person has seen.
    #[test]
    fn a_fan_out_is_decided_by_the_calls_that_were_seen() {
        let seen = [("pay-0", "aa"), ("pay-2", "cc")];
        let all = with_calls(&run(), vec![approve("pay", &seen, None)]).unwrap();
        let expected = seen.map(|(id, digest)| approve(id, &[], Some(digest)));
        assert_eq!(all, expected);
        let plain = approve("note", &[], None);
        let kept = with_calls(&run(), vec![plain.clone()]).unwrap();
        assert_eq!(kept, [plain]);
        let mut edited = approve("pay", &seen, None);
        edited.decision = Decision::Approve {
            comment: None,
            edited_args: Some(json!({ "amount": 1 })),
            digest: None,
        };
        let unseen = approve("pay", &[], None);
        for wrong in [unseen, approve("note", &seen, None), edited] {
            let refused = with_calls(&run(), vec![wrong]).unwrap_err();
            assert_eq!((refused.status, &*refused.code), (422, "invalid_body"));
        }
    }

    /// Gate: before its step, only the literal call itself can be approved.
    #[test]
    fn an_early_approval_names_the_literal_call() {
        let run = run();
        let Ok(Target::Early(terms)) = early_target(&run, &approve("note", &[], Some("8f43")))
        else {
            panic!("no early approval");
        };
        let call = terms.call.unwrap();
        assert_eq!(
            (&*call.step, &*call.digest, terms.max_uses),
            ("note", "8f43", 1)
        );
        let code = |one: &StepDecision| match early_target(&run, one) {
            Err(problem) => problem.code,
            Ok(_) => panic!("{one:?}"),
        };
        assert_eq!(code(&approve("note", &[], Some("77aa"))), "digest_mismatch");
        assert_eq!(code(&approve("pay", &[], None)), "not_reviewable_yet");
        let rejected = StepDecision {
            decision: Decision::Reject {
                reason: "no".to_owned(),
            },
            ..approve("note", &[], None)
        };
        assert_eq!(code(&rejected), "not_reviewable_yet");
        let mut edited = approve("note", &[], None);
        edited.decision = Decision::Approve {
            comment: None,
            edited_args: Some(json!({ "n": 2 })),
            digest: None,
        };
        assert_eq!(code(&edited), "not_reviewable_yet");
    }
}
