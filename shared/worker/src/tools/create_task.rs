//! `create_task {title, description?, assignee?, contact?, due?, priority?, tags?}`: creates a task for a
//! person.
//!
//! Owns the parsing of the arguments. It must not store anything: the task is a standalone handoff of
//! another service, which [`TaskOpener`] calls. The run does not wait for it.

use std::{fmt, sync::Arc, time::Duration};

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::{duration, instant};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};

const NAME: &str = "create_task";

/// Default and longest time of a task.
const TIME_MAX: Duration = duration::MAX_WAIT;

/// A task that is already due becomes overdue after this time, and its users are notified.
const TIME_MIN: Duration = Duration::from_secs(1);

/// Calls the service that owns tasks.
pub trait TaskOpener: Send + Sync + 'static {
    /// Creates a task once per `idempotency_key`; returns its id.
    ///
    /// # Errors
    /// The reason for people. It is stored and shown (S0-R5), so it must not contain secrets, paths, SQL or
    /// stack traces.
    fn open<'a>(
        &'a self,
        workspace: &'a str,
        task: NewTask,
        idempotency_key: &'a str,
    ) -> BoxFuture<'a, Result<String, String>>;
}

/// The task to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    pub title: String,
    /// May be empty.
    pub description: String,
    /// `@user.<name>` or `@role.<name>`. `None`: the workspace's owners.
    pub assignee: Option<String>,
    /// How long until it is due.
    pub time: Duration,
    pub priority: Priority,
    /// Labels for searching.
    pub tags: Vec<String>,
    /// The agent that creates it.
    pub agent: String,
    /// Run, step and contact.
    pub context: Value,
}

/// The tool `create_task`.
#[derive(Clone)]
pub struct CreateTask {
    tasks: Arc<dyn TaskOpener>,
}

impl fmt::Debug for CreateTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateTask").finish_non_exhaustive()
    }
}

impl CreateTask {
    #[must_use]
    pub fn new(tasks: Arc<dyn TaskOpener>) -> Self {
        Self { tasks }
    }

    async fn create(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(NAME, &call.args)?;
        if args.title.trim().is_empty() {
            return Err(invalid_args(
                NAME,
                "`title` is empty; say what is to be done",
            ));
        }
        let due = args.due.as_deref().map(|text| due(text, call.now));
        let due = due.transpose()?;
        let contact = args.contact.or_else(|| call.contact.clone());
        let mut context = json!({ "run": call.run, "step": call.step });
        if let (Some(id), Some(fields)) = (contact, context.as_object_mut()) {
            fields.insert("contact".to_owned(), json!({ "id": id }));
        }
        let assignee = args.assignee.map(|text| named(&text));
        let task = NewTask {
            title: args.title.clone(),
            description: args.description,
            assignee: assignee.clone(),
            time: due.map_or(TIME_MAX, |due| left(due, call.now)),
            priority: args.priority,
            tags: args.tags,
            agent: call.agent.clone(),
            context,
        };
        let opened = self
            .tasks
            .open(&call.workspace, task, &call.idempotency_key);
        let id = opened
            .await
            .map_err(|reason| ToolFailure::new("task_not_created", quote(&reason)))?;
        let whom = assignee.as_deref().unwrap_or("the owners");
        Ok(ToolSuccess {
            description: format!(
                "Task \"{}\" created for {}",
                quote(&args.title),
                quote(whom)
            ),
            data: json!({
                "task_id": id,
                "assignee": assignee,
                "due": due.map(instant::write),
                "action_url": format!("/tasks/{id}?action=handoff"),
            }),
        })
    }
}

/// A bare name means `@user.<name>`.
fn named(text: &str) -> String {
    let text = text.trim();
    match text.starts_with('@') {
        true => text.to_owned(),
        false => format!("@user.{text}"),
    }
}

/// The time until the task is due. A task may be created after that time and is then overdue.
fn left(due: DateTime<Utc>, now: DateTime<Utc>) -> Duration {
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
        let fault = "`due` must be a date (`2026-12-01`), an instant (`2026-12-01T09:00:00Z`) or a time from now (`3 days`)";
        return Err(invalid_args(NAME, fault));
    };
    if (due - now).to_std().is_ok_and(|left| left > TIME_MAX) {
        let fault = "`due` is more than 90 days away; name an earlier time, or leave it out";
        return Err(invalid_args(NAME, fault));
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

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.create(call))
    }
}
