//! The page of one agent: its plan, its versions, the results of its runs, and the form that starts one.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::agent::{AgentStats, AgentView, GetAgentStats, PlannedStepView};
use holdpoint_contracts::executor::{
    GetAgent, ListRuns, PauseNew, PauseScope, PauseWaiting, ResumeScope, StartRun,
};
use holdpoint_contracts::run::{Page, ResumeMode, RunView};
use holdpoint_ids::{AgentName, RunId};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::agents::status_chip;
use super::attempt::RequestAttempt;
use super::labels;
use super::navigation::{self, Section};
use super::rehearsal;
use super::request_actions::{FormError, refused_attempt};
use super::sanitize::{clean, humanize, one_line};
use super::schema::FormSchema;
use super::session::{
    Fields, PageError, PostedForm, Viewer, invalid_form, parse_id, percent_encode,
};
use crate::body::from_json;
use crate::command_outcome::CommandOutcome;
use crate::problem;
use crate::use_cases::policy_warnings::policy_warnings;

/// The newest runs on the page.
const RUNS_MAX: u64 = 10;

struct AgentPage {
    agent: AgentView,
    /// None: they could not be read.
    stats: Option<AgentStats>,
    runs: Page<RunView>,
}

pub(super) async fn page(Path(name): Path<String>, viewer: Viewer) -> Result<Markup, PageError> {
    let name = parse_id("agent", &name)?;
    Ok(render(&viewer, name, &RequestAttempt::default()).await?)
}

/// The page, with the notice and the fields of a form that was refused.
async fn render(
    viewer: &Viewer,
    name: AgentName,
    attempt: &RequestAttempt,
) -> Result<Markup, Problem> {
    let page = load(viewer, name).await?;
    let agent = &page.agent;
    let main = html! {
        p.back { a href="/agents" { "← Agents" } }
        @if let Some(notice) = &attempt.notice { (notice.render()) }
        (head(viewer, agent))
        @if viewer.may(Right::Ask) && agent.status == "active" { (start_form(viewer, agent, attempt)) }
        section #stats {
            h2 { "Results of its runs" }
            @if let Some(stats) = &page.stats { (statistics(stats, viewer)) }
            @else { p.muted { "Statistics are not available now. The rest of the page is complete." } }
        }
        (newest_runs(agent, &page.runs, viewer))
        (plan(&agent.steps))
        (versions(agent, viewer))
    };
    let title = agent.agent.to_string();
    Ok(navigation::page(viewer, Section::Agents, &title, &main).await)
}

async fn load(viewer: &Viewer, agent: AgentName) -> Result<AgentPage, Problem> {
    viewer.caller.may(Right::Look)?;
    let stats = GetAgentStats {
        agent: agent.clone(),
        since: None,
    };
    let runs = ListRuns {
        limit: RUNS_MAX,
        agent: Some(agent.clone()),
        ..ListRuns::default()
    };
    let agent = GetAgent { agent };
    let (agent, stats, runs) = tokio::join!(
        viewer.query(&agent),
        viewer.query(&stats),
        viewer.query(&runs)
    );
    let mut agent: AgentView = agent?;
    let workspace = &viewer.caller.workspace;
    let warnings = policy_warnings(&viewer.app, workspace, &agent.steps);
    agent.warnings.extend(warnings.await);
    Ok(AgentPage {
        agent,
        stats: stats.inspect_err(log_missing_statistics).ok(),
        runs: runs?,
    })
}

fn log_missing_statistics(problem: &Problem) {
    let code = &problem.code;
    tracing::warn!(
        code,
        "statistics of an agent not read; its page is shown without them"
    );
}

fn head(viewer: &Viewer, agent: &AgentView) -> Markup {
    html! {
        section.panel.run #head {
            div.chips { (status_chip(agent)) }
            h1 { (agent.agent) }
            @if let Some(text) = &agent.description { p.lead { (clean(text)) } }
            p.meta {
                span { "Version " (agent.version) }
                span { "Changed " (labels::instant(agent.updated_at, viewer.zone)) }
            }
            @for warning in &agent.warnings { p.why { (one_line(&warning.message, 300)) } }
            p { a href=(rehearsal::row::path_of_agent(&agent.agent)) { "Rehearse this agent" } }
            @if viewer.may(Right::Operate) { (controls(viewer, agent)) }
        }
    }
}

fn controls(viewer: &Viewer, agent: &AgentView) -> Markup {
    let path = act_path(&agent.agent);
    let pause = html! {
        button { "Pause this agent" }
        span.hint {
            "Timers of all its runs stop, and new runs start paused, until the agent is resumed. "
            "With " code { "on_pause: cancel" } ", its waiting runs are cancelled."
        }
    };
    let resume = html! {
        button { "Resume this agent" }
        span.hint {
            "Its runs continue, unless they or the workspace are paused too. "
            "Waits have the time that was left, and a wait until a date keeps its date."
        }
    };
    html! {
        div.run-controls {
            @if agent.status == "paused" { (viewer.form(&path, "row", &[("do", "resume")], &resume)) }
            @else { (viewer.form(&path, "row", &[("do", "pause")], &pause)) }
        }
    }
}

fn act_path(agent: &AgentName) -> String {
    format!("/agents/{agent}/act")
}

fn start_form(viewer: &Viewer, agent: &AgentView, attempt: &RequestAttempt) -> Markup {
    let form = agent.inputs.as_ref().and_then(FormSchema::read);
    // A form that is sent twice starts one run.
    let run = RunId::fresh().to_string();
    let contact = attempt.fields.get("contact").unwrap_or_default();
    let inside = html! {
        div.field {
            label for="start-contact" { "Contact " span.muted { "(optional)" } }
            p.hint #start-contact-about { "The id of a stored contact." }
            input #start-contact name="contact" value=(contact) maxlength="100" aria-describedby="start-contact-about";
        }
        @match &form {
            Some(form) => (form.inputs("start", &attempt.fields, &attempt.errors)),
            None => (json_input(attempt)),
        }
        button { "Start a run" }
        span.hint { "The run has the newest version of this agent." }
    };
    html! {
        section.panel #start {
            h2 { "Start a run" }
            (viewer.form(&act_path(&agent.agent), "", &[("do", "start"), ("run", &run)], &inside))
        }
    }
}

/// The input of an agent without `inputs`, which its plan may read all the same.
fn json_input(attempt: &RequestAttempt) -> Markup {
    let text = attempt.fields.get("input").unwrap_or_default();
    html! {
        div.field {
            label for="start-input" { "Input " span.muted { "(optional)" } }
            p.hint #start-input-about { "A JSON object, such as " code { "{\"order\": \"o-1\"}" } ". Steps read it as " code { "$input" } "." }
            textarea #start-input name="input" rows="3" spellcheck="false" aria-describedby="start-input-about" { (text) }
        }
    }
}

fn statistics(stats: &AgentStats, viewer: &Viewer) -> Markup {
    let rate = stats
        .success_rate
        .map(|rate| format!("{:.0} %", rate * 100.0));
    html! {
        p.meta {
            span { "Runs since " (labels::instant(stats.since, viewer.zone)) ": " (stats.runs) }
            @if stats.limit_reached { span { "only the newest " (stats.runs) " count" } }
        }
        @if let Some(rate) = rate {
            p.lead { "Success rate " strong { (rate) } }
            p.hint { "Only failures of the agent lower it." }
        }
        dl.pairs {
            @for (status, runs) in &stats.statuses { dt { (humanize(status)) } dd { (runs) } }
            @for (class, runs) in &stats.failures { dt { "Failures of class " (humanize(class)) } dd { (runs) } }
            @if let Some(median) = &stats.median {
                dt { "Median time at work" } dd { (labels::duration(median.active_ms)) }
                dt { "Median time in queues" } dd { (labels::duration(median.queued_ms)) }
                dt { "Median wait for people" } dd { (labels::duration(median.human_ms)) }
            }
        }
    }
}

fn newest_runs(agent: &AgentView, runs: &Page<RunView>, viewer: &Viewer) -> Markup {
    html! {
        section #runs {
            h2 { "Newest runs" }
            @if runs.items.is_empty() { p.muted { "This agent has no runs." } }
            ul.runs {
                @for run in &runs.items {
                    li {
                        a.row href={ "/runs/" (run.id) } {
                            span.what {
                                strong { @if let Some(contact) = &run.contact { (contact) } @else { (run.id) } }
                                span.muted.block { (one_line(&run.message, 200)) }
                            }
                            span.state { (labels::run_status_chip(run.status)) }
                        }
                        p.meta {
                            span { "Version " (run.version) }
                            span { "Started " (labels::instant(run.created_at, viewer.zone)) }
                        }
                    }
                }
            }
            p { a href={ "/runs?agent=" (percent_encode(agent.agent.as_str())) } { "All runs of this agent" } }
        }
    }
}

fn plan(steps: &[PlannedStepView]) -> Markup {
    html! {
        section #plan {
            h2 { "Plan" }
            ol.steps {
                @for step in steps {
                    li {
                        strong { (one_line(&step.id, 100)) } " " (one_line(step.words.as_ref().unwrap_or(&step.action), 300))
                        @if let Some(when) = &step.when { span.muted.block { "When " code { (one_line(when, 300)) } } }
                        @if !step.needs.is_empty() { span.muted.block { "After " (one_line(&step.needs.join(", "), 300)) } }
                    }
                }
            }
        }
    }
}

fn versions(agent: &AgentView, viewer: &Viewer) -> Markup {
    html! {
        section #versions {
            h2 { "Versions" }
            ul {
                @for version in &agent.versions {
                    li { "Version " (version.version) ", " (labels::instant(version.created_at, viewer.zone)) }
                }
            }
        }
    }
}

/// Performs the form's action. A started run is shown, and otherwise the agent.
pub(super) async fn act(
    Path(name): Path<String>,
    PostedForm(viewer, fields): PostedForm,
) -> Result<Response, PageError> {
    let name: AgentName = parse_id("agent", &name)?;
    let refused = match perform(&viewer, &name, &fields).await {
        Ok(path) => return Ok(Redirect::to(&path).into_response()),
        Err(refused) => refused,
    };
    let status = problem::status(&refused.problem);
    let page = render(&viewer, name, &refused_attempt(refused, fields)).await?;
    Ok((status, page).into_response())
}

/// Returns the path of the page to show. If the executor is down, a pause or resume is stored and has its effect later.
async fn perform(viewer: &Viewer, agent: &AgentName, fields: &Fields) -> Result<String, FormError> {
    let own = format!("/agents/{agent}");
    match fields.get("do") {
        Some("start") => start(viewer, agent, fields).await,
        Some("pause") => {
            viewer.caller.may(Right::Operate)?;
            let command = PauseScope {
                agent: Some(agent.clone()),
                waiting: PauseWaiting::Hold,
                new: PauseNew::Accept,
            };
            viewer.command(command).await?;
            Ok(own)
        }
        Some("resume") => {
            viewer.caller.may(Right::Operate)?;
            let command = ResumeScope {
                agent: Some(agent.clone()),
                mode: ResumeMode::default(),
            };
            viewer.command(command).await?;
            Ok(own)
        }
        Some(_) | None => {
            let detail = "Invalid action; expected start, pause or resume.";
            Err(invalid_form(detail).into())
        }
    }
}

async fn start(viewer: &Viewer, agent: &AgentName, fields: &Fields) -> Result<String, FormError> {
    viewer.caller.may(Right::Ask)?;
    let query = GetAgent {
        agent: agent.clone(),
    };
    let view: AgentView = viewer.query(&query).await?;
    let contact = fields.get_text("contact");
    let contact = contact.map(|id| parse_id("contact", id)).transpose()?;
    let run = fields.get_text("run").unwrap_or_default();
    let run: RunId = parse_id("run", run)?;
    let command = StartRun {
        run,
        agent: agent.clone(),
        input: read_input(&view, fields)?,
        contact,
        labels: BTreeMap::new(),
    };
    Ok(match viewer.command(command).await? {
        // An agent that starts once may have started it before.
        CommandOutcome::Done(started) => format!("/runs/{}", started.run.id),
        // The run begins when the executor is back.
        CommandOutcome::Accepted(_) => format!("/agents/{agent}"),
    })
}

fn read_input(agent: &AgentView, fields: &Fields) -> Result<Value, FormError> {
    let Some(form) = agent.inputs.as_ref().and_then(FormSchema::read) else {
        return read_json_input(fields);
    };
    form.answer(fields).map_err(|errors| {
        let detail = "Some inputs are missing or invalid. Nothing was started.";
        let status = StatusCode::UNPROCESSABLE_ENTITY.as_u16();
        FormError {
            problem: Box::new(Problem::new(status, "invalid_input", detail)),
            fields: errors,
        }
    })
}

fn read_json_input(fields: &Fields) -> Result<Value, FormError> {
    let Some(text) = fields.get_text("input") else {
        return Ok(json!({}));
    };
    let input = from_json(text.as_bytes());
    input.map(Value::Object).map_err(|problem: Problem| {
        let detail = format!("Invalid input. Nothing was started. {}", problem.detail);
        let status = StatusCode::UNPROCESSABLE_ENTITY.as_u16();
        Problem::new(status, "invalid_input", detail).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Fields {
        Fields(vec![("input".to_owned(), text.to_owned())])
    }

    fn input_of(text: &str) -> Result<Value, FormError> {
        read_json_input(&written(text))
    }

    /// Gate 8: the start form of an agent without `inputs` gives `$input` all the same.
    #[test]
    fn an_input_without_a_form_is_a_json_object() {
        assert_eq!(input_of(" ").unwrap(), json!({}));
        let input = r#"{"order": "o-1", "lines": [1]}"#;
        assert_eq!(
            input_of(input).unwrap(),
            json!({ "order": "o-1", "lines": [1] })
        );
        for wrong in ["order", "[1]", "7", r#"{"a": }"#] {
            let refused = input_of(wrong).unwrap_err();
            assert_eq!((refused.problem.status, refused.fields.len()), (422, 0));
            let attempt = refused_attempt(refused, written(wrong));
            let kept = json_input(&attempt).into_string();
            let shown = wrong.replace('"', "&quot;");
            assert!(kept.contains(&format!(">{shown}</textarea>")), "{kept}");
        }
    }
}
