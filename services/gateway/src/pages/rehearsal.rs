//! The form that rehearses an agent with the first contacts of the workspace, and its earlier rehearsals.

mod report;
pub(super) mod row;
pub(super) mod stored;

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::agent::AgentView;
use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::executor::{GetAgent, ListContacts};
use holdpoint_contracts::rehearsal::{RehearsalContact, RehearseAgent, StoredRehearsal};
use holdpoint_contracts::run::Page;
use holdpoint_ids::AgentName;
use maud::{Markup, html};
use tokio::time::{Duration, Instant};

use super::attempt::Banner;
use super::labels;
use super::navigation::{self, Section};
use super::session::{Fields, PageError, PostedForm, Viewer, invalid_form, parse_id};
use crate::problem::{self, database_away};
use crate::store::rehearsals::{self, RehearsalId};
use crate::use_cases::rehearse::{self, Start};

/// Contacts of one rehearsal on the page.
const CONTACTS_SHOWN: u64 = 50;

/// Earlier rehearsals of the agent on its page.
const EARLIER_SHOWN: u64 = 10;

/// How long the browser waits for the end. The page of a rehearsal shows one that runs, too.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The form, and the earlier rehearsals of the agent.
pub(super) async fn page(Path(name): Path<String>, viewer: Viewer) -> Result<Markup, PageError> {
    let agent: AgentName = parse_id("agent", &name)?;
    viewer.caller.may(Right::Look)?;
    Ok(render(&viewer, &agent, &Fields::default(), &html! {}).await?)
}

/// Rehearses, and opens the page of the rehearsal. A refused form keeps its fields.
pub(super) async fn start(
    Path(name): Path<String>,
    PostedForm(viewer, fields): PostedForm,
) -> Result<Response, PageError> {
    let agent: AgentName = parse_id("agent", &name)?;
    viewer.caller.may(Right::Look)?;
    match perform(&viewer, &agent, &fields).await {
        Ok(id) => Ok(Redirect::to(&row::path(id)).into_response()),
        Err(refused) => {
            let errors = refused.errors.iter().map(|error| error.message.clone());
            let banner = Banner::error(&refused.detail, errors.collect());
            let page = render(&viewer, &agent, &fields, &banner.render()).await?;
            Ok((problem::status(&refused), page).into_response())
        }
    }
}

async fn perform(
    viewer: &Viewer,
    agent: &AgentName,
    fields: &Fields,
) -> Result<RehearsalId, Problem> {
    let (app, caller) = (&viewer.app, &viewer.caller);
    let permit = app
        .rehearsals
        .take(&caller.workspace, caller.claims.user.as_str())?;
    let erasures = rehearsals::count_erasures(&app.writer, &caller.workspace).await;
    let erasures = erasures.map_err(database_away)?;
    let version = fields.get_text("version").map(str::parse).transpose();
    let version = version.map_err(|_error| invalid_form("The version is not a number."))?;
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
    let request = RehearseAgent {
        text: None,
        agent: Some(agent.clone()),
        version,
        contacts: contacts.collect(),
        script: fields.get_text("script").map(str::to_owned),
        start_at: None,
        seconds: None,
        policies: Vec::new(),
        standing_approvals: Vec::new(),
    };
    let start = Start {
        request,
        erasures,
        permit,
    };
    let id = rehearse::start(app, caller, start).await?;
    let deadline = Instant::now() + END_WITHIN;
    rehearse::await_end(app, &caller.workspace, id, deadline).await?;
    Ok(id)
}

async fn render(
    viewer: &Viewer,
    agent: &AgentName,
    fields: &Fields,
    notice: &Markup,
) -> Result<Markup, Problem> {
    let view = GetAgent {
        agent: agent.clone(),
    };
    let view = viewer.query(&view).await?;
    let kept = viewer.app.kept_rehearsals(&viewer.caller.workspace);
    let earlier = kept.list(Some(agent), None, EARLIER_SHOWN).await;
    let earlier = earlier.map_err(database_away)?;
    let main = html! {
        p.back { a href={ "/agents/" (agent) } { "← " (agent) } }
        (notice)
        (form(viewer, &view, fields))
        (list(viewer, &earlier))
    };
    let title = format!("Rehearsal of {agent}");
    Ok(navigation::page(viewer, Section::Agents, &title, &main).await)
}

fn form(viewer: &Viewer, agent: &AgentView, fields: &Fields) -> Markup {
    let script = fields.get("script").unwrap_or_default();
    let chosen = fields.get_text("version");
    let inside = html! {
        h1 { "Rehearse " (agent.agent) }
        p.muted {
            "A rehearsal shows what the runs of up to " (CONTACTS_SHOWN) " contacts of the workspace would do. "
            "It sends nothing. Its result is kept for 7 days. Without a script, people answer after an hour, and every call succeeds."
        }
        @if agent.versions.len() > 1 {
            div.field {
                label for="version" { "Version" }
                select #version name="version" {
                    @for one in &agent.versions {
                        @let number = one.version.to_string();
                        option value=(number) selected[chosen == Some(&number)] { (number) }
                    }
                }
            }
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
    viewer.form(
        &row::path_of_agent(&agent.agent),
        "panel settings",
        &[],
        &inside,
    )
}

fn list(viewer: &Viewer, earlier: &[StoredRehearsal]) -> Markup {
    html! {
        @if !earlier.is_empty() {
            section #earlier {
                h2 { "Earlier rehearsals" }
                ul.ended {
                    @for one in earlier {
                        li {
                            a href={ "/rehearsals/" (one.id) } { (labels::instant(one.created_at, viewer.zone)) }
                            " " (row::status_chip(one.status)) " "
                            span.muted { (row::about(one)) }
                        }
                    }
                }
            }
        }
    }
}
