//! `create_task {title, description?, assignee?, contact?, due?, priority?, tags?}`: creates a task for a
//! person.
//!
//! Owns the parsing of the arguments. It must not store anything: the task is a standalone handoff of the
//! handoff service. The run does not wait for it.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};
use holdpoint_contracts::handoff::OpenHold;
use holdpoint_contracts::hold::{HoldSpec, OnTimeout, Priority, Task};
use holdpoint_contracts::message::{Actor, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::{duration, instant};
use holdpoint_ids::HoldId;
use serde::Deserialize;
use serde_json::json;

use super::send_command::SendCommand;
use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Risk, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};

const NAME: &str = "create_task";

/// Default and longest time of a task.
const TIME_MAX: Duration = duration::MAX_WAIT;

/// A task that is already due becomes overdue after this time, and its users are notified.
const TIME_MIN: Duration = Duration::from_secs(1);

pub(crate) struct CreateTask {
    pub(crate) open_hold: SendCommand<OpenHold>,
}

impl CreateTask {
    async fn create(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(NAME, &call.dispatch.args)?;
        if args.title.trim().is_empty() {
            return Err(invalid_args(
                NAME,
                "`title` is empty; say what is to be done",
            ));
        }
        let due = args.due.as_deref().map(|text| due(text, call.now));
        let due = due.transpose()?;
        let title = quote(&args.title);
        let assignee = args.assignee.as_deref().map(named);
        let whom = quote(assignee.as_deref().unwrap_or("the owners"));
        let refused = |reason: &str| ToolFailure::new("task_not_created", quote(reason));
        let envelope = Envelope {
            actor: Actor("worker".to_owned()),
            assertion: None,
            key: None,
            command: open_hold(args, assignee.clone(), due, call),
        };
        let opened = (self.open_hold)(call.dispatch.workspace.clone(), envelope).await;
        let id = opened
            .map_err(|problem| refused(&rewrite_pointers(problem)))?
            .id;
        Ok(ToolSuccess {
            description: format!("Task \"{title}\" created for {whom}"),
            data: json!({
                "task_id": id,
                "assignee": assignee,
                "due": due.map(instant::write),
                "action_url": format!("/tasks/{id}?action=handoff"),
            }),
        })
    }
}

/// The task. Its id is made of the idempotency key, so that a step creates one task. It stays until a person has
/// completed it. At its deadline it escalates.
fn open_hold(
    args: Args,
    assignee: Option<String>,
    due: Option<DateTime<Utc>>,
    call: &ToolCall,
) -> OpenHold {
    let id = HoldId::task_of(&call.dispatch.idempotency_key());
    let mut context = json!({ "run": call.dispatch.run, "step": call.dispatch.step });
    let of_run = || call.dispatch.contact.as_ref().map(ToString::to_string);
    let contact = args.contact.or_else(of_run);
    if let (Some(id), Some(fields)) = (contact, context.as_object_mut()) {
        fields.insert("contact".to_owned(), json!({ "id": id }));
    }
    let question = if args.description.trim().is_empty() {
        &args.title
    } else {
        &args.description
    };
    let spec = HoldSpec {
        agent: Some(call.dispatch.agent.clone()),
        to: assignee.into_iter().collect(),
        on_timeout: OnTimeout::Escalate,
        priority: args.priority,
        title: Some(args.title.clone()),
        context,
        ..HoldSpec::asking(HoldKind::Handoff, question)
    };
    let task = Task {
        id: id.to_string(),
        title: args.title,
        description: args.description,
        tags: args.tags,
        priority: args.priority,
    };
    let time = due.map_or(TIME_MAX, |due| time_left(due, call.now));
    OpenHold {
        id,
        spec: HoldSpec {
            task: Some(task),
            ..spec
        },
        timeout_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Rewrites JSON pointers of the command into argument names: the author of the step knows only these.
fn rewrite_pointers(problem: Problem) -> String {
    if problem.code == "already_exists" {
        return "this step has already created a task with other arguments".to_owned();
    }
    let error = problem.errors.first().and_then(|error| {
        let field = match error.pointer.as_deref()? {
            "/spec/title" => "title",
            "/spec/question" => "description",
            "/spec/task" => "tags",
            "/timeout_ms" => "due",
            to if to.starts_with("/spec/to") => "assignee",
            _ => return None,
        };
        Some(format!("`{field}`: {}", error.message))
    });
    error.unwrap_or(problem.detail)
}

/// A bare name means `@user.<name>`.
fn named(text: &str) -> String {
    let text = text.trim();
    if text.starts_with('@') {
        text.to_owned()
    } else {
        format!("@user.{text}")
    }
}

/// The time until the task is due. A task may be created after that time and is then overdue.
fn time_left(due: DateTime<Utc>, now: DateTime<Utc>) -> Duration {
    let left = (due - now).to_std().unwrap_or_default();
    left.clamp(TIME_MIN, TIME_MAX)
}

/// An instant, a day (its end in UTC), or a duration from now.
fn due(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, ToolFailure> {
    let text = text.trim();
    let instant = DateTime::parse_from_rfc3339(text).ok();
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    let last_minute = NaiveTime::from_hms_opt(23, 59, 0).unwrap_or_default();
    let from_now = || {
        let time = TimeDelta::from_std(duration::parse(text).ok()?).ok()?;
        now.checked_add_signed(time)
    };
    let due = instant
        .map(|instant| instant.to_utc())
        .or_else(|| Some(day()?.and_time(last_minute).and_utc()))
        .or_else(from_now);
    let Some(due) = due else {
        let error = "`due` must be a date (`2026-12-01`), an instant (`2026-12-01T09:00:00Z`) or a time from now (`3 days`)";
        return Err(invalid_args(NAME, error));
    };
    if (due - now).to_std().is_ok_and(|left| left > TIME_MAX) {
        let error = "`due` is more than 90 days away; name an earlier time, or leave it out";
        return Err(invalid_args(NAME, error));
    }
    Ok(due)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    title: String,
    #[serde(default)]
    description: String,
    assignee: Option<String>,
    contact: Option<String>,
    due: Option<String>,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    tags: Vec<String>,
    /// The executor uses it to decide about retries.
    #[serde(default, rename = "idempotent")]
    _idempotent: bool,
}

impl Tool for CreateTask {
    fn name(&self) -> &'static str {
        NAME
    }

    fn risk(&self) -> Risk {
        Risk::Medium
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.create(call))
    }
}
