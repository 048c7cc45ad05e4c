//! The agents of a workspace, by name.

use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::agent::AgentView;
use holdpoint_contracts::executor::ListAgents;
use holdpoint_contracts::run::Page;
use maud::{Markup, html};

use super::labels;
use super::navigation::{self, Section};
use super::sanitize::{humanize, one_line};
use super::session::{PageError, Viewer, percent_encode};
use crate::params::Params;

const AGENTS_MAX: u64 = 100;

pub(super) async fn page(viewer: Viewer, params: Params) -> Result<Markup, PageError> {
    let cursor = params.only(&["cursor"])?.read_as("cursor")?;
    let agents = load(&viewer, cursor).await?;
    let main = html! {
        div.title { h1 { "Agents" } }
        @if agents.items.is_empty() {
            div.empty {
                h2 { "No agents" }
                p { "Store an agent with " code { "holdpoint agent apply FILE" } "." }
            }
        } @else {
            ul.runs { @for agent in &agents.items { li { (row(&viewer, agent)) } } }
            @if let Some(cursor) = &agents.next_cursor {
                p { a href={ "/agents?cursor=" (percent_encode(cursor)) } { "More agents" } }
            }
        }
    };
    Ok(navigation::page(&viewer, Section::Agents, "Agents", &main).await)
}

async fn load(viewer: &Viewer, cursor: Option<String>) -> Result<Page<AgentView>, Problem> {
    viewer.caller.may(Right::Look)?;
    let limit = AGENTS_MAX;
    viewer.query(&ListAgents { limit, cursor }).await
}

fn row(viewer: &Viewer, agent: &AgentView) -> Markup {
    html! {
        a.row href={ "/agents/" (agent.agent) } {
            span.what {
                strong { (agent.agent) }
                @if let Some(text) = &agent.description { span.muted.block { (one_line(text, 200)) } }
            }
            span.state { (status_chip(agent)) }
        }
        p.meta { span { "Version " (agent.version) } span { "Changed " (labels::instant(agent.updated_at, viewer.zone)) } }
    }
}

pub(super) fn status_chip(agent: &AgentView) -> Markup {
    let tone = if agent.status == "active" {
        labels::Tone::Good
    } else {
        labels::Tone::Calm
    };
    labels::chip(tone, &humanize(&agent.status))
}
