//! The runs of a workspace, newest first.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::ListRuns;
use holdpoint_contracts::notification::Watched;
use holdpoint_contracts::run::{HoldKind, Page, RunStatus, RunView};
use holdpoint_ids::AgentName;
use maud::{Markup, html};

use super::filter::{self, read_filled, select};
use super::fragment::Fragment;
use super::labels;
use super::navigation::{self, Section};
use super::sanitize::{humanize, one_line};
use super::session::{PageError, Viewer, percent_encode};
use super::watch_buttons::watch_buttons;
use crate::params::Params;

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
        Ok(Self {
            status: read_filled(&params, "status", Params::read_as)?,
            agent: read_filled(&params, "agent", Params::read_as)?,
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

pub(super) async fn page(viewer: Viewer, params: Params) -> Result<Markup, PageError> {
    let filter = Filter::read(params)?;
    let runs = load(&viewer, &filter).await?;
    let agent = filter.agent.clone().filter(|_| !runs.items.is_empty());
    let watched = agent.map(Watched::Agent).into_iter().collect();
    let main = html! {
        div.title { h1 { "Runs" } }
        (filter_form(&filter))
        (watch_buttons(&viewer, watched, None).await)
        (list(&runs, &filter, &viewer))
    };
    Ok(navigation::page(&viewer, Section::Runs, "Runs", &main).await)
}

pub(super) async fn fragments(viewer: &Viewer, filter: &Filter) -> Result<Vec<Fragment>, Problem> {
    let runs = load(viewer, filter).await?;
    Ok(vec![list(&runs, filter, viewer)])
}

async fn load(viewer: &Viewer, filter: &Filter) -> Result<Page<RunView>, Problem> {
    viewer.caller.may(Right::Look)?;
    let query = ListRuns {
        limit: RUNS_MAX,
        cursor: filter.cursor.clone(),
        status: filter.status,
        agent: filter.agent.clone(),
        label: None,
        created_after: None,
        hold: None,
    };
    viewer.query(&query).await
}

fn filter_form(filter: &Filter) -> Markup {
    let statuses = RunStatus::ALL.iter().map(|status| status.as_str());
    let statuses = statuses.map(|status| (status, humanize(status)));
    let statuses = [("", "All".to_owned())].into_iter().chain(statuses);
    let status = filter.status.map_or("", RunStatus::as_str);
    let fields = html! {
        (select("Status", "status", status, statuses))
        label { span { "Agent" }
            input name="agent" value=[filter.agent.as_ref()] placeholder="any";
        }
    };
    filter::form("/runs", &fields)
}

/// The wait that ends next, and how many there are beside it.
pub(super) fn next_end(run: &RunView, now: DateTime<Utc>, zone: Tz) -> Markup {
    let Some(end) = run.next_end(now) else {
        return html! {};
    };
    let label = match end.kind {
        HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => "Waits until",
        HoldKind::Approval | HoldKind::Input | HoldKind::Handoff => "Deadline",
    };
    html! {
        span {
            (label) " " (labels::instant(end.at, zone)) ", " (labels::countdown(end.at, now))
            @if end.more > 0 { ", and " (end.more) " more" }
        }
    }
}

fn list(runs: &Page<RunView>, filter: &Filter, viewer: &Viewer) -> Fragment {
    let (zone, now) = (viewer.zone, viewer.now);
    // Without clocks, which move while nothing happens.
    let data = |run: &RunView| {
        let end = run.next_end(now).map(|end| (end.at, end.kind, end.more));
        let message = run.message.clone();
        (run.id, run.status, message, run.paused_by.len(), end)
    };
    let data: Vec<_> = runs.items.iter().map(data).collect();
    Fragment::new("runs", &data, |key| {
        html! {
            section #runs data-key=(key) {
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
                                p.meta {
                                    span { "Started " (labels::instant(run.created_at, zone)) }
                                    (next_end(run, now, zone))
                                }
                            }
                        }
                    }
                    @if let Some(cursor) = &runs.next_cursor {
                        p { a href=(filter.next_page(cursor)) { "Older runs" } }
                    }
                }
            }
        }
    })
}
