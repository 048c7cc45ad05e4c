//! `agent`: definitions of runs.

mod rehearsal;

use std::path::{Path, PathBuf};

use holdpoint_contracts::agent::{AgentView, PlannedStepView};
use holdpoint_contracts::executor::PlannedAgent;
use holdpoint_contracts::problem::FieldError;

use super::{ClientCommand, Session, cells, instant, page_query, refusal_line, workspace};
use crate::cli::runs::AgentCommand;
use crate::client::{Body, ClientError, item_path};
use crate::exit::ExitKind;
use crate::output;
use crate::parsers::read_text;
use crate::table::{Rows, one_line};

impl ClientCommand for AgentCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        let path = |name: &str| item_path("agents", name);
        match self {
            Self::Apply { files, strict } => apply(session, &files, strict).await,
            Self::Plan {
                file,
                strict,
                words,
            } => plan(session, &file, strict, words).await,
            Self::Rehearse(args) => rehearsal::rehearse(session, args).await,
            Self::List(page) => {
                let heading = ["AGENT", "VERSION", "STATUS", "UPDATED", "DESCRIPTION"];
                let query = page_query(&page);
                let row = |it: &AgentView| {
                    let updated_at = instant(it.updated_at);
                    cells![it.agent, it.version, it.status, updated_at, it.description]
                };
                session.list("agents", &query, heading, row).await
            }
            Self::Show { agent, words } => {
                let body = session.client.get(&path(&agent.name)?, &[]).await?;
                session.show(&body, |agent| agent_text(agent, words))
            }
            Self::Stats(agent) => {
                let path = format!("{}/stats", path(&agent.name)?);
                session.show_json(&path).await
            }
            Self::Pause { agent, pause } => {
                let path = format!("{}/pause", path(&agent.name)?);
                workspace::pause(session, &path, &pause).await
            }
            Self::Resume { agent, resume } => {
                let path = format!("{}/resume", path(&agent.name)?);
                workspace::resume(session, &path, resume).await
            }
            Self::Delete(agent) => {
                let done = "deleted; its open runs fail";
                session.delete("agents", &agent.name, done).await
            }
        }
    }
}

/// Stores each file by itself: a refused file does not prevent the next from being stored.
async fn apply(session: &Session, files: &[PathBuf], strict: bool) -> anyhow::Result<ExitKind> {
    let mut kinds = Vec::with_capacity(files.len());
    for file in files {
        let text = read_text(file)?;
        let checked = if strict {
            has_warnings(session, file, &text).await
        } else {
            Ok(false)
        };
        if matches!(checked, Ok(true)) {
            kinds.push(ExitKind::Rejected);
            continue;
        }
        // An agent whose warnings are unknown is not stored.
        let applied = match checked {
            Ok(_) => session.client.post_agent("agents", &text).await,
            Err(error) => Err(error),
        };
        match applied {
            Ok(applied) => kinds.push(print_applied(session, &applied)?),
            Err(error) if files.len() == 1 => return Err(error.into()),
            Err(error) => {
                kinds.push(error.exit_kind());
                let file = file.display().to_string();
                if session.json {
                    output::line(&refusal_line("file", &file, &error))?;
                }
                output::note(&format!("error: {file}: {error}"));
            }
        }
    }
    Ok(ExitKind::of_many(kinds))
}

/// Prints the warnings of a text.
async fn has_warnings(session: &Session, file: &Path, text: &str) -> Result<bool, ClientError> {
    let planned = session
        .client
        .post_agent::<PlannedAgent>("agents/plan", text);
    let warnings = planned.await?.value.warnings;
    note_warnings(&warnings);
    if !warnings.is_empty() {
        let file = file.display();
        output::note(&format!(
            "error: {file}: not stored, because --strict refuses warnings"
        ));
    }
    Ok(!warnings.is_empty())
}

fn note_warnings(warnings: &[FieldError]) {
    for warning in warnings {
        output::note(&format!("warning: {}", warning_text(warning)));
    }
}

/// `step mail: No tool … Did you mean `send_email`?`
pub(super) fn warning_text(warning: &FieldError) -> String {
    let step = one_line(warning.step.as_deref().unwrap_or_default());
    let nearest = warning.nearest.first();
    let hint = nearest.map(|nearest| format!(" Did you mean `{}`?", one_line(nearest)));
    let (message, hint) = (one_line(&warning.message), hint.unwrap_or_default());
    format!("step {step}: {message}{hint}")
}

fn print_applied(session: &Session, applied: &Body<AgentView>) -> anyhow::Result<ExitKind> {
    if !session.json {
        note_warnings(&applied.value.warnings);
    }
    let is_new = applied.status == 201;
    session.show(applied, |agent| {
        let change = if is_new { "stored" } else { "unchanged" };
        let steps = agent.steps.len();
        let plural = if steps == 1 { "" } else { "s" };
        let (name, version) = (&agent.agent, agent.version);
        format!("{name}  version {version}  {steps} step{plural}  {change}")
    })
}

fn agent_text(agent: &AgentView, words: bool) -> String {
    if words {
        return instructions(&agent.steps);
    }
    let mut text = format!(
        "agent        {} (version {})\nstatus       {}\nupdated      {}\n",
        agent.agent,
        agent.version,
        agent.status,
        instant(agent.updated_at)
    );
    if let Some(description) = &agent.description {
        text.push_str(&format!("description  {}\n", one_line(description)));
    }
    format!("{text}\n{}", steps_table(&agent.steps))
}

async fn plan(
    session: &Session,
    file: &Path,
    strict: bool,
    words: bool,
) -> anyhow::Result<ExitKind> {
    let text = read_text(file)?;
    let body: Body<PlannedAgent> = session.client.post_agent("agents/plan", &text).await?;
    session.show(&body, |planned| {
        if words {
            return instructions(&planned.steps);
        }
        format!(
            "agent  {}\n\n{}",
            planned.agent,
            steps_table(&planned.steps)
        )
    })?;
    let warnings = &body.value.warnings;
    note_warnings(warnings);
    let is_refused = strict && !warnings.is_empty();
    Ok(if is_refused {
        ExitKind::Rejected
    } else {
        ExitKind::Ok
    })
}

/// One line for each step. A step that has no words is a comment.
fn instructions(steps: &[PlannedStepView]) -> String {
    let lines = steps.iter().map(|step| match &step.words {
        Some(words) => one_line(words),
        None => {
            let (id, action) = (&step.id, one_line(&step.action));
            format!("# {id} has no words: {action}")
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn steps_table(steps: &[PlannedStepView]) -> String {
    if let Some(list) = instructions_with_steps(steps) {
        return list;
    }
    let mut rows = Rows::new(&["STEP", "KIND", "ACTION", "NEEDS", "WHEN"]);
    for step in steps {
        rows.push(cells![
            step.id,
            step.kind,
            step.action,
            step.needs,
            step.when
        ]);
    }
    rows.render()
}

/// Each instruction, and below it the step that it gives; none: a step has no words.
fn instructions_with_steps(steps: &[PlannedStepView]) -> Option<String> {
    let width = steps.iter().map(|step| step.id.chars().count()).max()?;
    let mut lines = Vec::new();
    for step in steps {
        let (id, words) = (one_line(&step.id), one_line(step.words.as_deref()?));
        lines.push(format!("{id:<width$}  {words}"));
        let when = step.when.as_deref();
        let when = when.map_or_else(String::new, |when| format!("   when {}", one_line(when)));
        let action = one_line(&step.action);
        lines.push(format!("{:<width$}    {action}{when}", ""));
    }
    Some(lines.join("\n"))
}
