//! One run: where it stands, what it waits for and what happens then, its steps and its history.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{GetHistory, GetRun, HistoryPage};
use holdpoint_contracts::handoff::{ListRequests, RequestView};
use holdpoint_contracts::notification::Watched;
use holdpoint_contracts::run::{Clocks, PausedBy, RunView, WaitingOn};
use holdpoint_ids::RunId;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::card::{Notice, card, title, told};
use super::layout::{self, Place};
use super::live::{Fragment, key_of};
use super::request::people;
use super::sanitize::{clean, line, spoken};
use super::session::{PageError, SignedInUser};
use super::watch_buttons;
use super::{context, labels, timeline};
use crate::app::App;
use crate::rights::grants;

mod clocks;
pub(super) mod controls;
mod take_over;

/// The newest items of its history that are shown.
const HISTORY_MAX: u64 = 300;
/// Its requests that are shown.
const REQUESTS_MAX: u64 = 50;

/// All that is shown of a run.
struct Whole {
    run: RunView,
    history: HistoryPage,
    requests: Vec<RequestView>,
}

pub(super) async fn page(
    State(app): State<App>,
    Path(text): Path<String>,
    person: SignedInUser,
) -> Result<Response, PageError> {
    let page = whole(&app, &person, id(&text)?, None).await?;
    Ok(page.into_response())
}

/// The page, perhaps with what became of what somebody has just tried.
async fn whole(
    app: &App,
    person: &SignedInUser,
    run: RunId,
    notice: Option<&Notice>,
) -> Result<Markup, Problem> {
    let Whole {
        run,
        history,
        requests,
    } = &load(app, person, run).await?;
    let followed = watch_buttons::find(app, person, followable(run)).await;
    let main = html! {
        p.back { a href="/runs" { "← Runs" } }
        @if let Some(notice) = notice { (told(notice)) }
        (head(person, run))
        (followed.shown(person, Some(run.id)))
        div.cards #cards {
            @for request in requests.iter().filter(|one| one.status.is_open()) { (card(person, request, None)) }
        }
        (earlier(requests))
        (input(run))
        (timeline::steps(run, person.zone))
        (timeline::history(history, person.zone))
        (people(app, person).await)
    };
    let title = format!("{} – {}", run.agent, run.id);
    Ok(layout::page(app, person, Place::Runs, &title, &main).await)
}

/// What there is to follow on the page of a run; of one that has ended nothing more comes.
fn followable(run: &RunView) -> Vec<Watched> {
    let own = (!run.status.is_final()).then_some(Watched::Run(run.id));
    own.into_iter()
        .chain([Watched::Agent(run.agent.clone())])
        .collect()
}

/// What is no id names nothing.
pub(super) fn id(text: &str) -> Result<RunId, Problem> {
    let wrong = |_no_id| {
        let text = line(text, 80);
        Problem::not_found(format!("there is no run `{text}`"))
    };
    text.parse().map_err(wrong)
}

pub(super) async fn fragments(
    app: &App,
    person: &SignedInUser,
    run: RunId,
) -> Result<Vec<Fragment>, Problem> {
    let Whole {
        run,
        history,
        requests,
    } = load(app, person, run).await?;
    let followed = watch_buttons::find(app, person, followable(&run)).await;
    let mut all = vec![
        followed.fragment(person, Some(run.id)),
        Fragment::of("head", &still(&run), head(person, &run)),
        Fragment {
            id: "clocks".to_owned(),
            key: clocks::key(&run),
            html: clocks::clocks(&run, person.now),
            item: None,
        },
        Fragment::of("earlier", &requests, earlier(&requests)),
        Fragment::of("steps", &run.steps, timeline::steps(&run, person.zone)),
        Fragment::of(
            "history",
            &history.last_seq,
            timeline::history(&history, person.zone),
        ),
    ];
    let open = requests.iter().filter(|one| one.status.is_open());
    all.extend(open.map(|request| super::card::fragment(person, request)));
    Ok(all)
}

async fn load(app: &App, person: &SignedInUser, run: RunId) -> Result<Whole, Problem> {
    person.caller.may(Right::Look)?;
    let workspace = &person.caller.workspace;
    let raw_errors = grants(&person.caller.claims.roles, Right::Operate);
    let view = app
        .bus
        .query(workspace, &GetRun { run, raw_errors })
        .await?;
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
        app.requests(&person.caller, &requests)
    );
    let mut history = history?;
    let claims = &person.caller.claims;
    let view = match app.hidden(workspace, Some(claims), run).await {
        Some(hidden) => {
            let items = history.items.into_iter();
            history.items = items.map(|item| hidden.item(item)).collect();
            hidden.run(view)
        }
        None => view,
    };
    Ok(Whole {
        run: view,
        history,
        requests: requests?.items,
    })
}

/// The run without what moves on while nothing happens.
fn still(run: &RunView) -> RunView {
    RunView {
        clocks: Clocks::default(),
        steps: Vec::new(),
        ..run.clone()
    }
}

fn head(person: &SignedInUser, run: &RunView) -> Markup {
    html! {
        section.panel.run #head data-key=(key_of(&still(run))) data-say=(line(&run.message, 200)) {
            div.chips {
                (labels::run_status(run.status))
                @for pause in &run.paused_by { (labels::chip(labels::Tone::Calm, paused(pause))) }
            }
            h1 { (run.agent) @if let Some(contact) = &run.contact { " · " (contact) } }
            p.lead { (clean(&run.message)) }
            p.meta {
                span { code { (run.id) } }
                span { "Version " (run.version) }
                span { "Started " (labels::instant(run.created_at, person.zone)) }
                @if let Some(at) = run.ended_at { span { "Ended " (labels::instant(at, person.zone)) } }
                @for (name, value) in &run.labels { span { (line(name, 60)) ": " (line(value, 100)) } }
            }
            @for pause in &run.paused_by {
                p.why {
                    (paused(pause)) " by " strong { (labels::who(&pause.by)) } " on " (labels::instant(pause.at, person.zone)) "; its timers are stopped."
                    @if !pause.in_flight.is_empty() { " Still at work: " (line(&pause.in_flight.join(", "), 200)) "." }
                }
            }
            @if !run.waiting_on.is_empty() {
                ul.holding { @for hold in &run.waiting_on { li { (waits(person, hold)) } } }
            }
            @if let Some(failure) = &run.failure {
                p.why {
                    strong { (spoken(&failure.code)) }
                    // The message above usually is the failure's: an error text is shown once.
                    @if failure.message != run.message { ": " (clean(&failure.message)) }
                }
            }
            @if let Some(result) = run.result.as_ref().filter(|it| !it.is_null()) { (context::sections(result)) }
            (controls::shown(person, run))
            (take_over::shown(person, run))
            (clocks::clocks(run, person.now))
        }
    }
}

const fn paused(pause: &PausedBy) -> &'static str {
    use holdpoint_contracts::run::PauseScope;
    match pause.scope {
        PauseScope::Run => "Paused",
        PauseScope::Agent => "Agent paused",
        PauseScope::Workspace => "Workspace paused",
    }
}

/// What it waits for, until when, and what happens then.
fn waits(person: &SignedInUser, hold: &WaitingOn) -> Markup {
    html! {
        strong { (labels::kind(hold.kind)) }
        @if !hold.step.is_empty() { " at " (line(&hold.step, 100)) }
        ", since " (labels::instant(hold.since, person.zone))
        @if let Some(until) = hold.until { ", ends " strong { (labels::until(until, person.now)) } }
        @if let Some(ms) = hold.remaining_ms { ", stopped with " strong { (labels::millis(ms)) } " left" }
        ". "
        @if !hold.then.is_empty() { span.muted { "Then: " (line(&hold.then, 300)) } }
    }
}

/// What the run was started with, as JSON.
fn input(run: &RunView) -> Markup {
    let shown = run.input.as_ref().filter(|input| !is_empty(input));
    html! {
        @if let Some(input) = shown {
            section #input {
                h2 { "Input" }
                pre.json { code { (clean(&format!("{input:#}"))) } }
            }
        }
    }
}

/// A run that was started without an input has an empty object.
fn is_empty(input: &Value) -> bool {
    input.is_null() || input.as_object().is_some_and(Map::is_empty)
}

/// Requests of this run that have ended.
fn earlier(requests: &[RequestView]) -> Markup {
    let ended: Vec<_> = requests
        .iter()
        .filter(|one| !one.status.is_open())
        .collect();
    html! {
        section #earlier data-key=(key_of(&requests)) {
            @if !ended.is_empty() {
                h2 { "Decisions" }
                ul.ended {
                    @for request in ended {
                        li {
                            (labels::status(request)) " "
                            a href={ "/requests/" (request.id) } { (title(request)) }
                            @if let Some(by) = &request.decided_by { span.muted { " · " (labels::who(by)) } }
                        }
                    }
                }
            }
        }
    }
}
