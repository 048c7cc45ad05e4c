//! The page of one run: its state, its holds and what happens next, its steps and its history.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{GetHistory, GetRun, HistoryPage};
use holdpoint_contracts::handoff::{ListRequests, RequestView};
use holdpoint_contracts::notification::Watched;
use holdpoint_contracts::run::{Clocks, PauseScope, PausedBy, RunView, WaitingOn};
use holdpoint_ids::RunId;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::attempt::Notice;
use super::card::{self, card, title};
use super::fragment::{Fragment, key_of};
use super::navigation::{self, Section};
use super::request::recipient_suggestions;
use super::sanitize::{clean, humanize, one_line};
use super::session::{PageError, SignedInUser, parse_id};
use super::watch_buttons::WatchButtons;
use super::{context, labels, timeline};
use crate::app::App;
use crate::auth::token_scope::grants;

mod clocks;
pub(super) mod controls;
pub(super) mod take_over;

/// Number of history items on the page, the newest ones.
const HISTORY_MAX: u64 = 300;
/// Number of requests on the page.
const REQUESTS_MAX: u64 = 50;

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

pub(super) async fn page(
    State(app): State<App>,
    Path(id): Path<String>,
    user: SignedInUser,
) -> Result<Response, PageError> {
    let page = render(&app, &user, parse_id("run", &id)?, None).await?;
    Ok(page.into_response())
}

/// The page, with a notice after a form was refused.
pub(super) async fn render(
    app: &App,
    user: &SignedInUser,
    run: RunId,
    notice: Option<&Notice>,
) -> Result<Markup, Problem> {
    let page = load(app, user, run).await?;
    let run = &page.run;
    let buttons = WatchButtons::load(app, user, watchable(run)).await;
    let main = html! {
        p.back { a href="/runs" { "← Runs" } }
        @if let Some(notice) = notice { (notice.render()) }
        (head(user, run))
        (buttons.render(user, Some(run.id)))
        div.cards #cards { @for request in page.open_requests() { (card(user, request, None)) } }
        (decisions(&page.requests))
        (input(run))
        (timeline::steps(run, user.zone))
        (timeline::history(&page.history, user.zone))
        (recipient_suggestions(app, user).await)
    };
    let title = format!("{} – {}", run.agent, run.id);
    Ok(navigation::page(app, user, Section::Runs, &title, &main).await)
}

/// The run until it has ended, and its agent.
fn watchable(run: &RunView) -> Vec<Watched> {
    let own = (!run.status.is_final()).then_some(Watched::Run(run.id));
    own.into_iter()
        .chain([Watched::Agent(run.agent.clone())])
        .collect()
}

pub(super) async fn fragments(
    app: &App,
    user: &SignedInUser,
    run: RunId,
) -> Result<Vec<Fragment>, Problem> {
    let page = load(app, user, run).await?;
    let (run, zone) = (&page.run, user.zone);
    let buttons = WatchButtons::load(app, user, watchable(run)).await;
    let history = timeline::history(&page.history, zone);
    let mut all = vec![
        buttons.fragment(user, Some(run.id)),
        Fragment::new("head", &without_clocks(run), head(user, run)),
        clocks::fragment(run, user.now),
        Fragment::new("earlier", &page.requests, decisions(&page.requests)),
        Fragment::new("steps", &run.steps, timeline::steps(run, zone)),
        Fragment::new("history", &page.history.last_seq, history),
    ];
    let open = page.open_requests();
    all.extend(open.map(|request| card::fragment(user, request)));
    Ok(all)
}

async fn load(app: &App, user: &SignedInUser, run: RunId) -> Result<RunPage, Problem> {
    let caller = &user.caller;
    caller.may(Right::Look)?;
    let workspace = &caller.workspace;
    let raw_errors = grants(&caller.claims.roles, Right::Operate);
    let query = GetRun { run, raw_errors };
    let mut view = app.bus.query(workspace, &query).await?;
    let newest = GetHistory {
        run,
        after: 0,
        limit: 1,
    };
    let newest = app.bus.query(workspace, &newest).await?;
    let history = GetHistory {
        run,
        after: newest.last_seq.saturating_sub(HISTORY_MAX),
        limit: HISTORY_MAX,
    };
    let requests = ListRequests {
        limit: REQUESTS_MAX,
        run: Some(run),
        ..ListRequests::default()
    };
    let (history, requests) = tokio::join!(
        app.bus.query(workspace, &history),
        app.requests(caller, &requests)
    );
    let mut history = history?;
    if let Some(hidden) = app.redaction_of(workspace, Some(&caller.claims), run).await {
        let items = history.items.into_iter();
        history.items = items.map(|item| hidden.redact_item(item)).collect();
        view = hidden.redact_run(view);
    }
    Ok(RunPage {
        run: view,
        history,
        requests: requests?.items,
    })
}

/// The data of the head, without clocks that move while nothing happens.
fn without_clocks(run: &RunView) -> RunView {
    RunView {
        clocks: Clocks::default(),
        steps: Vec::new(),
        ..run.clone()
    }
}

fn head(user: &SignedInUser, run: &RunView) -> Markup {
    html! {
        section.panel.run #head data-key=(key_of(&without_clocks(run))) data-say=(one_line(&run.message, 200)) {
            div.chips {
                (labels::run_status_chip(run.status))
                @for pause in &run.paused_by { (labels::chip(labels::Tone::Calm, pause_label(pause))) }
            }
            h1 { (run.agent) @if let Some(contact) = &run.contact { " · " (contact) } }
            p.lead { (clean(&run.message)) }
            p.meta {
                span { code { (run.id) } }
                span { "Version " (run.version) }
                span { "Started " (labels::instant(run.created_at, user.zone)) }
                @if let Some(at) = run.ended_at { span { "Ended " (labels::instant(at, user.zone)) } }
                @for (name, value) in &run.labels { span { (one_line(name, 60)) ": " (one_line(value, 100)) } }
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
            (take_over::render(user, run))
            (clocks::render(run, user.now))
        }
    }
}

const fn pause_label(pause: &PausedBy) -> &'static str {
    match pause.scope {
        PauseScope::Run => "Paused",
        PauseScope::Agent => "Agent paused",
        PauseScope::Workspace => "Workspace paused",
    }
}

/// A hold, its end, and what happens afterwards.
fn hold_line(user: &SignedInUser, hold: &WaitingOn) -> Markup {
    html! {
        strong { (labels::hold_kind(hold.kind)) }
        @if !hold.step.is_empty() { " at " (one_line(&hold.step, 100)) }
        ", since " (labels::instant(hold.since, user.zone))
        @if let Some(until) = hold.until { ", ends " strong { (labels::time_until(until, user.now)) } }
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

/// The ended requests of this run.
fn decisions(requests: &[RequestView]) -> Markup {
    let ended = requests.iter().filter(|request| !request.status.is_open());
    let ended: Vec<_> = ended.collect();
    html! {
        section #earlier data-key=(key_of(&requests)) {
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
}
