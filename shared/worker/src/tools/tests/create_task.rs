use std::time::Duration;

use holdpoint_contracts::handoff::OpenHold;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::problem::{FieldError, Problem};
use serde_json::{Value, json};

use super::{Sent, call, failure, service};
use crate::tool::{Tool, ToolSuccess};
use crate::tools::CreateTask;

const DAY: Duration = Duration::from_hours(24);
const HOLD: &str = "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-0";

fn create_task(reply: Result<Value, Problem>) -> (CreateTask, Sent<OpenHold>) {
    let (open_hold, sent) = service(reply);
    (CreateTask { open_hold }, sent)
}

/// The view of the opened task.
fn opened(id: &Value) -> Value {
    json!({
        "id": id, "kind": "handoff", "run": null, "step": null, "agent": null, "status": "offered",
        "version": 1, "to": [], "question": "?", "options": [], "reason": null, "context": null,
        "deadline": null, "remaining_ms": null, "on_timeout": "escalate", "actions": [],
        "outcome": null, "response": null, "decided_by": null, "decided_at": null, "late": [],
        "created_at": "2026-03-01T09:00:00.000Z",
    })
}

/// API, Tools: all that can be said of a task, and what later steps know of it.
#[tokio::test]
async fn a_task_is_created_under_the_key_of_the_step() {
    let (tool, sent) = create_task(Ok(opened(&json!(HOLD))));
    let args = json!({
        "title": "Call Ann", "description": "She wants a pilot.", "assignee": "@role.sales",
        "due": "2 days", "priority": "medium", "tags": ["pilot"], "idempotent": true,
    });
    assert_eq!(
        tool.call(&call(args)).await,
        Ok(ToolSuccess {
            description: "Task \"Call Ann\" created for @role.sales".to_owned(),
            data: json!({
                "task_id": HOLD, "assignee": "@role.sales", "due": "2026-03-03T09:00:00.000Z",
                "action_url": format!("/tasks/{HOLD}?action=handoff"),
            }),
        })
    );
    let least = json!({ "title": "Look", "assignee": "bob", "contact": "zoe" });
    tool.call(&call(least)).await.unwrap();
    let sent = sent.lock().unwrap();
    let (workspace, envelope) = &sent[0];
    let OpenHold {
        spec, timeout_ms, ..
    } = &envelope.command;
    assert_eq!(workspace.as_str(), "default");
    assert_eq!(Duration::from_millis(*timeout_ms), 2 * DAY);
    assert_eq!(spec.title.as_deref(), Some("Call Ann"));
    assert_eq!(spec.question, "She wants a pilot.");
    assert_eq!(json!(spec.to), json!(["@role.sales"]));
    assert_eq!(spec.priority, Priority::Normal);
    assert_eq!(spec.agent.as_ref().unwrap().as_str(), "outreach");
    let task = spec.task.as_ref().unwrap();
    assert_eq!(task.tags, ["pilot"]);
    assert_eq!(task.description, "She wants a pilot.");
    assert_eq!(
        spec.context,
        json!({ "run": "run_01920000000070008000000000000001", "step": "step-01", "contact": { "id": "ann" } })
    );
    let OpenHold {
        spec, timeout_ms, ..
    } = &sent[1].1.command;
    assert_eq!(json!(spec.to), json!(["@user.bob"]));
    assert_eq!(Duration::from_millis(*timeout_ms), 90 * DAY);
    assert_eq!(spec.context["contact"]["id"], "zoe");
}

/// A day lasts until its end; what is due already is overdue at once, and not lost.
#[tokio::test]
async fn a_task_is_due_on_a_day_at_an_instant_or_after_a_time() {
    let (tool, sent) = create_task(Ok(opened(&json!(HOLD))));
    let cases = [
        ("2026-03-01", Duration::from_mins(15 * 60 - 1)),
        ("2026-03-02T10:00:00+01:00", DAY),
        ("1d", DAY),
        ("2026-02-01", Duration::from_secs(1)),
        ("2025-12-31T00:00:00Z", Duration::from_secs(1)),
    ];
    for (due, time) in cases {
        let args = json!({ "title": "t", "due": due });
        tool.call(&call(args)).await.unwrap();
        let timeout_ms = sent.lock().unwrap().last().unwrap().1.command.timeout_ms;
        assert_eq!(Duration::from_millis(timeout_ms), time, "{due}");
    }
    for (args, error) in [
        (
            json!({ "title": "t", "due": "soon" }),
            "`due` must be a date",
        ),
        (
            json!({ "title": "t", "due": "2026-06-01" }),
            "more than 90 days away",
        ),
        (json!({ "title": " " }), "`title` is empty"),
        (
            json!({ "title": "t", "owner": "x" }),
            "unknown field `owner`",
        ),
        (
            json!({ "title": "t", "priority": "asap" }),
            "`priority` must be",
        ),
    ] {
        let wrong = failure(&tool, args).await;
        assert_eq!(wrong.code, "invalid_args");
        assert!(wrong.message.contains(error), "{wrong}");
    }
}

/// S0-R5
#[tokio::test]
async fn a_task_that_cannot_be_created_fails_the_step_with_its_reason() {
    let error = FieldError {
        pointer: Some("/spec/to/0".to_owned()),
        message: "User bob not found or inactive in workspace".to_owned(),
        ..FieldError::default()
    };
    let problem = Problem::new(422, "invalid_recipient", "1 error").with_errors(vec![error]);
    let (tool, _sent) = create_task(Err(problem));
    let refused = failure(&tool, json!({ "title": "t", "assignee": "bob" })).await;
    assert_eq!(refused.code, "task_not_created");
    assert!(
        refused
            .message
            .starts_with("`assignee`: User bob not found"),
        "{refused}"
    );
}
