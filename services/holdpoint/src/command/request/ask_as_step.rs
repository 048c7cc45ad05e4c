//! `holdpoint ask` as the tool of a step: the run waits, and the output is the answer.
//!
//! `answer=$(holdpoint ask "Refund?" --option yes --option no) || exit $?` is all that a shell tool
//! needs. It waits there, or with `--park` it ends and is called again.

use std::time::Duration;

use holdpoint_contracts::asking::RequestedInput;
use holdpoint_contracts::handoff::{RequestStatus, RequestView};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::open_hold::LONG_POLL;
use crate::cli::requests::{AskArgs, StepAskArgs};
use crate::client::{Body, ClientError, item_path};
use crate::command::{Session, add_options, body_of};
use crate::exit::{ExitKind, Usage};
use crate::output;

/// Longest outage of Holdpoint that a waiting tool survives.
const OUTAGE_MAX: Duration = Duration::from_secs(120);
const RETRY_AFTER: Duration = Duration::from_secs(1);

pub(super) fn refuse_step_options(step: &StepAskArgs) -> anyhow::Result<()> {
    if step.key.is_some() || step.park {
        anyhow::bail!(Usage(
            "--key and --park need the tool of a step, where HOLDPOINT_RUN is set and \
             HOLDPOINT_TOKEN is a step token"
                .to_owned()
        ));
    }
    Ok(())
}

/// Asks and waits for the answer, or returns at once with `--park`.
pub(super) async fn ask(session: &Session, args: AskArgs) -> anyhow::Result<ExitKind> {
    let run = std::env::var("HOLDPOINT_RUN").unwrap_or_default();
    let path = format!("{}/request-input", item_path("runs", &run)?);
    let park = args.step.park;
    let body = request_body(&args)?;
    loop {
        // Repeated with the same key, this returns the same question and its answer.
        let asked: Body<RequestedInput> =
            retry_outages(async || session.client.post(&path, &body).await).await?;
        if let Some(given) = &asked.value.given {
            // A text without quotes, so that a shell can compare it; a form as JSON.
            let text = given.answer.as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| given.answer.to_string());
            return session.show(&asked, |_| text);
        }
        let id = asked.value.request_id;
        if park {
            output::note(&format!("{id} is open; the step parks until the answer"));
            return Ok(ExitKind::Parked);
        }
        let (path, query) = (format!("requests/{id}"), [("wait", LONG_POLL.to_owned())]);
        let request: Body<RequestView> =
            retry_outages(async || session.client.get(&path, &query).await).await?;
        let request = request.value;
        if request.status == RequestStatus::Expired && request.response.is_none() {
            return Ok(ExitKind::TimedOut);
        }
        if request.status == RequestStatus::Withdrawn {
            return Ok(ExitKind::Failed);
        }
    }
}

/// A tool that waits for people must survive a restart of Holdpoint.
async fn retry_outages<T>(
    mut call: impl AsyncFnMut() -> Result<Body<T>, ClientError>,
) -> Result<Body<T>, ClientError> {
    let since = Instant::now();
    loop {
        match call().await {
            Err(error) if error.problem().status >= 500 && since.elapsed() < OUTAGE_MAX => {
                tokio::time::sleep(RETRY_AFTER).await;
            }
            other => return other,
        }
    }
}

fn request_body(args: &AskArgs) -> anyhow::Result<Value> {
    let AskArgs { hold, step, .. } = args;
    if hold.title.is_some() || hold.assign.is_some() || !hold.policy.is_empty() {
        anyhow::bail!(Usage(
            "--title, --assign and --policy need a standalone question; a step decides them for its tool"
                .to_owned()
        ));
    }
    let timeout = hold.timeout.as_deref();
    let timeout = timeout.map(holdpoint_contracts::duration::parse);
    let timeout_ms = timeout.transpose()?.map(|time| time.as_millis());
    let timeout_ms = timeout_ms.map(u64::try_from).transpose()?;
    let mut body = body_of(json!({
        "question": args.question, "to": hold.to, "priority": hold.priority(),
        "mode": if step.park { "park" } else { "block" }, "timeout_ms": timeout_ms,
        "key": step.key, "on_timeout": hold.on_timeout,
    }));
    add_options(&mut body, form_of_answer(args));
    Ok(body)
}

/// The allowed answers: options, a form, or a page on which the person enters a secret.
pub(super) fn form_of_answer(args: &AskArgs) -> Value {
    let link = args.link.as_ref();
    let link = link.map(|url| body_of(json!({ "url": url, "label": args.link_label })));
    json!({
        "options": args.options, "schema": args.schema, "link": link, "default": args.default,
    })
}
