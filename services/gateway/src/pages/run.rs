//! The page of one run: its state, its holds and what happens next, its steps and its history.

use axum::extract::Path;
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{GetHistory, GetRun, HistoryPage};
use holdpoint_contracts::handoff::{ListRequests, RequestView};
use holdpoint_contracts::notification::Watched;
use holdpoint_contracts::run::{Clocks, PauseScope, PausedBy, RunView, WaitingOn};
use holdpoint_ids::RunId;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::attempt::Banner;
use super::card::{self, card, title};
use super::fragment::Fragment;
use super::navigation::{self, Section};
use super::request::recipient_suggestions;
use super::sanitize::{clean, humanize, one_line};
use super::session::{PageError, SignedInUser, Viewer, parse_id};
use super::watch_buttons::watch_buttons;
use super::{context, labels, timeline};
use crate::auth::token_scope::grants;
use crate::use_cases::plan_warnings::{asks_about_plan, with_plan_warnings};

pub(super) mod calls;
mod clocks;
pub(super) mod controls;

/// Number of history items on the page, the newest ones.
const HISTORY_MAX: u64 = 300;
/// As many calls of a fan-out as wait at the same time.
const REQUESTS_MAX: u64 = 100;

struct RunPage {
    run: RunView,
    history: HistoryPage,
    requests: Vec<RequestView>,
}

impl RunPage {
    fn open_requests(&self) -> impl Iterator<Item = &RequestView> {
        let requests = self.requests.iter();
        requests.filter(|request| request.status.is_open())
    }
}

pub(super) async fn page(Path(id): Path<String>, viewer: Viewer) -> Result<Markup, PageError> {
    Ok(render(&viewer, parse_id("run", &id)?, None).await?)
}

/// The page, with a notice after a form was refused.
pub(super) async fn render(
    viewer: &Viewer,
    run: RunId,
    notice: Option<&Banner>,
) -> Result<Markup, Problem> {
    let page = load(viewer, run).await?;
    let run = &page.run;
    let main = html! {
        p.back { a href="/runs" { "← Runs" } }
        @if let Some(notice) = notice { (notice.render()) }
        (head(viewer, run))
        (buttons(viewer, run).await)
        (calls::render(viewer, run, &page.requests))
        div.cards #cards { @for request in page.open_requests() { (card(viewer, request, None)) } }
        (decisions(&page.requests))
        (input(run))
        (timeline::steps(run, viewer.zone))
        (timeline::history(&page.history, viewer.zone))
        (recipient_suggestions(viewer).await)
    };
    let title = format!("{} – {}", run.agent, run.id);
    Ok(navigation::page(viewer, Section::Runs, &title, &main).await)
}

/// Buttons to follow the run until it has ended, and its agent.
async fn buttons(viewer: &Viewer, run: &RunView) -> Fragment {
    let own = (!run.status.is_final()).then_some(Watched::Run(run.id));
    let subjects = own.into_iter().chain([Watched::Agent(run.agent.clone())]);
    watch_buttons(viewer, subjects.collect(), Some(run.id)).await
}

pub(super) async fn fragments(viewer: &Viewer, run: RunId) -> Result<Vec<Fragment>, Problem> {
    let page = load(viewer, run).await?;
    let (run, zone) = (&page.run, viewer.zone);
    let mut all = vec![
        buttons(viewer, run).await,
        head(viewer, run),
        clocks::render(run, viewer.now),
        decisions(&page.requests),
        calls::render(viewer, run, &page.requests),
        timeline::steps(run, zone),
        timeline::history(&page.history, zone),
    ];
    let open = page.open_requests();
    all.extend(open.map(|request| card::fragment(viewer, request)));
    Ok(all)
}

async fn load(viewer: &Viewer, run: RunId) -> Result<RunPage, Problem> {
    let Viewer { app, user } = viewer;
    let caller = &user.caller;
    caller.may(Right::Look)?;
    let raw_errors = grants(&caller.claims.roles, Right::Operate);
    let mut view = viewer.query(&GetRun { run, raw_errors }).await?;
    let history = |after, limit| GetHistory { run, after, limit };
    let newest = viewer.query(&history(0, 1)).await?;
    let after = newest.last_seq.saturating_sub(HISTORY_MAX);
    let history = history(after, HISTORY_MAX);
    let requests = ListRequests {
        limit: REQUESTS_MAX,
        run: Some(run),
        ..ListRequests::default()
    };
    let (history, requests) = tokio::join!(viewer.query(&history), app.requests(caller, &requests));
    let mut history = history?;
    let claims = Some(&*caller.claims);
    if let Some(hidden) = app
        .redaction_of(&caller.workspace, claims, run, &view.steps)
        .await
    {
        let items = history.items.into_iter();
        history.items = items.map(|item| hidden.redact_item(item)).collect();
        view = hidden.redact_run(view);
    }
    let mut requests = requests?.items;
    // A run waits for one plan at most.
    if let Some(asked) = requests.iter_mut().find(|it| asks_about_plan(it)) {
        *asked = with_plan_warnings(app, &caller.workspace, asked.clone()).await;
    }
    Ok(RunPage {
        run: view,
        history,
        requests,
    })
}

fn head(user: &SignedInUser, run: &RunView) -> Fragment {
    // Without clocks, which move while nothing happens.
    let data = RunView {
        clocks: Clocks::default(),
        spent: None,
        steps: Vec::new(),
        ..run.clone()
    };
    Fragment::new("head", &data, |key| {
        html! {
            section.panel.run #head data-key=(key) data-say=(one_line(&run.message, 200)) {
                div.chips {
                    (labels::run_status_chip(run.status))
                    @for pause in &run.paused_by { (labels::chip(labels::Tone::Calm, pause_label(pause))) }
                }
                h1 { (run.agent) @if let Some(contact) = &run.contact { " · " (contact) } }
                p.lead { (clean(&run.message)) }
                p.meta {
                    span { code { (run.id) } }
                    span { "Version " (run.version) }
                    @if let Some(parent) = &run.parent {
                        span { "Started by " a href={ "/runs/" (parent.run) } { (one_line(&parent.step, 100)) " of " (parent.run) } }
                    }
                    span { "Started " (labels::instant(run.created_at, user.zone)) }
                    @if let Some(at) = run.ended_at { span { "Ended " (labels::instant(at, user.zone)) } }
                    @for (name, value) in &run.labels { span { (one_line(name, 60)) ": " (one_line(value, 100)) } }
                }
                @if let (Some(at), Some(reason)) = (run.paused_at, &run.pause_reason) {
                    p.why { "Suspended on " (labels::instant(at, user.zone)) ": " (clean(reason)) }
                }
                @for pause in &run.paused_by {
                    p.why {
                        (pause_label(pause)) " by " strong { (labels::actor(&pause.by)) } " on " (labels::instant(pause.at, user.zone)) ". Timers are stopped."
                        @if !pause.in_flight.is_empty() { " Steps still in progress: " (one_line(&pause.in_flight.join(", "), 200)) "." }
                    }
                }
                @if !run.waiting_on.is_empty() {
                    ul.holding { @for hold in &run.waiting_on { li { (hold_line(user, hold)) } } }
                }
                @if let Some(failure) = &run.failure {
                    p.why {
                        strong { (humanize(&failure.code)) }
                        // The message above is usually the failure's message; it is shown once.
                        @if failure.message != run.message { ": " (clean(&failure.message)) }
                    }
                }
                @if let Some(result) = run.result.as_ref().filter(|it| !it.is_null()) { (context::sections(result)) }
                (controls::render(user, run))
                (controls::render_take_over(user, run))
                (clocks::render(run, user.now))
            }
        }
    })
}

const fn pause_label(pause: &PausedBy) -> &'static str {
    match pause.scope {
        PauseScope::Run => "Paused",
        PauseScope::Agent => "Agent paused",
        PauseScope::Workspace => "Workspace paused",
        PauseScope::Parent => "Parent run paused",
    }
}

/// A hold, its end, and what happens afterwards.
fn hold_line(user: &SignedInUser, hold: &WaitingOn) -> Markup {
    html! {
        strong { (labels::hold_kind(hold.kind)) }
        @if !hold.step.is_empty() { " at " (one_line(&hold.step, 100)) }
        ", since " (labels::instant(hold.since, user.zone))
        @if let Some(until) = hold.until { ", ends " strong { (labels::time_until(until, user.now, user.zone)) } }
        @if let Some(ms) = hold.remaining_ms { ", paused with " strong { (labels::duration(ms)) } " left" }
        ". "
        @if !hold.then.is_empty() { span.muted { "Then: " (one_line(&hold.then, 300)) } }
    }
}

/// The run's input as JSON. A run that was started without an input has an empty object.
fn input(run: &RunView) -> Markup {
    let is_empty = |input: &Value| input.is_null() || input.as_object().is_some_and(Map::is_empty);
    html! {
        @if let Some(input) = run.input.as_ref().filter(|input| !is_empty(input)) {
            section #input {
                h2 { "Input" }
                pre.json { code { (clean(&format!("{input:#}"))) } }
            }
        }
    }
}

fn decisions(requests: &[RequestView]) -> Fragment {
    let ended = requests.iter().filter(|request| !request.status.is_open());
    let ended: Vec<_> = ended.collect();
    Fragment::new("earlier", &requests, |key| {
        html! {
            section #earlier data-key=(key) {
                @if !ended.is_empty() {
                    h2 { "Decisions" }
                    ul.ended {
                        @for request in ended {
                            li {
                                (labels::request_status_chip(request)) " "
                                a href={ "/requests/" (request.id) } { (title(request)) }
                                @if let Some(by) = &request.decided_by { span.muted { " · " (labels::actor(by)) } }
                            }
                        }
                    }
                }
            }
        }
    })
}
