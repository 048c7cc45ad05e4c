//! Deciding requests and acting on them, one or several, as they were seen.

use anyhow::bail;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decided, Effect, RequestView, Votes};
use holdpoint_contracts::run::{ChangedRun, HoldKind};
use holdpoint_ids::{HoldId, RunId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Opened, read_answer, set, show, until_closed};
use crate::cli::{ActCommand, AskAgainArgs, HowArgs, OneArgs, WhichArgs};
use crate::client::{Body, segment};
use crate::command::short_id::Listed;
use crate::command::{Session, instant};
use crate::exit::{Outcome, Usage};
use crate::output;

/// A verb of the API, and the body that goes with it.
type Said = (&'static str, Value);

/// What became of several.
#[derive(Debug, Deserialize)]
struct Results {
    items: Vec<One>,
}

/// What became of one of several.
#[derive(Debug, Deserialize)]
struct One {
    id: String,
    effect: Option<Effect>,
    #[serde(default)]
    votes: Option<Votes>,
    problem: Option<Problem>,
}

/// What somebody does with requests that are there.
pub(super) async fn perform(session: &Session, command: ActCommand) -> anyhow::Result<Outcome> {
    match command {
        ActCommand::Reject { which, reason } => {
            let WhichArgs { requests, how } = which;
            let said = ("reject", json!({ "reason": reason }));
            decide(session, &requests, &how, said).await
        }
        ActCommand::Respond { which, answer } => {
            let body = json!({ "answer": read_answer(answer) });
            decide_one(session, &which, ("respond", body)).await
        }
        ActCommand::Accept(which) => act(session, &which, ("accept", json!({}))).await,
        ActCommand::TakeOver { id, seen } => take_over(session, id, seen).await,
        ActCommand::Reassign { which, to } => {
            act(session, &which, ("reassign", json!({ "to": to }))).await
        }
        ActCommand::Delegate { which, to } => {
            act(session, &which, ("delegate", json!({ "to": to }))).await
        }
        ActCommand::Acknowledge(which) => act(session, &which, ("acknowledge", json!({}))).await,
        ActCommand::Snooze { which, time } => {
            act(session, &which, ("snooze", json!({ "for": time }))).await
        }
        ActCommand::Withdraw(which) => act(session, &which, ("withdraw", json!({}))).await,
        ActCommand::AskAgain(args) => ask_again(session, &args).await,
        ActCommand::Complete(args) => {
            let body = json!({
                "notes": args.notes,
                "outcome_type": args.outcome,
                "disposition": args.disposition,
            });
            let WhichArgs { requests, how } = args.which;
            decide(session, &requests, &how, ("complete", body)).await
        }
    }
}

/// Decides one, or several alike.
pub(super) async fn decide(
    session: &Session,
    requests: &[String],
    how: &HowArgs,
    said: Said,
) -> anyhow::Result<Outcome> {
    let HowArgs { seen, all_or_none } = how;
    let requests = &session.whole_ids(Listed::Requests, requests).await?;
    if !seen.is_empty() && seen.len() != requests.len() {
        bail!(Usage(format!(
            "--version stands once for each request: {} for {}",
            seen.len(),
            requests.len()
        )));
    }
    if let ([request], false) = (requests.as_slice(), *all_or_none) {
        let which = OneArgs {
            request: request.clone(),
            seen: seen.first().copied(),
        };
        return decide_one(session, &which, said).await;
    }
    let versions: Map<_, _> = requests
        .iter()
        .zip(seen)
        .map(|(id, version)| (id.clone(), json!(version)))
        .collect();
    let (verb, body) = said;
    let body = json!({
        "ids": requests, "decision": { verb: body }, "atomic": all_or_none, "versions": versions,
    });
    let answer: Body<Results> = session.client.post("requests:batch", &body).await?;
    let items = answer.value.items.iter();
    let outcome = Outcome::of_many(items.map(|one| match &one.problem {
        Some(problem) => Outcome::of_status(problem.status),
        None => Outcome::Ok,
    }));
    show(session, &answer, |results| {
        let lines = results.items.iter().map(|one| match &one.problem {
            Some(problem) => format!("{}  {}", one.id, problem.detail),
            None => format!("{}  {}", one.id, one.in_words()),
        });
        lines.collect::<Vec<_>>().join("\n")
    })?;
    Ok(outcome)
}

/// Decides one.
async fn decide_one(session: &Session, which: &OneArgs, said: Said) -> anyhow::Result<Outcome> {
    let (path, body) = request(session, which, said).await?;
    let answer: Body<Decided> = session.client.post(&path, &body).await?;
    show(session, &answer, |decided| {
        let one = One {
            id: decided.request.id.to_string(),
            effect: Some(decided.effect),
            votes: decided.request.votes_so_far(),
            problem: None,
        };
        format!("{}  {}", one.id, one.in_words())
    })
}

impl One {
    /// What was recorded. A vote decides nothing yet, and behind a hold that stands alone is no run.
    fn in_words(&self) -> String {
        let is_runs = !self.id.parse().is_ok_and(HoldId::is_standalone);
        match (&self.votes, self.effect) {
            (Some(votes), _) => format!("recorded; {} of {} approvals", votes.have, votes.need),
            (None, Some(Effect::Pending) | None) if !is_runs => {
                "recorded; not decided yet".to_owned()
            }
            (None, effect) => in_words(effect).to_owned(),
        }
    }
}

const fn in_words(effect: Option<Effect>) -> &'static str {
    match effect {
        Some(Effect::Applied) => "recorded; it goes on",
        Some(Effect::OnResume) => "recorded; it takes effect when the run is resumed",
        Some(Effect::RunEnded) => "recorded; the run had ended before",
        Some(Effect::Pending) | None => "recorded; the run has not been reached yet",
    }
}

/// Where a request is acted on, and with what.
async fn request(
    session: &Session,
    which: &OneArgs,
    (verb, mut body): Said,
) -> anyhow::Result<(String, Value)> {
    let id = session.whole_id(Listed::Requests, &which.request).await?;
    let path = format!("requests/{}/{verb}", segment(&id)?);
    if let Some(seen) = which.seen {
        set(&mut body, "version", json!(seen));
    }
    Ok((path, body))
}

/// Something short of deciding.
async fn act(session: &Session, which: &OneArgs, said: Said) -> anyhow::Result<Outcome> {
    let (path, body) = request(session, which, said).await?;
    let answer: Body<RequestView> = session.client.post(&path, &body).await?;
    show(session, &answer, |request| {
        let whose = request.assignee.as_deref().unwrap_or("nobody yet");
        let away = request
            .snoozed_until
            .map(|until| format!("  away until {}", instant(until)));
        let away = away.unwrap_or_default();
        format!("{}  {}  {whose}{away}", request.id, request.status.as_str())
    })
}

/// By a request, or any live run by its own id: then what is printed says how to give it back.
async fn take_over(session: &Session, id: String, seen: Option<u64>) -> anyhow::Result<Outcome> {
    let id = session.whole_id(Listed::Runs, &id).await?;
    let Ok(run) = id.parse::<RunId>() else {
        let which = OneArgs { request: id, seen };
        return act(session, &which, ("take-over", json!({}))).await;
    };
    if seen.is_some() {
        bail!(Usage(format!(
            "--version goes with the id of a request, and `{run}` is a run"
        )));
    }
    let path = format!("runs/{run}/take-over");
    let answer: Body<ChangedRun> = session.client.post(&path, &json!({})).await?;
    show(session, &answer, |taken| {
        let own = taken.run.waiting_on.iter();
        let mut own = own.filter(|on| on.kind == HoldKind::Handoff && on.step.is_empty());
        let back = own.next().map(|on| {
            let id = on.id;
            format!("; give it back: holdpoint complete {id} --then return_to_agent|finish")
        });
        let by = taken.run.taken_over_by.as_deref().unwrap_or("you");
        format!("{run}  taken over by {by}{}", back.unwrap_or_default())
    })
}

/// Asks again what ended without an answer.
async fn ask_again(session: &Session, args: &AskAgainArgs) -> anyhow::Result<Outcome> {
    let id = session.whole_id(Listed::Requests, &args.request).await?;
    let path = format!("requests/{}/ask-again", segment(&id)?);
    let mut body = json!({});
    if !args.to.is_empty() {
        set(&mut body, "to", json!(args.to));
    }
    if let Some(timeout) = &args.timeout {
        set(&mut body, "timeout", json!(timeout));
    }
    let opened: Body<Opened> = session.client.post(&path, &body).await?;
    if args.wait {
        output::note(&format!("{id} is asked again"));
        return until_closed(session, &opened.value).await;
    }
    show(session, &opened, super::open_until)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vote is recorded and decides nothing yet; no run is behind a hold that stands alone.
    #[test]
    fn one_of_several_votes_is_not_said_to_wait_for_a_run() {
        let words = |number: u32, votes: Value| {
            let one = json!({
                "id": format!("hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-{number}"),
                "effect": "pending", "votes": votes,
            });
            serde_json::from_value::<One>(one).unwrap().in_words()
        };
        let votes = json!({ "have": 1, "need": 2 });
        for number in [0, 1] {
            assert_eq!(words(number, votes.clone()), "recorded; 1 of 2 approvals");
        }
        assert_eq!(words(0, Value::Null), "recorded; not decided yet");
        let of_run = words(1, Value::Null);
        assert_eq!(of_run, "recorded; the run has not been reached yet");
    }
}
