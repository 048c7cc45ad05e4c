//! Decisions and other actions on requests, one or several, with the version that the user has seen.

use std::collections::BTreeMap;

use anyhow::bail;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decided, Effect, RequestView, Votes};
use holdpoint_contracts::run::{ChangedRun, HoldKind};
use holdpoint_ids::{HoldId, RunId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::open_hold::{OpenedHold, opened_text, wait_until_closed};
use crate::cli::requests::{ActCommand, AskAgainArgs, DecisionOptions, RequestRef, RequestRefs};
use crate::client::{Body, item_path};
use crate::command::short_id::Listed;
use crate::command::{Session, add_options, body_of, instant};
use crate::exit::{ExitKind, Usage};
use crate::output;

#[derive(Debug, Deserialize)]
struct BatchResult {
    items: Vec<DecisionResult>,
}

#[derive(Debug, Deserialize)]
struct DecisionResult {
    id: String,
    effect: Option<Effect>,
    votes: Option<Votes>,
    problem: Option<Problem>,
}

pub(super) async fn perform(session: &Session, command: ActCommand) -> anyhow::Result<ExitKind> {
    let nothing = json!({});
    match command {
        ActCommand::Reject { requests, reason } => {
            decide(session, &requests, "reject", json!({ "reason": reason })).await
        }
        ActCommand::Revise {
            requests,
            instructions,
        } => {
            let body = json!({ "instructions": instructions });
            decide(session, &requests, "revise", body).await
        }
        ActCommand::Complete(args) => {
            let body = json!({
                "notes": args.notes,
                "outcome_type": args.outcome,
                "disposition": args.disposition,
            });
            decide(session, &args.requests, "complete", body).await
        }
        ActCommand::Respond { request, answer } => {
            decide_one(session, &request, "respond", json!({ "answer": answer })).await
        }
        ActCommand::TakeOver { id, seen } => take_over(session, id, seen).await,
        ActCommand::AskAgain(args) => ask_again(session, &args).await,
        ActCommand::Accept(request) => act(session, &request, "accept", nothing).await,
        ActCommand::Acknowledge(request) => act(session, &request, "acknowledge", nothing).await,
        ActCommand::Withdraw(request) => act(session, &request, "withdraw", nothing).await,
        ActCommand::Reassign { request, to } => {
            act(session, &request, "reassign", json!({ "to": to })).await
        }
        ActCommand::Delegate { request, to } => {
            act(session, &request, "delegate", json!({ "to": to })).await
        }
        ActCommand::Snooze { request, time } => {
            act(session, &request, "snooze", json!({ "for": time })).await
        }
    }
}

/// Gives one or several requests the same decision: a verb of the API with its body.
pub(super) async fn decide(
    session: &Session,
    refs: &RequestRefs,
    verb: &str,
    body: Value,
) -> anyhow::Result<ExitKind> {
    let DecisionOptions { seen, all_or_none } = &refs.options;
    let requests = &session.whole_ids(Listed::Requests, &refs.requests).await?;
    if !seen.is_empty() && seen.len() != requests.len() {
        bail!(Usage(format!(
            "--version must be given once per request; there are {} versions for {} requests",
            seen.len(),
            requests.len()
        )));
    }
    if let ([request], false) = (requests.as_slice(), *all_or_none) {
        let request = RequestRef {
            request: request.clone(),
            seen: seen.first().copied(),
        };
        return decide_one(session, &request, verb, body).await;
    }
    let versions = requests.iter().zip(seen);
    let versions: BTreeMap<_, _> = versions.collect();
    let body = json!({
        "ids": requests, "decision": { verb: body }, "atomic": all_or_none, "versions": versions,
    });
    let batch: Body<BatchResult> = session.client.post("requests:batch", &body).await?;
    session.show(&batch, |batch| {
        let lines: Vec<_> = batch.items.iter().map(DecisionResult::line).collect();
        lines.join("\n")
    })?;
    let problems = batch.value.items.iter().map(|item| item.problem.as_ref());
    Ok(ExitKind::of_many(problems.map(|problem| {
        problem.map_or(ExitKind::Ok, |problem| ExitKind::of_status(problem.status))
    })))
}

async fn decide_one(
    session: &Session,
    request: &RequestRef,
    verb: &str,
    body: Value,
) -> anyhow::Result<ExitKind> {
    let text = |decided: &Decided| {
        let result = DecisionResult {
            id: decided.request.id.to_string(),
            effect: Some(decided.effect),
            votes: decided.request.votes_so_far(),
            problem: None,
        };
        result.line()
    };
    post(session, request, verb, body, text).await
}

impl DecisionResult {
    fn line(&self) -> String {
        let text = match &self.problem {
            Some(problem) => problem.detail.clone(),
            None => self.effect_text(),
        };
        format!("{}  {text}", self.id)
    }

    /// The effect of a recorded decision. A vote decides nothing yet, and a standalone hold has no run.
    fn effect_text(&self) -> String {
        if let Some(votes) = &self.votes {
            return format!("recorded; {} of {} approvals", votes.have, votes.need);
        }
        let is_standalone = self.id.parse().is_ok_and(HoldId::is_standalone);
        let text = match self.effect {
            Some(Effect::Pending) | None if is_standalone => "recorded; not decided yet",
            Some(Effect::Applied) => "recorded and applied",
            Some(Effect::OnResume) => "recorded; it takes effect when the run is resumed",
            Some(Effect::RunEnded) => "recorded; the run had already ended",
            Some(Effect::Pending) | None => "recorded; it is not applied to the run yet",
        };
        text.to_owned()
    }
}

/// Posts an action together with the version that the user has seen.
async fn post<T: DeserializeOwned>(
    session: &Session,
    request: &RequestRef,
    verb: &str,
    mut body: Value,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<ExitKind> {
    let path = session.path(Listed::Requests, &request.request).await?;
    add_options(&mut body, json!({ "version": request.seen }));
    session.post(&format!("{path}/{verb}"), &body, text).await
}

async fn act(
    session: &Session,
    request: &RequestRef,
    verb: &str,
    body: Value,
) -> anyhow::Result<ExitKind> {
    let text = |request: &RequestView| {
        let assignee = request.assignee.as_deref().unwrap_or("unassigned");
        let snoozed = request.snoozed_until;
        let snoozed = snoozed.map(|until| format!("  snoozed until {}", instant(until)));
        let (status, snoozed) = (request.status.as_str(), snoozed.unwrap_or_default());
        format!("{}  {status}  {assignee}{snoozed}", request.id)
    };
    post(session, request, verb, body, text).await
}

/// Takes over the run of a handoff, or a live run by its id. In the second case the text says how to
/// return it, because only the new hold has the id for that.
async fn take_over(session: &Session, id: String, seen: Option<u64>) -> anyhow::Result<ExitKind> {
    let id = session.whole_id(Listed::Runs, &id).await?;
    let Ok(run) = id.parse::<RunId>() else {
        let request = RequestRef { request: id, seen };
        return act(session, &request, "take-over", json!({})).await;
    };
    if seen.is_some() {
        bail!(Usage(format!(
            "--version needs the id of a request, but `{run}` is a run"
        )));
    }
    let path = format!("runs/{run}/take-over");
    let text = |taken: &ChangedRun| {
        let mut holds = taken.run.waiting_on.iter();
        let hold = holds.find(|hold| hold.kind == HoldKind::Handoff && hold.step.is_empty());
        let give_back = hold.map(|hold| {
            let id = hold.id;
            format!("; give it back: holdpoint complete {id} --then return_to_agent|finish")
        });
        let by = taken.run.taken_over_by.as_deref().unwrap_or("you");
        format!("{run}  taken over by {by}{}", give_back.unwrap_or_default())
    };
    session.post(&path, &json!({}), text).await
}

/// Opens a new request for one that ended without a decision.
async fn ask_again(session: &Session, args: &AskAgainArgs) -> anyhow::Result<ExitKind> {
    let id = session.whole_id(Listed::Requests, &args.request).await?;
    let path = format!("{}/ask-again", item_path("requests", &id)?);
    let body = body_of(json!({ "to": args.to, "timeout": args.timeout }));
    let opened: Body<OpenedHold> = session.client.post(&path, &body).await?;
    if args.wait {
        output::note(&format!("{id} is asked again"));
        return wait_until_closed(session, &opened.value).await;
    }
    session.show(&opened, opened_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vote decides nothing yet, and a standalone hold has no run.
    #[test]
    fn a_vote_is_not_shown_as_waiting_for_a_run() {
        let words = |number: u32, votes: Value| {
            let result = json!({
                "id": format!("hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-{number}"),
                "effect": "pending", "votes": votes,
            });
            serde_json::from_value::<DecisionResult>(result)
                .unwrap()
                .effect_text()
        };
        let votes = json!({ "have": 1, "need": 2 });
        for number in [0, 1] {
            assert_eq!(words(number, votes.clone()), "recorded; 1 of 2 approvals");
        }
        assert_eq!(words(0, Value::Null), "recorded; not decided yet");
        let of_run = words(1, Value::Null);
        assert_eq!(of_run, "recorded; it is not applied to the run yet");
    }
}
