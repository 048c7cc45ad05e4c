//! The runs of a workspace, newest first.

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

use super::fragment::{Fragment, key_of};
use super::labels;
use super::navigation::{self, Section};
use super::sanitize::{humanize, one_line};
use super::session::{PageError, SignedInUser, percent_encode};
use super::watch_buttons::WatchButtons;
use crate::app::App;
use crate::params::Params;

/// Number of runs on a page.
const RUNS_MAX: u64 = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    status: Option<RunStatus>,
    agent: Option<AgentName>,
    cursor: Option<String>,
}

impl Filter {
    pub(super) fn read(params: Params) -> Result<Self, Problem> {
        let params = params.only(&["status", "agent", "cursor"])?;
        // The form of the filter submits unused fields as empty texts.
        let text = |name: &str| -> Result<Option<String>, Problem> {
            let text: Option<String> = params.read_as(name)?;
            Ok(text.filter(|text| !text.is_empty()))
        };
        Ok(Self {
            status: text("status")?.map_or(Ok(None), |_| params.read_as("status"))?,
            agent: text("agent")?.map_or(Ok(None), |_| params.read_as("agent"))?,
            cursor: params.read_as("cursor")?,
        })
    }

    fn next_page(&self, cursor: &str) -> String {
        let status = self.status.map_or("", RunStatus::as_str);
        let agent = self.agent.as_ref().map_or("", AgentName::as_str);
        let (agent, cursor) = (percent_encode(agent), percent_encode(cursor));
        format!("/runs?status={status}&agent={agent}&cursor={cursor}")
    }
}

pub(super) async fn page(
    State(app): State<App>,
    user: SignedInUser,
    params: Params,
) -> Result<Response, PageError> {
    let filter = Filter::read(params)?;
    let runs = load(&app, &user, &filter).await?;
    let agent = filter.agent.clone().filter(|_| !runs.items.is_empty());
    let watched = agent.map(Watched::Agent).into_iter().collect();
    let buttons = WatchButtons::load(&app, &user, watched).await;
    let main = html! {
        div.title { h1 { "Runs" } }
        (filter_form(&filter))
        (buttons.render(&user, None))
        (list(&runs, &filter, user.zone))
    };
    let page = navigation::page(&app, &user, Section::Runs, "Runs", &main);
    Ok(page.await.into_response())
}

pub(super) async fn fragments(
    app: &App,
    user: &SignedInUser,
    filter: &Filter,
) -> Result<Vec<Fragment>, Problem> {
    let runs = load(app, user, filter).await?;
    let html = list(&runs, filter, user.zone);
    Ok(vec![Fragment::new("runs", &key_data(&runs), html)])
}

async fn load(app: &App, user: &SignedInUser, filter: &Filter) -> Result<Page<RunView>, Problem> {
    user.caller.may(Right::Look)?;
    let query = ListRuns {
        limit: RUNS_MAX,
        cursor: filter.cursor.clone(),
        status: filter.status,
        agent: filter.agent.clone(),
        label: None,
        created_after: None,
        hold: None,
    };
    app.bus.query(&user.caller.workspace, &query).await
}

/// The shown data of runs, without clocks that move while nothing happens.
fn key_data(runs: &Page<RunView>) -> Vec<(String, RunStatus, &str, usize)> {
    let items = runs.items.iter();
    items
        .map(|run| {
            (
                run.id.to_string(),
                run.status,
                run.message.as_str(),
                run.paused_by.len(),
            )
        })
        .collect()
}

fn filter_form(filter: &Filter) -> Markup {
    html! {
        form.filter method="get" action="/runs" data-auto aria-label="Filter" {
            label { span { "Status" }
                select name="status" {
                    option value="" { "All" }
                    @for status in RunStatus::ALL {
                        option value=(status) selected[filter.status == Some(status)] { (humanize(status.as_str())) }
                    }
                }
            }
            label { span { "Agent" }
                input name="agent" value=[filter.agent.as_ref()] placeholder="any";
            }
            button.quiet { "Apply" }
        }
    }
}

fn list(runs: &Page<RunView>, filter: &Filter, zone: Tz) -> Markup {
    html! {
        section #runs data-key=(key_of(&key_data(runs))) {
            @if runs.items.is_empty() {
                div.empty {
                    h2 { "No runs" }
                    p { "Start a run with " code { "holdpoint run start AGENT" } "." }
                }
            } @else {
                ul.runs {
                    @for run in &runs.items {
                        li {
                            a.row href={ "/runs/" (run.id) } {
                                span.what {
                                    strong { (run.agent) }
                                    @if let Some(contact) = &run.contact { " · " (contact) }
                                    span.muted.block { (one_line(&run.message, 200)) }
                                }
                                span.state {
                                    @if !run.paused_by.is_empty() { (labels::chip(labels::Tone::Calm, "Paused")) " " }
                                    (labels::run_status_chip(run.status))
                                }
                            }
                            p.meta { span { "Started " (labels::instant(run.created_at, zone)) } }
                        }
                    }
                }
                @if let Some(cursor) = &runs.next_cursor {
                    p { a href=(filter.next_page(cursor)) { "Older runs" } }
                }
            }
        }
    }
}
