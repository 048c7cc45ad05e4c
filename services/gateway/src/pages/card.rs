//! One request as a card: all that a decision needs, and the result of a decision.

use chrono_tz::Tz;
use holdpoint_contracts::handoff::{LateAnswer, RequestHistoryEntry, RequestView};
use holdpoint_contracts::hold::HoldOutcome;
use maud::{Markup, html};
use serde_json::Value;

use super::attempt::RequestAttempt;
use super::fragment::{CardId, Fragment, key_of};
use super::request_forms::{ask_again_form, card_id, chosen_answer, open_forms};
use super::sanitize::{clean, humanize, one_line};
use super::session::SignedInUser;
use super::{approval_items, context, labels};

/// Longest headline, in characters.
const TITLE_MAX: usize = 200;

pub(super) fn fragment(user: &SignedInUser, request: &RequestView) -> Fragment {
    Fragment {
        id: card_id(request),
        key: key_of(request),
        html: card(user, request, None),
        card: Some(CardId::Request(request.id)),
    }
}

pub(super) fn title(request: &RequestView) -> String {
    let task = request.task.as_ref().map(|task| task.title.as_str());
    let title = request.title.as_deref().or(task);
    one_line(title.unwrap_or(&request.question), TITLE_MAX)
}

pub(super) fn card(
    user: &SignedInUser,
    request: &RequestView,
    attempt: Option<&RequestAttempt>,
) -> Markup {
    let none = RequestAttempt::default();
    let attempt = attempt.unwrap_or(&none);
    let id = card_id(request);
    let title = title(request);
    let has_more = one_line(&request.question, TITLE_MAX) != title;
    let is_open = request.status.is_open();
    html! {
        article.card.closed[!is_open] id=(id) data-key=(key_of(request)) tabindex="-1"
            aria-labelledby={ (id) "-title" } data-say=(announcement(request)) {
            header {
                div.chips {
                    span.kind { (labels::hold_kind(request.kind)) }
                    @if request.warm_lead { (labels::chip(labels::Tone::Good, "Warm lead")) }
                    @if let Some(priority) = labels::priority_chip(request.priority) { (priority) }
                    (labels::request_status_chip(request))
                    @if let Some(votes) = request.votes {
                        span.chip.calm { (votes.have) " of " (votes.need) " approvals" }
                    }
                }
                h2 id={ (id) "-title" } { a href={ "/requests/" (request.id) } { (title) } }
                (origin(request, user.zone))
            }
            @if let Some(notice) = &attempt.notice { (notice.render()) }
            @if let Some(choice) = attempt.chosen.filter(|_| is_open) { (chosen_answer(user, request, choice)) }
            @if has_more { p.question { (clean(&request.question)) } }
            @if let Some(reason) = request.reason.as_deref() {
                p.why { (clean(labels::reason(reason).unwrap_or(reason))) }
            }
            (task(request))
            (approval_items::calls(request))
            (context::sections(&request.context))
            @if request.redacted { p.muted { (labels::REDACTED) } }
            @if is_open {
                (deadline(user, request))
                @if let Some(default) = &request.default {
                    div.default { span.muted { "Default answer: " } (context::value(default, 0)) }
                }
                (open_forms(user, request, attempt))
            } @else {
                (result(request, user.zone))
                (ask_again_form(user, request, attempt))
            }
            (late_answers(&request.late, user.zone))
            (history(&request.history, user.zone))
        }
    }
}

/// The words with which a screen reader announces a changed card.
fn announcement(request: &RequestView) -> String {
    let title = one_line(&title(request), 80);
    if let (Some(outcome), Some(by)) = (request.outcome, request.decided_by.as_deref()) {
        let outcome = labels::outcome(outcome);
        return format!("{outcome} by {}: {title}", labels::actor(by));
    }
    format!("{}: {title}", labels::hold_kind(request.kind))
}

fn origin(request: &RequestView, zone: Tz) -> Markup {
    html! {
        p.meta {
            @if let Some(agent) = &request.agent { span { "Agent " strong { (agent) } } }
            @if let Some(run) = &request.run { a href={ "/runs/" (run) } { "Run" } }
            @if let Some(step) = &request.step { span { (one_line(step, 100)) } }
            @if let Some(by) = requested_by(request) { span { "Requested by " strong { (by) } } }
            @if let Some(assignee) = &request.assignee {
                span { "Assigned to " strong { (one_line(assignee, 120)) } }
            } @else if request.to.is_empty() {
                span { "For the owners" }
            } @else {
                span { "For " (one_line(&request.to.join(", "), 300)) }
            }
            span { "Opened " (labels::instant(request.created_at, zone)) }
            @if let Some(before) = &request.asks_again {
                a href={ "/requests/" (before) } { "Repeats an earlier request" }
            }
        }
    }
}

/// Without an agent, a card names the requester, and the opener if that is another user.
fn requested_by(request: &RequestView) -> Option<String> {
    if request.agent.is_some() {
        return None;
    }
    let names = request.asked_by.iter().rev().map(|by| labels::actor(by));
    Some(names.collect::<Vec<_>>().join(", opened by ")).filter(|names| !names.is_empty())
}

/// The task without what the card already shows elsewhere.
fn task(request: &RequestView) -> Markup {
    let Some(task) = &request.task else {
        return html! {};
    };
    let text = task.description.as_str();
    let advice = request.context.get("recommended_action");
    let is_shown = request.question == text || advice.and_then(Value::as_str) == Some(text);
    html! {
        @if !text.is_empty() && !is_shown { p.question { (clean(text)) } }
        @if !task.tags.is_empty() {
            p.tags { @for tag in &task.tags { span.tag { (one_line(tag, 60)) } } }
        }
    }
}

fn deadline(user: &SignedInUser, request: &RequestView) -> Markup {
    html! {
        p.deadline {
            @if let Some(escalated) = request.escalated_at {
                "Escalated on " (labels::instant(escalated, user.zone)) ". You can still answer."
            } @else if let Some(deadline) = request.deadline {
                "Decide " strong { (labels::time_until(deadline, user.now, user.zone)) } ". "
                span { "Otherwise, " (labels::timeout_consequence(request)) }
            } @else if let Some(ms) = request.remaining_ms {
                "Paused with " strong { (labels::duration(ms)) } " left. An answer takes effect when the run is resumed."
            } @else {
                "No deadline."
            }
            @if let Some(until) = request.snoozed_until.filter(|until| user.now < *until) {
                " Snoozed until " (labels::instant(until, user.zone)) "."
            }
        }
    }
}

fn result(request: &RequestView, zone: Tz) -> Markup {
    let Some(outcome) = request.outcome else {
        return html! { div.result {} };
    };
    let by = request.decided_by.as_deref();
    let by = by.filter(|_| outcome != HoldOutcome::Timeout);
    html! {
        div.result {
            p {
                strong { (labels::outcome(outcome)) }
                @if let Some(by) = by { " by " strong { (labels::actor(by)) } }
                @if let Some(at) = request.decided_at { " on " (labels::instant(at, zone)) }
                "."
            }
            @if let Some(response) = &request.response { blockquote { (context::value(response, 0)) } }
            @if let Some(effect) = effect(request, outcome) { p.effect { (effect) } }
        }
    }
}

/// Only a standalone hold that expired without a default answer gives its requester no answer.
fn effect(request: &RequestView, outcome: HoldOutcome) -> Option<&'static str> {
    let has_run = request.run.is_some();
    if outcome == HoldOutcome::Cancelled {
        return None;
    }
    if outcome == HoldOutcome::Timeout && !has_run && request.response.is_none() {
        return Some("The requester is notified that the request expired without an answer.");
    }
    request.effect.map(|effect| labels::effect(effect, has_run))
}

fn late_answers(late: &[LateAnswer], zone: Tz) -> Markup {
    html! {
        @if !late.is_empty() {
            section.late {
                h3 { "Late answers" }
                ul {
                    @for answer in late {
                        li {
                            strong { (labels::actor(&answer.by)) } " on " (labels::instant(answer.at, zone)) ": "
                            (late_answer(&answer.data))
                        }
                    }
                }
            }
        }
    }
}

/// `{outcome, data}` as words.
fn late_answer(late: &Value) -> Markup {
    let outcome = late.get("outcome").and_then(Value::as_str);
    let (Some(outcome), Some(data)) = (outcome, late.get("data")) else {
        return context::value(late, 0);
    };
    html! { (humanize(outcome)) @if !data.is_null() { ", " (context::value(data, 0)) } }
}

fn history(history: &[RequestHistoryEntry], zone: Tz) -> Markup {
    html! {
        @if !history.is_empty() {
            details.history {
                summary { "History" }
                ol {
                    @for entry in history {
                        li {
                            (labels::instant(entry.at, zone)) " · " strong { (humanize(&entry.action)) }
                            " by " (labels::actor(&entry.by))
                            @if let Some(note) = &entry.note { " – " (one_line(note, 400)) }
                        }
                    }
                }
            }
        }
    }
}
