//! The rehearsal of an agent with the first contacts of the workspace: what its runs would do, and when.

use std::time::Duration;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use chrono_tz::Tz;
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::executor::ListContacts;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::rehearsal::{
    Outgoing, REPLY_SECONDS_MAX, Rehearsal, RehearsalContact, RehearsalSummary, RehearseAgent,
    RehearsedEvent, RehearsedRun, SCRIPT_BYTES_MAX, contact_names,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::AgentName;
use maud::{Markup, html};
use serde_json::Value;

use super::attempt::Banner;
use super::context;
use super::labels;
use super::navigation::{self, Section};
use super::sanitize::{clean, one_line};
use super::session::{Fields, PageError, PostedForm, Viewer, parse_id};
use super::timeline::event_class;
use crate::problem;

/// Contacts of one rehearsal on the page.
const CONTACTS_SHOWN: u64 = 50;

/// Most courses on the page.
const COURSES_MAX: usize = 20;

/// Most entries of one course on the page.
const EVENTS_MAX: usize = 100;

const REPLY_WITHIN: Duration = Duration::from_secs(REPLY_SECONDS_MAX);

/// The form without a result.
pub(super) async fn page(Path(name): Path<String>, viewer: Viewer) -> Result<Markup, PageError> {
    let agent: AgentName = parse_id("agent", &name)?;
    viewer.caller.may(Right::Look)?;
    Ok(render(&viewer, &agent, "", &html! {}).await)
}

/// The form with the result of its script.
pub(super) async fn rehearse(
    Path(name): Path<String>,
    PostedForm(viewer, fields): PostedForm,
) -> Result<Response, PageError> {
    let agent: AgentName = parse_id("agent", &name)?;
    viewer.caller.may(Right::Look)?;
    let script = fields.get("script").unwrap_or_default();
    let (status, result) = match perform(&viewer, &agent, &fields).await {
        Ok(rehearsal) => (axum::http::StatusCode::OK, report(&rehearsal, viewer.zone)),
        Err(refused) => {
            let errors = refused.errors.iter().map(|error| error.message.clone());
            let banner = Banner::error(&refused.detail, errors.collect());
            (problem::status(&refused), banner.render())
        }
    };
    let page = render(&viewer, &agent, script, &result).await;
    Ok((status, page).into_response())
}

async fn perform(
    viewer: &Viewer,
    agent: &AgentName,
    fields: &Fields,
) -> Result<Rehearsal, Problem> {
    let caller = &viewer.caller;
    let user = caller.claims.user.as_str();
    let _permit = viewer.app.rehearsals.take(&caller.workspace, user)?;
    let script = fields.get_text("script");
    if script.is_some_and(|script| script.len() > SCRIPT_BYTES_MAX) {
        let detail = format!("The script is too long; expected at most {SCRIPT_BYTES_MAX} bytes.");
        return Err(Problem::new(422, "invalid_script", detail));
    }
    let contacts = ListContacts {
        limit: CONTACTS_SHOWN,
        email: None,
        cursor: None,
        message_ids: Vec::new(),
    };
    let contacts: Page<ContactView> = viewer.query(&contacts).await?;
    if contacts.items.is_empty() {
        let detail = "The workspace has no contacts. Start a run with a contact, or add one with `holdpoint contact put`.";
        return Err(Problem::new(422, "no_contacts", detail));
    }
    let contacts = contacts.items.into_iter().map(|contact| RehearsalContact {
        id: contact.id,
        fields: contact.fields,
    });
    let query = RehearseAgent {
        text: None,
        agent: Some(agent.clone()),
        contacts: contacts.collect(),
        script: script.map(str::to_owned),
        start_at: None,
    };
    let bus = &viewer.app.bus;
    bus.query_within(&caller.workspace, &query, REPLY_WITHIN)
        .await
}

async fn render(viewer: &Viewer, agent: &AgentName, script: &str, result: &Markup) -> Markup {
    let main = html! {
        p.back { a href={ "/agents/" (agent) } { "← " (agent) } }
        (form(viewer, agent, script))
        (result)
    };
    let title = format!("Rehearsal of {agent}");
    navigation::page(viewer, Section::Agents, &title, &main).await
}

fn form(viewer: &Viewer, agent: &AgentName, script: &str) -> Markup {
    let inside = html! {
        h1 { "Rehearse " (agent) }
        p.muted {
            "A rehearsal shows what the runs of up to " (CONTACTS_SHOWN) " contacts of the workspace would do. "
            "It sends nothing and stores nothing. Without a script, people answer after an hour, and every call succeeds."
        }
        div.field {
            label for="script" { "Script " span.muted { "(optional)" } }
            p.hint #script-about {
                "What people, tools and contacts do, for example "
                code { "contacts: [{ after: 2d, set: { replied: true } }]" }
            }
            textarea #script name="script" rows="5" spellcheck="false" aria-describedby="script-about" { (script) }
        }
        div.row { button.primary { "Rehearse" } }
    };
    viewer.form(&path(agent), "panel settings", &[], &inside)
}

/// The page of an agent has a link to it.
pub(super) fn path(agent: &AgentName) -> String {
    format!("/agents/{agent}/rehearsal")
}

pub(super) fn report(rehearsal: &Rehearsal, zone: Tz) -> Markup {
    let courses = rehearsal.courses();
    let contacts = rehearsal.runs.len();
    html! {
        section.panel #summary {
            h2 { "Nothing was sent" }
            p.meta {
                span { "Contacts " (contacts) }
                span { "Start " (labels::instant(rehearsal.started_at, zone)) }
            }
            @if rehearsal.contacts_left > 0 {
                p.why { (rehearsal.contacts_left) " contacts are missing, because the rehearsal has reached its limit of time or size." }
            }
            (summary(&rehearsal.summary()))
        }
        @for runs in courses.iter().take(COURSES_MAX) {
            @if let Some(run) = runs.first() { (course(run, runs, zone)) }
        }
        @if courses.len() > COURSES_MAX {
            p.muted { (courses.len() - COURSES_MAX) " more courses are not shown. " code { "holdpoint agent rehearse --json" } " has all of them." }
        }
    }
}

fn summary(summary: &RehearsalSummary) -> Markup {
    html! {
        dl.pairs {
            @for (tool, calls) in &summary.calls { dt { "Calls of " (tool) } dd { (calls) } }
            @for (to, requests) in &summary.requests { dt { "Requests to " (one_line(to, 100)) } dd { (requests) } }
            @if !summary.unreached_steps.is_empty() {
                dt { "Steps that no contact reached" }
                dd { (one_line(&summary.unreached_steps.join(", "), 400)) }
            }
            @if !summary.ended_unseen.is_empty() {
                dt { "Runs that end without a request to a person" }
                dd { (summary.ended_unseen.len()) " (" (contact_names(summary.ended_unseen.iter())) ")" }
            }
            @if !summary.unended.is_empty() {
                dt { "Runs that do not end" }
                dd { (summary.unended.len()) " (" (contact_names(summary.unended.iter())) ")" }
            }
        }
    }
}

fn course(run: &RehearsedRun, runs: &[&RehearsedRun], zone: Tz) -> Markup {
    let mut events = run.timeline.iter().filter(|event| !event.is_minor());
    let shown: Vec<_> = events.by_ref().take(EVENTS_MAX).collect();
    let left = run.events_left + events.count() as u64;
    html! {
        section {
            h2 { (contact_names(runs.iter().map(|run| &run.contact))) " " (labels::run_status_chip(run.status)) }
            @if runs.len() > 1 { p.muted { "These " (runs.len()) " contacts take the same course. The texts are those of " (run.contact) "." } }
            ol.timeline { @for event in shown { (entry(event, zone)) } }
            @if left > 0 { p.muted { (left) " more entries" } }
            @if let Some(limit) = run.stopped_by { p.why { "The rehearsal stops here: " (limit.text()) "." } }
            @else if run.ended_at.is_none() { p.why { "The run does not end: " (one_line(&run.message, 400)) } }
        }
    }
}

fn entry(event: &RehearsedEvent, zone: Tz) -> Markup {
    let class = match event.outgoing {
        Some(Outgoing::Request { .. }) => "waits",
        Some(Outgoing::Call { .. } | Outgoing::ChildRun { .. }) => "good",
        None if event.kind == EventType::RunCompleted => "plain",
        None => event_class(event.kind),
    };
    html! {
        li class=(class) {
            (labels::instant(event.at, zone)) " "
            @match &event.outgoing {
                Some(Outgoing::Call { tool, args }) => {
                    span { "Calls " strong { (tool) } }
                    @if let Some(step) = &event.step { span.muted { " · " (one_line(step, 100)) } }
                    @if let Some(mail) = mail_line(args) { span.block { (mail) } }
                    details { summary { "Arguments" } (context::value(args, 0)) }
                },
                Some(Outgoing::Request { request, to, question, deadline }) => {
                    span { (labels::hold_kind(*request)) " to " strong { (recipients(to)) } ": " (clean(question)) }
                    @if let Some(at) = deadline { span.muted { " · deadline " (labels::instant(*at, zone)) } }
                    @if let Some(step) = &event.step { span.muted { " · " (one_line(step, 100)) } }
                },
                Some(Outgoing::ChildRun { agent }) => span { "Starts a run of " strong { (agent) } },
                None => {
                    span { (one_line(&event.message, 400)) }
                    @if let Some(step) = &event.step { span.muted { " · " (one_line(step, 100)) } }
                },
            }
        }
    }
}

/// To whom a mail goes, and its subject.
fn mail_line(args: &Value) -> Option<String> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let (to, subject) = (text("to")?, text("subject")?);
    Some(one_line(&format!("To {to}: {subject}"), 300))
}

fn recipients(to: &[String]) -> String {
    if to.is_empty() {
        return "the owners".to_owned();
    }
    one_line(&to.join(", "), 200)
}
