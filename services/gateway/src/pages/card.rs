//! One request as a card: everything that is needed to decide it, and what came of it.

use chrono_tz::Tz;
use holdpoint_auth::{Choice, Right};
use holdpoint_contracts::handoff::{LateAnswer, RequestHistoryEntry, RequestView};
use holdpoint_contracts::hold::HoldOutcome;
use maud::{Markup, html};
use serde_json::Value;

use super::live::{Fragment, Item, key_of};
use super::request_forms;
use super::sanitize::{clean, line};
use super::schema::FieldFault;
use super::session::{Fields, SignedInUser};
use super::{context, labels};

/// Longest headline.
const TITLE_MAX: usize = 200;

/// What somebody has just tried with a card, and how it went.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// What is told at the top of the card.
    pub(super) notice: Option<Notice>,
    /// What they had filled in, kept for another try.
    pub(super) fields: Fields,
    /// What was wrong with single fields.
    pub(super) faults: Vec<FieldFault>,
    /// What they have chosen in a mail, and have to confirm.
    pub(super) chosen: Option<Choice>,
}

/// One sentence about what was tried.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) is_good: bool,
    pub(super) text: String,
    /// More, one line each.
    pub(super) lines: Vec<String>,
}

/// A card as it is replaced by its id.
pub(super) fn fragment(person: &SignedInUser, request: &RequestView) -> Fragment {
    Fragment {
        id: id_of(request),
        key: key_of(request),
        html: card(person, request, None),
        item: Some(Item::Request(request.id)),
    }
}

pub(super) fn id_of(request: &RequestView) -> String {
    format!("card-{}", request.id)
}

/// The headline.
pub(super) fn title(request: &RequestView) -> String {
    let task = request.task.as_ref().map(|task| task.title.as_str());
    let title = request.title.as_deref().or(task);
    line(title.unwrap_or(&request.question), TITLE_MAX)
}

/// Whether a request is put to somebody: by name, by a role, because it was delegated to them, or
/// because nobody else is named and they are an owner. Whoever accepts it takes it from the others, but
/// where several must agree.
pub(super) fn is_for(person: &SignedInUser, request: &RequestView) -> bool {
    let name = person.name();
    let roles = &person.caller.claims.roles;
    let is_named = |to: &String| {
        to.strip_prefix("@user.") == Some(name)
            || to
                .strip_prefix("@role.")
                .is_some_and(|role| roles.iter().any(|one| one.as_str() == role))
    };
    if request.also.iter().any(is_named) {
        return true;
    }
    if let Some(assignee) = request.assignee.as_deref() {
        let has_it = assignee == name || assignee.strip_prefix("@user.") == Some(name);
        // Where several must agree, it stays with all of them.
        if has_it || request.votes.is_none() {
            return has_it;
        }
    }
    if request.to.is_empty() {
        return person.may(Right::Own);
    }
    request.to.iter().any(is_named)
}

/// Whether somebody has approved what waits for the votes of others.
pub(super) fn has_voted(person: &SignedInUser, request: &RequestView) -> bool {
    let is_theirs = |one: &RequestHistoryEntry| one.action == "approved" && one.by == person.name();
    request.votes.is_some() && request.history.iter().any(is_theirs)
}

/// A request with all that can be done to it.
pub(super) fn card(person: &SignedInUser, request: &RequestView, tried: Option<&Tried>) -> Markup {
    let id = id_of(request);
    let title = title(request);
    let has_more = line(&request.question, TITLE_MAX) != title;
    let is_open = request.status.is_open();
    html! {
        article.card.closed[!is_open] id=(id) data-key=(key_of(request)) tabindex="-1"
            aria-labelledby={ (id) "-title" } data-say=(say(request)) {
            header {
                div.chips {
                    span.kind { (labels::kind(request.kind)) }
                    @if request.warm_lead { (labels::chip(labels::Tone::Good, "Warm lead")) }
                    @if let Some(priority) = labels::priority(request.priority) { (priority) }
                    (labels::status(request))
                    @if let Some(votes) = request.votes {
                        span.chip.calm { (votes.have) " of " (votes.need) " approvals" }
                    }
                }
                h2 id={ (id) "-title" } { a href={ "/requests/" (request.id) } { (title) } }
                (origin(request, person.zone))
            }
            @if let Some(notice) = tried.and_then(|tried| tried.notice.as_ref()) { (told(notice)) }
            @if let Some(choice) = tried.and_then(|tried| tried.chosen).filter(|_| is_open) {
                (request_forms::chosen(person, request, choice))
            }
            @if has_more { p.question { (clean(&request.question)) } }
            (reason(request))
            (task(request))
            (context::sections(&request.context))
            @if request.redacted { p.muted { (labels::REDACTED) } }
            (deadline(person, request))
            @if is_open {
                (default(request))
                (request_forms::controls(person, request, tried.unwrap_or(&Tried::default())))
            } @else {
                (result(request, person.zone))
                (request_forms::again(person, request, tried.unwrap_or(&Tried::default())))
            }
            (late(&request.late, person.zone))
            (history(&request.history, person.zone))
        }
    }
}

/// What a card that has changed is announced as.
fn say(request: &RequestView) -> String {
    let title = line(&title(request), 80);
    match (request.outcome, request.decided_by.as_deref()) {
        (Some(outcome), Some(by)) => {
            format!(
                "{} by {}: {title}",
                labels::outcome(outcome),
                labels::who(by)
            )
        }
        (Some(_) | None, _) => format!("{}: {title}", labels::kind(request.kind)),
    }
}

pub(super) fn told(notice: &Notice) -> Markup {
    html! {
        div class=(if notice.is_good { "notice good" } else { "notice bad" }) role="alert" {
            p { (clean(&notice.text)) }
            @if !notice.lines.is_empty() {
                ul { @for one in &notice.lines { li { (line(one, 400)) } } }
            }
        }
    }
}

/// Who asks, of whom, since when.
fn origin(request: &RequestView, zone: Tz) -> Markup {
    html! {
        p.meta {
            @if let Some(agent) = &request.agent { span { "Agent " strong { (agent) } } }
            @if let Some(run) = &request.run { a href={ "/runs/" (run) } { "Run" } }
            @if let Some(step) = &request.step { span { (line(step, 100)) } }
            @if let Some(by) = requested_by(request) { span { "Requested by " strong { (by) } } }
            @if let Some(assignee) = &request.assignee {
                span { "With " strong { (line(assignee, 120)) } }
            } @else if request.to.is_empty() {
                span { "For the owners" }
            } @else {
                span { "For " (line(&request.to.join(", "), 300)) }
            }
            span { "Since " (labels::instant(request.created_at, zone)) }
            @if let Some(before) = &request.asks_again {
                a href={ "/requests/" (before) } { "Asks an earlier one again" }
            }
        }
    }
}

/// Who asks, where no agent does: the requester, and the opener where that is another one.
fn requested_by(request: &RequestView) -> Option<String> {
    if request.agent.is_some() {
        return None;
    }
    let names = request.asked_by.iter().rev().map(|by| labels::who(by));
    Some(names.collect::<Vec<_>>().join(", opened by ")).filter(|names| !names.is_empty())
}

fn reason(request: &RequestView) -> Markup {
    html! {
        @match request.reason.as_deref() {
            Some(reason) => { p.why { (clean(labels::reason(reason).unwrap_or(reason))) } }
            None => {}
        }
    }
}

fn task(request: &RequestView) -> Markup {
    html! {
        @if let Some(task) = &request.task {
            @let is_told = request.context.get("recommended_action") == Some(&Value::from(task.description.as_str()))
                || request.question == task.description;
            @if !task.description.is_empty() && !is_told { p.question { (clean(&task.description)) } }
            @if !task.tags.is_empty() {
                p.tags { @for tag in &task.tags { span.tag { (line(tag, 60)) } } }
            }
        }
    }
}

/// Until when, and what happens then.
fn deadline(person: &SignedInUser, request: &RequestView) -> Markup {
    let verb = match request.status.is_open() {
        true => "Decide ",
        false => return html! {},
    };
    html! {
        p.deadline {
            @if let Some(deadline) = request.deadline.filter(|_| request.escalated_at.is_none()) {
                (verb) strong { (labels::until(deadline, person.now)) } ". "
                span { (labels::then(request)) }
            } @else if let Some(escalated) = request.escalated_at {
                "Its time was up on " (labels::instant(escalated, person.zone)) "; others were told. An answer still counts."
            } @else if let Some(ms) = request.remaining_ms {
                "Paused with " strong { (labels::millis(ms)) } " left. An answer is kept and takes effect when the run is resumed."
            } @else {
                "No deadline."
            }
            @if let Some(until) = request.snoozed_until.filter(|until| person.now < *until) {
                " Put away until " (labels::instant(until, person.zone)) "."
            }
        }
    }
}

/// What counts if nobody answers.
fn default(request: &RequestView) -> Markup {
    html! {
        @if let Some(default) = &request.default {
            div.default { span.muted { "The default answer: " } (answer(default)) }
        }
    }
}

/// How it ended, and what that did.
fn result(request: &RequestView, zone: Tz) -> Markup {
    html! {
        div.result {
            @if let Some(outcome) = request.outcome {
                p {
                    strong { (labels::outcome(outcome)) }
                    @if let Some(by) = &request.decided_by { " by " strong { (labels::who(by)) } }
                    @if let Some(at) = request.decided_at { " on " (labels::instant(at, zone)) }
                    "."
                }
                @if let Some(response) = &request.response { blockquote { (answer(response)) } }
                @if let Some(effect) = shown_effect(request, outcome) { p.effect { (effect) } }
            }
        }
    }
}

/// Holds of no run say nothing of their effect; an answer to them has gone out.
fn shown_effect(request: &RequestView, outcome: HoldOutcome) -> Option<&'static str> {
    if outcome == HoldOutcome::Cancelled {
        return None;
    }
    if outcome == HoldOutcome::Timeout && request.run.is_none() && request.response.is_none() {
        return Some("Whoever asked is told that nobody has answered.");
    }
    let effect = request.effect?;
    Some(labels::effect(effect, request.run.is_some()))
}

/// What somebody said, without the words around it.
fn answer(response: &Value) -> Markup {
    context::value(response, 0)
}

fn late(late: &[LateAnswer], zone: Tz) -> Markup {
    html! {
        @if !late.is_empty() {
            section.late {
                h3 { "Came too late" }
                ul {
                    @for one in late {
                        li {
                            strong { (labels::who(&one.by)) } " on " (labels::instant(one.at, zone)) ": "
                            (late_words(&one.data))
                        }
                    }
                }
            }
        }
    }
}

/// `{outcome, data}` as a person would tell it.
fn late_words(data: &Value) -> Markup {
    let outcome = data.get("outcome").and_then(Value::as_str);
    match (outcome, data.get("data")) {
        (Some(outcome), Some(said)) => html! {
            (super::sanitize::spoken(outcome))
            @if !said.is_null() { ", " (answer(said)) }
        },
        (Some(_) | None, _) => answer(data),
    }
}

fn history(history: &[RequestHistoryEntry], zone: Tz) -> Markup {
    html! {
        @if !history.is_empty() {
            details.history {
                summary { "What happened so far" }
                ol {
                    @for one in history {
                        li {
                            (labels::instant(one.at, zone)) " · " strong { (super::sanitize::spoken(&one.action)) }
                            " by " (labels::who(&one.by))
                            @if let Some(note) = &one.note { " – " (line(note, 400)) }
                        }
                    }
                }
            }
        }
    }
}
