//! Sends `create_task` to the handoff service, as a handoff without a run.

use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::OpenHold;
use holdpoint_contracts::hold::{HoldSpec, OnTimeout, Task};
use holdpoint_contracts::message::{Actor, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, IdError, Workspace};

use super::retry::ask_with_retry;
use crate::tool::BoxFuture;
use crate::tools::{NewTask, TaskOpener};

/// Creates tasks by the command `open_hold`, one for one idempotency key: the id is made of it.
#[derive(Debug, Clone)]
pub struct BusTasks {
    bus: Bus,
}

impl BusTasks {
    #[must_use]
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }
}

impl TaskOpener for BusTasks {
    fn open<'a>(
        &'a self,
        workspace: &'a str,
        task: NewTask,
        idempotency_key: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let workspace: Workspace = workspace
                .parse()
                .map_err(|error: IdError| error.to_string())?;
            let id = HoldId::task_of(idempotency_key);
            let envelope = Envelope {
                actor: Actor("worker".to_owned()),
                assertion: None,
                key: None,
                command: command(id, task)?,
            };
            let opened = ask_with_retry(&self.bus, &workspace, &envelope).await;
            opened
                .map(|task| task.id.to_string())
                .map_err(rewrite_pointers)
        })
    }
}

/// A task stays until a person has completed it. At its deadline it escalates.
fn command(id: HoldId, task: NewTask) -> Result<OpenHold, String> {
    let agent = task.agent.parse();
    let question = if task.description.trim().is_empty() {
        &task.title
    } else {
        &task.description
    };
    let spec = HoldSpec {
        agent: Some(agent.map_err(|error: IdError| error.to_string())?),
        to: task.assignee.into_iter().collect(),
        on_timeout: OnTimeout::Escalate,
        priority: task.priority,
        title: Some(task.title.clone()),
        context: task.context,
        task: Some(Task {
            id: id.to_string(),
            title: task.title.clone(),
            description: task.description.clone(),
            tags: task.tags,
            priority: task.priority,
        }),
        ..HoldSpec::asking(HoldKind::Handoff, question)
    };
    Ok(OpenHold {
        id,
        spec,
        timeout_ms: u64::try_from(task.time.as_millis()).unwrap_or(u64::MAX),
    })
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
