//! `create_task {title, description?, assignee?, contact?, due?, priority?, tags?}`: a to-do for a person.
//!
//! Owns the reading of the arguments. It must not store anything: the task is a handoff that stands
//! alone, of another service, reached through [`TaskOpener`]. The run does not wait for it.

use std::{fmt, sync::Arc, time::Duration};

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::{duration, instant};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{invalid_args, quote, read_args};
use crate::tool::{BoxFuture, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};

const NAME: &str = "create_task";

/// The time of a task that says nothing of it, and the longest that there is.
const TIME_MAX: Duration = duration::MAX_WAIT;

/// What is due already is overdue after this time: those it concerns are told.
const TIME_MIN: Duration = Duration::from_secs(1);

/// The way to the service that owns tasks.
pub trait TaskOpener: Send + Sync + 'static {
    /// Creates a task once for one `idempotency_key`; returns its id.
    ///
    /// # Errors
    /// The reason in words for people: it is stored and shown (S0-R5), so it must hold no secret,
    /// path, SQL or stack.
    fn open<'a>(
        &'a self,
        workspace: &'a str,
        task: NewTask,
        idempotency_key: &'a str,
    ) -> BoxFuture<'a, Result<String, String>>;
}

/// A task as it is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    pub title: String,
    /// In sentences; may be empty.
    pub description: String,
    /// `@user.<name>` or `@role.<name>`; none: the workspace's owners.
    pub assignee: Option<String>,
    /// How long until it is due.
    pub time: Duration,
    /// How urgent it is.
    pub priority: Priority,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Which agent wants it.
    pub agent: String,
    /// What it is about: run, step and contact.
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
    /// The tool over the service that `tasks` reaches.
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

/// People are written `@user.<name>`; a bare name means one.
fn named(text: &str) -> String {
    let text = text.trim();
    match text.starts_with('@') {
        true => text.to_owned(),
        false => format!("@user.{text}"),
    }
}

/// What is left of the time. A task may be created after its time: it is overdue then.
fn left(due: DateTime<Utc>, now: DateTime<Utc>) -> Duration {
    let left = (due - now).to_std().unwrap_or_default();
    left.clamp(TIME_MIN, TIME_MAX)
}

/// An instant, a day (until its end in UTC), or a time from now.
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
    /// Read by the executor, which decides about retries by it.
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
