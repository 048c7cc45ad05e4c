//! `holdpoint ask` as the tool of a step: its run waits, and what is printed is the answer.
//!
//! A shell tool needs no more than `answer=$(holdpoint ask "Refund?" --option yes --option no) || exit $?`:
//! it waits there, or parks with `--park` and is called again.

use std::time::Duration;

use holdpoint_contracts::asking::RequestedInput;
use holdpoint_contracts::handoff::{RequestStatus, RequestView};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{LOOK, read_answer, set};
use crate::cli::{AskArgs, StepAskArgs};
use crate::client::{Body, ClientError, segment};
use crate::command::Session;
use crate::exit::{Outcome, Usage};
use crate::output;

/// How long Holdpoint may be away …
const AWAY_MAX: Duration = Duration::from_secs(120);
/// … and how often it is tried.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Refuses what makes sense for the tool of a step only.
pub(super) fn only_in_a_step(step: &StepAskArgs) -> anyhow::Result<()> {
    let StepAskArgs { key, park } = step;
    if key.is_some() || *park {
        anyhow::bail!(Usage(
            "--key and --park are for the tool of a step: there HOLDPOINT_RUN is set, and \
             HOLDPOINT_TOKEN is the step's"
                .to_owned()
        ));
    }
    Ok(())
}

/// Asks, and stays until there is an answer; with `--park` not longer than that takes.
pub(super) async fn ask(session: &Session, args: AskArgs) -> anyhow::Result<Outcome> {
    let run = std::env::var("HOLDPOINT_RUN").unwrap_or_default();
    let path = format!("runs/{}/request-input", segment(&run)?);
    let park = args.step.park;
    let body = body(args)?;
    loop {
        let asked: Body<RequestedInput> =
            until_heard(async || session.client.post(&path, &body).await).await?;
        if let Some(given) = &asked.value.given {
            print(session, &asked.text, &given.answer)?;
            return Ok(Outcome::Ok);
        }
        if park {
            output::note(&format!("{} is open; parking", asked.value.request_id));
            return Ok(Outcome::Parked);
        }
        let request = format!("requests/{}", asked.value.request_id);
        let query = [("wait", LOOK.to_owned())];
        let request: Body<RequestView> =
            until_heard(async || session.client.get(&request, &query).await).await?;
        match request.value.status {
            RequestStatus::Expired if request.value.response.is_none() => {
                return Ok(Outcome::TimedOut);
            }
            RequestStatus::Withdrawn => return Ok(Outcome::Failed),
            RequestStatus::Open
            | RequestStatus::Offered
            | RequestStatus::Accepted
            | RequestStatus::TakenOver
            | RequestStatus::Reassigned
            | RequestStatus::Decided
            | RequestStatus::Completed
            | RequestStatus::Expired => {}
        }
    }
}

/// A tool that waits for people outlives a restart of Holdpoint.
async fn until_heard<T>(
    mut call: impl AsyncFnMut() -> Result<Body<T>, ClientError>,
) -> Result<Body<T>, ClientError> {
    let since = Instant::now();
    loop {
        match call().await {
            Err(error) if error.problem().status >= 500 && since.elapsed() < AWAY_MAX => {
                tokio::time::sleep(TRY_AGAIN).await;
            }
            other => return other,
        }
    }
}

fn body(args: AskArgs) -> anyhow::Result<Value> {
    let AskArgs {
        question,
        options,
        schema,
        link,
        link_label,
        default,
        to,
        step,
    } = args;
    if to.title.is_some() || to.assign.is_some() || !to.policy.is_empty() {
        anyhow::bail!(Usage(
            "--title, --assign and --policy are for a hold of its own; what a tool asks is its step's"
                .to_owned()
        ));
    }
    let mode = if step.park { "park" } else { "block" };
    let mut body = json!({
        "question": question, "options": options, "to": to.to, "priority": to.priority(), "mode": mode,
    });
    if let Some(timeout) = to.timeout.as_deref() {
        let time = holdpoint_contracts::duration::parse(timeout)?;
        let ms = u64::try_from(time.as_millis())?;
        set(&mut body, "timeout_ms", json!(ms));
    }
    let more = [
        ("schema", schema),
        ("link", self::link(link, link_label)),
        ("key", step.key.map(Value::String)),
        ("on_timeout", to.on_timeout.map(Value::String)),
        ("default", default.map(read_answer)),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            set(&mut body, name, value);
        }
    }
    Ok(body)
}

/// Where the person enters a secret.
pub(super) fn link(url: Option<String>, label: Option<String>) -> Option<Value> {
    let mut link = json!({ "url": url? });
    if let Some(label) = label {
        set(&mut link, "label", json!(label));
    }
    Some(link)
}

/// A text as it is, so that a shell can compare it; a form as JSON.
fn print(session: &Session, text: &str, answer: &Value) -> anyhow::Result<()> {
    if session.json {
        return Ok(output::line(text)?);
    }
    let line = match answer {
        Value::String(answer) => answer.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            answer.to_string()
        }
    };
    Ok(output::line(&line)?)
}
