//! `agent`: describing what runs do.

use std::path::{Path, PathBuf};

use holdpoint_contracts::agent::{AgentView, PlannedStepView};
use holdpoint_contracts::executor::ChangedScope;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::Page;

use super::{
    ClientCommand, Session, instant, note_more, page_query, refusal_line, show as show_answer,
    workspace,
};
use crate::cli::{AgentCommand, PageArgs};
use crate::client::{Body, ClientError, segment};
use crate::exit::Outcome;
use crate::output;
use crate::parsers::read_text;
use crate::table::{Rows, one_line};

impl ClientCommand for AgentCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Apply { files, strict } => apply(session, &files, strict).await,
            Self::List(page) => list(session, &page).await,
            Self::Show { name } => show(session, &name).await,
            Self::Plan { file, strict } => plan(session, &file, strict).await,
            Self::Pause { name, pause } => {
                let path = format!("agents/{}/pause", segment(&name)?);
                workspace::pause(session, &path, &pause).await
            }
            Self::Resume { name, mode } => {
                let path = format!("agents/{}/resume", segment(&name)?);
                workspace::resume(session, &path, mode).await
            }
            Self::Delete { name } => {
                let path = format!("agents/{}", segment(&name)?);
                let answer: Body<ChangedScope> = session.client.delete(&path).await?;
                show_answer(session, &answer, |_| {
                    format!("{name}  deleted; its open runs fail")
                })
            }
        }
    }
}

/// Each file by itself: one that is refused does not keep the next from being stored.
async fn apply(session: &Session, files: &[PathBuf], strict: bool) -> anyhow::Result<Outcome> {
    let mut outcomes = Vec::with_capacity(files.len());
    for file in files {
        let text = read_text(file)?;
        if strict && has_warnings(session, file, &text).await? {
            outcomes.push(Outcome::Rejected);
            continue;
        }
        match session.client.apply_agent(&text).await {
            Ok(applied) => {
                outcomes.push(Outcome::Ok);
                print_applied(session, &applied)?;
            }
            Err(error) if files.len() == 1 => return Err(error.into()),
            Err(error) => {
                outcomes.push(error.outcome());
                print_refused(session, file, &error)?;
            }
        }
    }
    Ok(Outcome::of_many(outcomes))
}

/// Whether a text has warnings; tells them.
async fn has_warnings(session: &Session, file: &Path, text: &str) -> anyhow::Result<bool> {
    // What is wrong with a text is told when it is stored.
    let Ok(planned) = session.client.plan_agent(text).await else {
        return Ok(false);
    };
    let warnings = &planned.value.warnings;
    note_warnings(warnings);
    if !warnings.is_empty() {
        let file = file.display();
        output::note(&format!(
            "error: {file}: --strict takes no warnings; nothing is stored"
        ));
    }
    Ok(!warnings.is_empty())
}

/// `warning: step mail: No tool … Did you mean `send_email`?`
fn note_warnings(warnings: &[FieldError]) {
    for warning in warnings {
        let step = warning.step.as_deref().unwrap_or_default();
        let meant = match warning.nearest.first() {
            Some(nearest) => format!(" Did you mean `{nearest}`?"),
            None => String::new(),
        };
        output::note(&format!(
            "warning: step {}: {}{}",
            one_line(step),
            one_line(&warning.message),
            one_line(&meant)
        ));
    }
}

fn print_applied(session: &Session, applied: &Body<AgentView>) -> anyhow::Result<()> {
    if session.json {
        return Ok(output::line(&applied.text)?);
    }
    let agent = &applied.value;
    note_warnings(&agent.warnings);
    let what = if applied.status == 201 {
        "stored"
    } else {
        "unchanged"
    };
    let steps = agent.steps.len();
    let plural = if steps == 1 { "" } else { "s" };
    let (name, version) = (&agent.agent, agent.version);
    Ok(output::line(&format!(
        "{name}  version {version}  {steps} step{plural}  {what}"
    ))?)
}

fn print_refused(session: &Session, file: &Path, error: &ClientError) -> anyhow::Result<()> {
    let file = file.display().to_string();
    if session.json {
        output::line(&refusal_line("file", &file, error))?;
    }
    output::note(&format!("error: {file}: {error}"));
    Ok(())
}

async fn list(session: &Session, page: &PageArgs) -> anyhow::Result<Outcome> {
    let answer: Body<Page<AgentView>> = session.client.get("agents", &page_query(page)).await?;
    if session.json {
        output::line(&answer.text)?;
        return Ok(Outcome::Ok);
    }
    let mut rows = Rows::new(&["AGENT", "VERSION", "STATUS", "UPDATED", "DESCRIPTION"]);
    for agent in &answer.value.items {
        rows.push([
            agent.agent.to_string(),
            agent.version.to_string(),
            agent.status.clone(),
            instant(agent.updated_at),
            agent.description.clone().unwrap_or_default(),
        ]);
    }
    if rows.is_empty() {
        output::note("no agents yet; `holdpoint agent apply FILE` makes one");
    } else {
        output::line(&rows.render())?;
    }
    note_more(answer.value.next_cursor.as_deref());
    Ok(Outcome::Ok)
}

async fn show(session: &Session, name: &str) -> anyhow::Result<Outcome> {
    let answer = session.client.agent(name).await?;
    if session.json {
        output::line(&answer.text)?;
        return Ok(Outcome::Ok);
    }
    let agent = &answer.value;
    let mut text = format!("agent    {} (version {})\n", agent.agent, agent.version);
    text.push_str(&format!(
        "status   {}\nupdated  {}\n",
        agent.status,
        instant(agent.updated_at)
    ));
    if let Some(description) = &agent.description {
        text.push_str(&format!("for      {}\n", one_line(description)));
    }
    output::line(&text)?;
    output::line(&steps_table(&agent.steps))?;
    Ok(Outcome::Ok)
}

async fn plan(session: &Session, file: &Path, strict: bool) -> anyhow::Result<Outcome> {
    let answer = session.client.plan_agent(&read_text(file)?).await?;
    if session.json {
        output::line(&answer.text)?;
    } else {
        output::line(&format!("agent  {}\n", answer.value.agent))?;
        output::line(&steps_table(&answer.value.steps))?;
    }
    let warnings = &answer.value.warnings;
    note_warnings(warnings);
    Ok(match strict && !warnings.is_empty() {
        true => Outcome::Rejected,
        false => Outcome::Ok,
    })
}

fn steps_table(steps: &[PlannedStepView]) -> String {
    let mut rows = Rows::new(&["STEP", "KIND", "ACTION", "NEEDS", "WHEN"]);
    for step in steps {
        rows.push([
            step.id.clone(),
            step.kind.clone(),
            step.action.clone(),
            step.needs.join(", "),
            step.when.clone().unwrap_or_default(),
        ]);
    }
    rows.render()
}
