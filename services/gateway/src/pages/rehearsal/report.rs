//! What the runs of a rehearsal do: the totals, and a timeline for each group of contacts.

use chrono_tz::Tz;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::RungAct;
use holdpoint_contracts::rehearsal::{
    Outgoing, Rehearsal, RehearsalSummary, RehearsedEvent, RehearsedRun, contact_names,
};
use maud::{Markup, html};
use serde_json::Value;

use crate::pages::context;
use crate::pages::labels;
use crate::pages::sanitize::{clean, one_line};
use crate::pages::timeline::event_class;

/// Most courses on the page.
const COURSES_MAX: usize = 20;

/// Most users on the page, those with the most requests first.
const USERS_SHOWN: usize = 50;

/// Most entries of one course on the page.
const EVENTS_MAX: usize = 100;

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
            @let totals = rehearsal.summary();
            (summary(&totals))
            (users(&totals))
        }
        @for runs in courses.iter().take(COURSES_MAX) {
            @if let Some(run) = runs.first() { (course(run, runs, zone)) }
        }
        @if courses.len() > COURSES_MAX {
            p.muted { (courses.len() - COURSES_MAX) " more courses are not shown. " code { "holdpoint rehearsal show ID --json" } " has all of them." }
        }
    }
}

fn summary(summary: &RehearsalSummary) -> Markup {
    html! {
        dl.pairs {
            @for (tool, calls) in &summary.calls { dt { "Calls of " (tool) } dd { (calls) } }
            @for (to, requests) in &summary.requests { dt { "Requests to " (one_line(to, 100)) } dd { (requests) } }
            @for (approval, uses) in &summary.standing_approvals {
                dt { "Approved by " a href="/standing-approvals" { (approval) } } dd { (uses) }
            }
            @if !summary.empty_roles.is_empty() {
                dt { "Roles without an active user" }
                dd { (one_line(&Vec::from_iter(summary.empty_roles.iter().cloned()).join(", "), 400)) }
            }
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

/// Empty also for a rehearsal that was stored before users were counted.
fn users(summary: &RehearsalSummary) -> Markup {
    let mut users: Vec<_> = summary.users.iter().collect();
    users.sort_by_key(|(_, requests)| std::cmp::Reverse(**requests));
    let left = users.len().saturating_sub(USERS_SHOWN);
    html! {
        @if !users.is_empty() {
            h3 { "Requests for each user" }
            dl.pairs {
                @for (user, requests) in users.iter().take(USERS_SHOWN) { dt { (user) } dd { (requests) } }
            }
            @if left > 0 { p.muted { (left) " more users get fewer requests" } }
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
        Some(Outgoing::Request { .. } | Outgoing::Escalation { .. }) => "waits",
        Some(
            Outgoing::Call { .. } | Outgoing::ApprovedInAdvance { .. } | Outgoing::ChildRun { .. },
        ) => "good",
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
                Some(Outgoing::Escalation { request, act, to }) => {
                    span { (escalation(*act)) " " strong { (recipients(to)) } }
                    span.muted { " · " (labels::hold_kind(*request)) }
                    @if let Some(step) = &event.step { span.muted { " · " (one_line(step, 100)) } }
                },
                Some(Outgoing::ApprovedInAdvance { approval, by, number, max_uses }) => {
                    span { strong { (by) } " has approved it in advance" }
                    span.muted { " · " (approval) ", use " (number) " of " (max_uses) }
                    @if let Some(step) = &event.step { span.muted { " · " (one_line(step, 100)) } }
                },
                Some(Outgoing::ChildRun { agent }) => {
                    span { "Starts a run of " strong { (agent) } }
                    @if let Some(step) = &event.step { span.muted { " · " (one_line(step, 100)) } }
                },
                None => {
                    span { (one_line(&event.message, 400)) }
                    @if let Some(at) = event.until { span.muted { " · until " (labels::instant(at, zone)) } }
                    @if let Some(step) = &event.step { span.muted { " · " (one_line(step, 100)) } }
                },
            }
        }
    }
}

/// Words before the users whom a rung notifies.
pub(super) const fn escalation(act: RungAct) -> &'static str {
    match act {
        RungAct::Notify => "Notifies",
        RungAct::Reassign => "Reassigns it to",
        RungAct::Broaden => "Also asks",
        RungAct::Raise => "Raises its priority and notifies",
        // These end the request.
        RungAct::AnswerDefault | RungAct::Fail => "Ends the request of",
    }
}

/// To whom a mail goes, and its subject.
pub(super) fn mail_line(args: &Value) -> Option<String> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let (to, subject) = (text("to")?, text("subject")?);
    Some(one_line(&format!("To {to}: {subject}"), 300))
}

pub(super) fn recipients(to: &[String]) -> String {
    if to.is_empty() {
        return "the owners".to_owned();
    }
    one_line(&to.join(", "), 200)
}
