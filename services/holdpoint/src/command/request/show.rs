//! `request show`.

use holdpoint_contracts::handoff::RequestView;
use serde_json::Value;

use crate::client::Body;
use crate::command::agent::warning_text;
use crate::command::short_id::Listed;
use crate::command::{Session, api_text, instant};
use crate::exit::ExitKind;
use crate::table::fact_lines;

/// Newest entries of the history that are shown; `--json` has all of them.
const HISTORY_SHOWN: usize = 20;

pub(super) async fn show(session: &Session, request: &str) -> anyhow::Result<ExitKind> {
    let path = session.path(Listed::Requests, request).await?;
    let body: Body<RequestView> = session.client.get(&path, &[]).await?;
    session.show(&body, facts)
}

/// All facts, one per line. A value that the request does not have is left out.
fn facts(request: &RequestView) -> String {
    let mut facts = vec![
        ("request", request.id.to_string()),
        ("kind", request.kind.to_string()),
        ("status", request.status.as_str().to_owned()),
    ];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("title", request.title.clone());
    add("question", Some(request.question.clone()));
    let task = request.task.as_ref().map(|task| task.description.clone());
    add("message", task.filter(|text| !text.is_empty()));
    let plan = request.context.get("plan").and_then(Value::as_array);
    for step in plan.into_iter().flatten() {
        add("plan", Some(api_text(step)));
    }
    for warning in request.warnings.iter().flatten() {
        add("warning", Some(warning_text(warning)));
    }
    for call in &request.items {
        add("call", Some(format!("{} with {}", call.tool, call.args)));
        add("digest", Some(call.digest.clone()));
    }
    let options = (!request.options.is_empty()).then(|| request.options.join(" | "));
    add("answers", options);
    add("for", Some(recipients(request)));
    add("assignee", request.assignee.clone());
    add("agent", request.agent.as_ref().map(ToString::to_string));
    add("run", request.run.as_ref().map(ToString::to_string));
    add("step", request.step.clone());
    add("opened", Some(instant(request.created_at)));
    add("deadline", request.deadline.map(instant));
    let votes = request.votes;
    add(
        "votes",
        votes.map(|it| format!("{} of {}", it.have, it.need)),
    );
    add("outcome", request.outcome.as_ref().map(api_text));
    add("response", request.response.as_ref().map(api_text));
    add("decided by", request.decided_by.clone());
    let allowed = (!request.actions.is_empty()).then(|| request.actions.join(", "));
    add("actions", allowed);
    let skipped = request.history.len().saturating_sub(HISTORY_SHOWN);
    for entry in request.history.iter().skip(skipped) {
        let mut text = format!("{} {} by {}", instant(entry.at), entry.action, entry.by);
        let note = entry.note.as_deref();
        text.extend(note.map(|note| format!(": {note}")));
        add("history", Some(text));
    }
    fact_lines(&facts)
}

/// The recipients as the requester named them.
pub(super) fn recipients(request: &RequestView) -> String {
    if request.to.is_empty() {
        "owners".to_owned()
    } else {
        api_text(&request.to)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Words 3: an approver reads the warnings of a plan before its call.
    #[test]
    fn a_plan_shows_its_warnings() {
        let request = json!({
            "id": "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1", "kind": "approval", "status": "open",
            "version": 1, "to": [], "question": "Start a plan?", "options": [], "on_timeout": "escalate",
            "context": { "plan": ["step-01: Call send_emial"] }, "actions": [], "late": [],
            "created_at": "2026-01-01T00:00:00Z",
            "items": [{ "id": "start-plan", "tool": "start_plan", "digest": "d1", "args": { "steps": [] } }],
            "warnings": [{ "step": "step-01", "text": "send_emial", "nearest": ["send_email"],
                "message": "No tool `send_emial` is built in." }],
        });
        let text = facts(&serde_json::from_value(request).unwrap());
        let said = "plan       step-01: Call send_emial\n\
             warning    step step-01: No tool `send_emial` is built in. Did you mean `send_email`?\n\
             call       start_plan with";
        assert!(text.contains(said), "{text}");
    }

    /// S2-R3, S2-R4: an approver sees the whole call and its digest before the decision.
    #[test]
    fn an_approval_shows_its_call_and_history() {
        let request = json!({
            "id": "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1", "kind": "approval", "status": "open",
            "version": 1, "to": ["@role.finance"], "question": "Agent refund wants to call payments.refund.",
            "options": [], "context": null, "on_timeout": "escalate", "actions": ["approve", "reject"],
            "late": [], "created_at": "2026-01-01T00:00:00Z", "step": "step-02",
            "items": [{ "id": "step-02", "tool": "payments.refund", "digest": "d1",
                "args": { "amount": 250 } }],
            "history": [{ "action": "opened", "by": "service:executor",
                "at": "2026-01-01T00:00:00Z", "note": "for @role.finance" }],
        });
        let text = facts(&serde_json::from_value(request).unwrap());
        assert_eq!(
            text,
            "request    hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1\n\
             kind       approval\n\
             status     open\n\
             question   Agent refund wants to call payments.refund.\n\
             call       payments.refund with {\"amount\":250}\n\
             digest     d1\n\
             for        @role.finance\n\
             step       step-02\n\
             opened     2026-01-01 00:00:00\n\
             actions    approve, reject\n\
             history    2026-01-01 00:00:00 opened by service:executor: for @role.finance"
        );
    }
}
