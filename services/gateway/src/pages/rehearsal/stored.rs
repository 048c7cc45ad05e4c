//! The page of one stored rehearsal, and its differences to an earlier one.

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::rehearsal::{
    Outgoing, RehearsalChange, RehearsalChanges, RehearsedAct, StoredRehearsal,
};
use maud::{Markup, html};

use super::{report, row};
use crate::pages::labels;
use crate::pages::navigation::{self, Section};
use crate::pages::sanitize::{clean, one_line};
use crate::pages::session::{PageError, PostedForm, Viewer, invalid_form, parse_id};
use crate::params::Params;
use crate::problem::database_away;
use crate::store::rehearsals::{self, Found, RehearsalId};
use crate::use_cases::rehearse;

/// Rehearsals that the form offers for a comparison.
const OFFERED: u64 = 20;

pub(in crate::pages) async fn page(
    Path(id): Path<String>,
    viewer: Viewer,
    params: Params,
) -> Result<Markup, PageError> {
    let id: RehearsalId = parse_id("rehearsal", &id)?;
    viewer.caller.may(Right::Look)?;
    let found = find(&viewer, id).await?;
    let from: Option<RehearsalId> = params.only(&["from"])?.read_as("from")?;
    let db = &viewer.app.readers;
    let kept = viewer.app.kept_rehearsals(&viewer.caller.workspace);
    let stored = &found.rehearsal;
    let others = kept.list(Some(&stored.agent), None, OFFERED).await?;
    let head = head(&viewer, stored, &others, from);
    // Only one reader at a time has all runs in memory.
    let user = viewer.caller.claims.user.as_str();
    let _permit = viewer.app.plans.take(&viewer.caller.workspace, user)?;
    let _one_reader = viewer.app.reading_rehearsals.lock().await;
    let rehearsal = rehearsals::load(db, id, found.clone()).await?;
    let main = html! {
        p.back { a href=(row::path_of_list(stored)) { "← Rehearsals of " (stored.agent) } }
        (head)
        @if let Some(from) = from {
            @let before = rehearsals::load(db, from, find(&viewer, from).await?).await?;
            (changes(&RehearsalChanges::between(&before, &rehearsal)))
        }
        (report::report(&rehearsal, viewer.zone))
    };
    let title = format!("Rehearsal of {}", stored.agent);
    Ok(navigation::page(&viewer, Section::Agents, &title, &main).await)
}

/// Cancels or deletes a rehearsal.
pub(in crate::pages) async fn act(
    Path(id): Path<String>,
    PostedForm(viewer, fields): PostedForm,
) -> Result<Response, PageError> {
    let id: RehearsalId = parse_id("rehearsal", &id)?;
    viewer.caller.may(Right::Look)?;
    let found = find(&viewer, id).await?;
    rehearse::require_creator(&viewer.caller, &found.rehearsal)?;
    let next = match fields.get("action") {
        Some("cancel") => {
            rehearse::cancel(&viewer.app, id).await?;
            row::path(id)
        }
        Some("delete") => {
            rehearse::remove(&viewer.app, &viewer.caller.workspace, id).await?;
            row::path_of_list(&found.rehearsal)
        }
        _ => return Err(invalid_form("expected the action cancel or delete").into()),
    };
    Ok(Redirect::to(&next).into_response())
}

async fn find(viewer: &Viewer, id: RehearsalId) -> Result<Found, Problem> {
    let kept = viewer.app.kept_rehearsals(&viewer.caller.workspace);
    let found = kept.find(id).await;
    found.map_err(database_away)?.ok_or_else(|| {
        let detail = format!("The rehearsal {id} was not found. Rehearsals are kept for 7 days.");
        Problem::not_found(detail)
    })
}

fn head(
    viewer: &Viewer,
    rehearsal: &StoredRehearsal,
    others: &[StoredRehearsal],
    from: Option<RehearsalId>,
) -> Markup {
    let zone = viewer.zone;
    let is_running = !rehearsal.has_ended();
    let act = format!("/rehearsals/{}/act", rehearsal.id);
    let button = |action: &str, label: &str| {
        let button = html! { button { (label) } };
        viewer.form(&act, "", &[("action", action)], &button)
    };
    let others = others.iter().filter(|other| other.id != rehearsal.id);
    let others: Vec<_> = others.collect();
    html! {
        section.panel.run #head {
            div.chips { (row::status_chip(rehearsal.status)) }
            h1 { "Rehearsal of " (rehearsal.agent) }
            p.meta {
                span { (row::about(rehearsal)) }
                span { "Created " (labels::instant(rehearsal.created_at, zone)) }
                span { "Kept until " (labels::instant(rehearsal.kept_until, zone)) }
            }
            @if let Some(detail) = &rehearsal.detail { p.why { (one_line(detail, 400)) } }
            @if is_running { p.muted { "Reload this page to see more contacts." } }
            @if rehearse::require_creator(&viewer.caller, rehearsal).is_ok() {
                div.run-controls {
                    @if is_running { (button("cancel", "Cancel this rehearsal")) }
                    (button("delete", "Delete this rehearsal"))
                }
            }
            @if !others.is_empty() { (comparison_form(viewer, rehearsal, &others, from)) }
        }
    }
}

/// A form that only reads, so it needs no proof of its page.
fn comparison_form(
    viewer: &Viewer,
    rehearsal: &StoredRehearsal,
    others: &[&StoredRehearsal],
    from: Option<RehearsalId>,
) -> Markup {
    let chosen = from.map(|from| from.to_string());
    let zone = viewer.zone;
    html! {
        form method="get" action={ "/rehearsals/" (rehearsal.id) } {
            div.field {
                label for="from" { "Compare with" }
                select #from name="from" {
                    @for other in others {
                        option value=(other.id) selected[chosen.as_ref() == Some(&other.id)] {
                            (other.id) ", " (labels::instant_text(other.created_at, zone)) ": " (row::about(other))
                        }
                    }
                }
            }
            div.row { button { "Compare" } }
        }
    }
}

fn changes(changes: &RehearsalChanges) -> Markup {
    let differ = changes.changes.len().saturating_add(changes.changes_left);
    html! {
        section.panel #changes {
            h2 { "The runs of " (differ) " of " (changes.contacts) " contacts differ" }
            @if differ > 0 {
                p.muted { "Each line has the first difference between the runs of a contact." }
                table {
                    thead { tr { th { "Contact" } th { "Before" } th { "Now" } } }
                    tbody { @for change in &changes.changes { (change_row(change)) } }
                }
            }
            @if changes.not_compared > 0 {
                p.why { (changes.not_compared) " contacts do the same as far as their timelines go, and these are cut." }
            }
            @if changes.changes_left > 0 { p.muted { (changes.changes_left) " more contacts" } }
        }
    }
}

fn change_row(change: &RehearsalChange) -> Markup {
    html! {
        tr {
            td { (change.contact) }
            td { (act_text(change.before.as_ref())) }
            td { (act_text(change.after.as_ref())) }
        }
    }
}

fn act_text(act: Option<&RehearsedAct>) -> Markup {
    let Some(act) = act else {
        return html! { span.muted { "nothing more" } };
    };
    html! {
        @if let Some(after) = &act.after { span.muted { (after) " " } }
        @match &act.outgoing {
            Some(Outgoing::Call { tool, args }) => {
                "calls " strong { (tool) }
                @if let Some(mail) = report::mail_line(args) { span.block { (mail) } }
                @else { details { summary { "Arguments" } (crate::pages::context::value(args, 0)) } }
            },
            Some(Outgoing::Request { request, to, question, .. }) => {
                (labels::hold_kind(*request)) " to " strong { (report::recipients(to)) } ": " (clean(question))
            },
            Some(Outgoing::Escalation { act, to, .. }) => { (report::escalation(*act).to_lowercase()) " " strong { (report::recipients(to)) } },
            Some(Outgoing::ApprovedInAdvance { approval, by, .. }) => {
                strong { (by) } " has approved it in advance " span.muted { "(" (approval) ")" }
            },
            Some(Outgoing::ChildRun { agent }) => { "starts a run of " strong { (agent) } },
            None => {},
        }
        @if let Some(until) = &act.deadline { span.muted { " (until " (until) ")" } }
        @if let Some(end) = &act.end { (one_line(end, 400)) }
    }
}
