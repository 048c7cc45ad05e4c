//! The runs of a workspace, newest first, so that people find them.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono_tz::Tz;
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::ListRuns;
use holdpoint_contracts::notification::Watched;
use holdpoint_contracts::run::{Page, RunStatus, RunView};
use holdpoint_ids::AgentName;
use maud::{Markup, html};

use super::labels;
use super::layout::{self, Place};
use super::live::{Fragment, key_of};
use super::sanitize::{line, spoken};
use super::session::{PageError, SignedInUser, encoded};
use super::watch_buttons;
use crate::app::App;
use crate::params::Params;

/// Runs on one page.
const RUNS_MAX: u64 = 50;

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    status: Option<RunStatus>,
    agent: Option<AgentName>,
    cursor: Option<String>,
}

impl Filter {
    pub(super) fn read(params: Params) -> Result<Self, Problem> {
        let params = params.only(&["status", "agent", "cursor"])?;
        let said = |name: &str| -> Result<bool, Problem> {
            let text: Option<String> = params.read_as(name)?;
            Ok(text.is_some_and(|text| !text.is_empty()))
        };
        Ok(Self {
            status: if said("status")? {
                params.read_as("status")?
            } else {
                None
            },
            agent: if said("agent")? {
                params.read_as("agent")?
            } else {
                None
            },
            cursor: params.read_as("cursor")?,
        })
    }

    /// The address of what comes after these.
    fn next(&self, cursor: &str) -> String {
        let status = self.status.map_or("", RunStatus::as_str);
        let agent = self.agent.as_ref().map_or("", AgentName::as_str);
        let (agent, cursor) = (encoded(agent), encoded(cursor));
        format!("/runs?status={status}&agent={agent}&cursor={cursor}")
    }
}

pub(super) async fn page(
    State(app): State<App>,
    person: SignedInUser,
    params: Params,
) -> Result<Response, PageError> {
    let filter = Filter::read(params)?;
    let found = load(&app, &person, &filter).await?;
    let agent = filter.agent.clone().filter(|_| !found.items.is_empty());
    let of = agent.map(Watched::Agent).into_iter().collect();
    let followed = watch_buttons::find(&app, &person, of).await;
    let main = html! {
        div.title { h1 { "Runs" } }
        (form(&filter))
        (followed.shown(&person, None))
        (list(&found, &filter, person.zone))
    };
    let page = layout::page(&app, &person, Place::Runs, "Runs", &main);
    Ok(page.await.into_response())
}

pub(super) async fn fragments(
    app: &App,
    person: &SignedInUser,
    filter: &Filter,
) -> Result<Vec<Fragment>, Problem> {
    let found = load(app, person, filter).await?;
    Ok(vec![Fragment::of(
        "runs",
        &key_data(&found),
        list(&found, filter, person.zone),
    )])
}

async fn load(app: &App, person: &SignedInUser, filter: &Filter) -> Result<Page<RunView>, Problem> {
    person.caller.may(Right::Look)?;
    let query = ListRuns {
        limit: RUNS_MAX,
        cursor: filter.cursor.clone(),
        status: filter.status,
        agent: filter.agent.clone(),
        label: None,
        created_after: None,
        hold: None,
    };
    app.bus.query(&person.caller.workspace, &query).await
}

/// Clocks run on while nothing changes: they are no news.
fn key_data(found: &Page<RunView>) -> Vec<(String, RunStatus, &str, usize)> {
    let items = found.items.iter();
    let data = items.map(|run| {
        let pauses = run.paused_by.len();
        (run.id.to_string(), run.status, run.message.as_str(), pauses)
    });
    data.collect()
}

fn form(filter: &Filter) -> Markup {
    html! {
        form.filter method="get" action="/runs" data-auto aria-label="Filter" {
            label { span { "Status" }
                select name="status" {
                    option value="" { "All" }
                    @for status in RunStatus::ALL {
                        option value=(status) selected[filter.status == Some(status)] { (spoken(status.as_str())) }
                    }
                }
            }
            label { span { "Agent" }
                input name="agent" value=[filter.agent.as_ref()] placeholder="any";
            }
            button.quiet { "Show" }
        }
    }
}

fn list(found: &Page<RunView>, filter: &Filter, zone: Tz) -> Markup {
    html! {
        section #runs data-key=(key_of(&key_data(found))) {
            @if found.items.is_empty() {
                div.empty {
                    h2 { "No runs here" }
                    p { "Each start of an agent is a run, and appears here: " code { "holdpoint run start AGENT" } "." }
                }
            } @else {
                ul.runs {
                    @for run in &found.items {
                        li {
                            a.row href={ "/runs/" (run.id) } {
                                span.what {
                                    strong { (run.agent) }
                                    @if let Some(contact) = &run.contact { " · " (contact) }
                                    span.muted.block { (line(&run.message, 200)) }
                                }
                                span.state {
                                    @if !run.paused_by.is_empty() { (labels::chip(labels::Tone::Calm, "Paused")) " " }
                                    (labels::run_status(run.status))
                                }
                            }
                            p.meta { span { "Started " (labels::instant(run.created_at, zone)) } }
                        }
                    }
                }
                @if let Some(cursor) = &found.next_cursor {
                    p { a href=(filter.next(cursor)) { "Older runs" } }
                }
            }
        }
    }
}
