use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdpoint_contracts::hold::Priority;
use serde_json::json;

use super::{call, failure};
use crate::tool::{BoxFuture, Tool, ToolSuccess};
use crate::tools::{CreateTask, NewTask, TaskOpener};

const DAY: Duration = Duration::from_hours(24);

/// What was asked of the owner of tasks.
#[derive(Default)]
pub(super) struct Tasks {
    opened: Mutex<Vec<(String, NewTask, String)>>,
    refuse: Option<&'static str>,
}

impl TaskOpener for Tasks {
    fn open<'a>(
        &'a self,
        workspace: &'a str,
        task: NewTask,
        idempotency_key: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            if let Some(reason) = self.refuse {
                return Err(reason.to_owned());
            }
            let key = idempotency_key.to_owned();
            let mut opened = self.opened.lock().unwrap();
            opened.push((workspace.to_owned(), task, key));
            Ok("hold_1-0".to_owned())
        })
    }
}

/// API, Tools: all that can be said of a task, and what later steps know of it.
#[tokio::test]
async fn a_task_is_created_under_the_key_of_the_step() {
    let tasks = Arc::new(Tasks::default());
    let tool = CreateTask::new(Arc::<Tasks>::clone(&tasks));
    let args = json!({
        "title": "Call Ann", "description": "She wants a pilot.", "assignee": "@role.sales",
        "due": "2 days", "priority": "medium", "tags": ["pilot"], "idempotent": true,
    });
    assert_eq!(
        tool.call(&call(args)).await,
        Ok(ToolSuccess {
            description: "Task \"Call Ann\" created for @role.sales".to_owned(),
            data: json!({
                "task_id": "hold_1-0", "assignee": "@role.sales",
                "due": "2026-03-03T09:00:00.000Z", "action_url": "/tasks/hold_1-0?action=handoff",
            }),
        })
    );
    let least = json!({ "title": "Look", "assignee": "bob", "contact": "zoe" });
    tool.call(&call(least)).await.unwrap();
    let opened = tasks.opened.lock().unwrap();
    let (workspace, task, key) = &opened[0];
    assert_eq!((&**workspace, &**key), ("default", "run_1/step-01"));
    assert_eq!(
        *task,
        NewTask {
            title: "Call Ann".to_owned(),
            description: "She wants a pilot.".to_owned(),
            assignee: Some("@role.sales".to_owned()),
            time: 2 * DAY,
            priority: Priority::Normal,
            tags: vec!["pilot".to_owned()],
            agent: "outreach".to_owned(),
            context: json!({ "run": "run_1", "step": "step-01", "contact": { "id": "ann" } }),
        }
    );
    let (_, task, _) = &opened[1];
    assert_eq!(task.assignee.as_deref(), Some("@user.bob"));
    assert_eq!(task.time, 90 * DAY);
    assert_eq!(task.context["contact"]["id"], "zoe");
}

/// A day lasts until its end; what is due already is overdue at once, and not lost.
#[tokio::test]
async fn a_task_is_due_on_a_day_at_an_instant_or_after_a_time() {
    let tasks = Arc::new(Tasks::default());
    let tool = CreateTask::new(Arc::<Tasks>::clone(&tasks));
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
        let opened = tasks.opened.lock().unwrap();
        assert_eq!(opened.last().unwrap().1.time, time, "{due}");
    }
    for (args, fault) in [
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
        assert!(wrong.message.contains(fault), "{wrong}");
    }
}

/// S0-R5
#[tokio::test]
async fn a_task_that_cannot_be_created_fails_the_step_with_its_reason() {
    let tool = CreateTask::new(Arc::new(Tasks {
        refuse: Some("`assignee`: User bob not found or inactive in workspace"),
        ..Tasks::default()
    }));
    let refused = failure(&tool, json!({ "title": "t", "assignee": "bob" })).await;
    assert_eq!(refused.code, "task_not_created");
    assert!(refused.message.contains("User bob not found"), "{refused}");
}
