//! Opens holds and waits for their outcome, which is the exit code.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_ids::HoldId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::requests::HoldOptions;
use crate::client::Body;
use crate::command::{Session, add_options, instant};
use crate::exit::ExitKind;
use crate::output;

/// Longest time that one long poll of a request takes at the server.
pub(super) const LONG_POLL: &str = "30s";

#[derive(Debug, Deserialize)]
pub(crate) struct OpenedHold {
    pub(crate) id: HoldId,
    kind: String,
    deadline: Option<DateTime<Utc>>,
}

pub(super) async fn open(
    session: &Session,
    body: Value,
    hold: &HoldOptions,
) -> anyhow::Result<ExitKind> {
    let body = with_options(body, hold);
    let opened: Body<OpenedHold> = session.client.post("holds", &body).await?;
    if hold.wait {
        return wait_until_closed(session, &opened.value).await;
    }
    session.show(&opened, opened_text)
}

/// Adds the options to the body. Without `--on-timeout` the kind of the hold decides what a timeout
/// does, except for a script that waits: it must get an error.
fn with_options(mut body: Value, hold: &HoldOptions) -> Value {
    let assign = hold.assign.as_deref().map(|word| word.replace('-', "_"));
    let on_timeout = hold.on_timeout.as_deref();
    let options = json!({
        "priority": hold.priority(), "to": hold.to, "policy": hold.policy, "timeout": hold.timeout,
        "title": hold.title, "assign": assign, "on_timeout": on_timeout.or(hold.wait.then_some("fail")),
    });
    add_options(&mut body, options);
    body
}

pub(super) fn opened_text(opened: &OpenedHold) -> String {
    let until = opened.deadline.map(instant).unwrap_or_default();
    format!("{}  {}  open until {until}", opened.id, opened.kind)
}

pub(super) async fn wait_until_closed(
    session: &Session,
    opened: &OpenedHold,
) -> anyhow::Result<ExitKind> {
    let id = opened.id;
    output::note(&format!(
        "{id} is open; waiting (it stays open after ctrl-c)"
    ));
    let (path, query) = (format!("holds/{id}"), [("wait", LONG_POLL.to_owned())]);
    loop {
        let hold: Body<RequestView> = session.client.get(&path, &query).await?;
        if !hold.value.status.is_open() {
            session.show(&hold, closed_text)?;
            return Ok(exit_of(hold.value.outcome));
        }
    }
}

fn closed_text(hold: &RequestView) -> String {
    let outcome = hold.outcome.map_or("withdrawn", HoldOutcome::as_str);
    let by = hold.decided_by.as_deref().map(|by| format!(" by {by}"));
    let by = by.unwrap_or_default();
    match &hold.response {
        Some(Value::String(text)) => format!("{outcome}{by}: {text}"),
        Some(Value::Null) | None => format!("{outcome}{by}"),
        Some(other) => format!("{outcome}{by}: {other}"),
    }
}

/// `&& ./deploy` continues only after a positive outcome.
const fn exit_of(outcome: Option<HoldOutcome>) -> ExitKind {
    match outcome {
        Some(
            HoldOutcome::Approved
            | HoldOutcome::Answered
            | HoldOutcome::Completed
            | HoldOutcome::TakenOver
            | HoldOutcome::Fired,
        ) => ExitKind::Ok,
        Some(HoldOutcome::Rejected | HoldOutcome::Revised) => ExitKind::Rejected,
        Some(HoldOutcome::Timeout) => ExitKind::TimedOut,
        Some(HoldOutcome::Cancelled) | None => ExitKind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API, `on_timeout`: without the option the kind of the hold decides; an approval never becomes a silent no.
    #[test]
    fn the_kind_decides_what_a_timeout_does_unless_a_script_waits() {
        let options = |wait, on_timeout: Option<&str>| HoldOptions {
            on_timeout: on_timeout.map(str::to_owned),
            wait,
            ..HoldOptions::default()
        };
        for (wait, given, sent) in [
            (false, None, None),
            (true, None, Some("fail")),
            (false, Some("continue"), Some("continue")),
            (true, Some("escalate"), Some("escalate")),
        ] {
            let body = with_options(json!({ "kind": "approval" }), &options(wait, given));
            assert_eq!(body.get("on_timeout").and_then(Value::as_str), sent);
            assert_eq!(body["kind"], "approval");
            assert_eq!(body.get("timeout"), None, "its policies or its kind decide");
        }
        let given = HoldOptions {
            title: Some("Deploy".to_owned()),
            assign: Some("least-loaded".to_owned()),
            policy: vec!["on-call".to_owned()],
            ..options(false, None)
        };
        let body = with_options(json!({}), &given);
        let expected = json!({
            "title": "Deploy", "assign": "least_loaded", "policy": ["on-call"], "priority": "normal",
        });
        assert_eq!(body, expected);
    }

    /// M-6: the exit code is the outcome.
    #[test]
    fn only_a_positive_outcome_continues_a_script() {
        let code = |outcome| exit_of(Some(outcome)).code();
        assert_eq!(code(HoldOutcome::Approved), 0);
        assert_eq!(code(HoldOutcome::Rejected), 4);
        assert_eq!(code(HoldOutcome::Timeout), 5);
        assert_eq!(code(HoldOutcome::Cancelled), 1);
        assert_eq!(exit_of(None).code(), 1);
    }
}
