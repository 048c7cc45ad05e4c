//! The way of `create_task` to the handoff service: a handoff that stands alone.

use holdpoint_bus::Bus;
use holdpoint_contracts::handoff::OpenHold;
use holdpoint_contracts::hold::{HoldSpec, OnTimeout, Task};
use holdpoint_contracts::message::{Actor, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, IdError, Workspace};

use super::patience::patiently;
use crate::tool::BoxFuture;
use crate::tools::{NewTask, TaskOpener};

/// Creates tasks by the command `open_hold`, one for one idempotency key: the id is made of it.
#[derive(Debug, Clone)]
pub struct BusTasks {
    bus: Bus,
}

impl BusTasks {
    /// Over this connection.
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
            let opened = patiently(&self.bus, &workspace, &envelope).await;
            opened.map(|task| task.id.to_string()).map_err(in_our_words)
        })
    }
}

/// A task stays until a person has done it: when its time is up, others are told.
fn command(id: HoldId, task: NewTask) -> Result<OpenHold, String> {
    let agent = task.agent.parse();
    let question = match task.description.trim().is_empty() {
        true => &task.title,
        false => &task.description,
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

/// The owner of tasks points into its command; whoever wrote the step knows only the arguments.
fn in_our_words(problem: Problem) -> String {
    if problem.code == "already_exists" {
        return "this step has created its task before, with other arguments".to_owned();
    }
    let fault = problem.errors.first().and_then(|error| {
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
    fault.unwrap_or(problem.detail)
}
