//! Headlines and sentences of notifications.

use std::time::Duration;

use holdpoint_contracts::duration::describe;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::notification::{RequestEvent, RequestEventKind, RunEnded};
use holdpoint_contracts::run::RunStatus;

/// Longest headline, in characters; the rest is in the message.
const TITLE_CHARS_MAX: usize = 200;

/// Longest quoted answer, in characters; the request has all of it.
const ANSWER_CHARS_MAX: usize = 500;

/// The prefix of actors that are services.
const SERVICE: &str = "service:";

#[must_use]
pub(crate) fn headline(text: &str) -> String {
    text.chars().take(TITLE_CHARS_MAX).collect()
}

/// The person who acted. `None`: time, or a service.
#[must_use]
pub(crate) fn acting_person(event: &RequestEvent) -> Option<&str> {
    event.by.as_deref().filter(|by| !by.starts_with(SERVICE))
}

/// The title of a request, or the first line of its question.
#[must_use]
pub fn request_title(event: &RequestEvent) -> String {
    let request = &event.request;
    let text = request.title.as_deref().unwrap_or(&request.question);
    let line = text.lines().next().unwrap_or_default();
    let prefix = match event.kind {
        RequestEventKind::Escalated if is_due_task(event) => "Due: ",
        RequestEventKind::Escalated => "Still without a decision: ",
        RequestEventKind::Opened
        | RequestEventKind::Assigned
        | RequestEventKind::TakenOver
        | RequestEventKind::Mentioned
        | RequestEventKind::Decided
        | RequestEventKind::Expired
        | RequestEventKind::Withdrawn => "",
    };
    headline(&format!("{prefix}{line}"))
}

/// `Approved`; `None` if the event is not an end.
pub(crate) fn outcome_word(event: &RequestEvent) -> Option<&'static str> {
    let word = match (event.kind, event.request.outcome) {
        (
            RequestEventKind::Opened
            | RequestEventKind::Assigned
            | RequestEventKind::Escalated
            | RequestEventKind::TakenOver
            | RequestEventKind::Mentioned,
            _,
        ) => return None,
        (RequestEventKind::Expired, _)
        | (RequestEventKind::Decided, Some(HoldOutcome::Timeout)) => "Time was up",
        (RequestEventKind::Withdrawn, _)
        | (RequestEventKind::Decided, Some(HoldOutcome::Cancelled)) => "Withdrawn",
        (RequestEventKind::Decided, Some(HoldOutcome::Approved)) => "Approved",
        (RequestEventKind::Decided, Some(HoldOutcome::Rejected)) => "Rejected",
        (RequestEventKind::Decided, Some(HoldOutcome::Revised)) => "Sent back",
        (RequestEventKind::Decided, Some(HoldOutcome::Answered)) => "Answered",
        (RequestEventKind::Decided, Some(HoldOutcome::Completed | HoldOutcome::TakenOver)) => {
            "Completed"
        }
        (RequestEventKind::Decided, Some(HoldOutcome::Fired) | None) => "Decided",
    };
    Some(word)
}

/// `Approved: Deploy 4.2?`
#[must_use]
pub(crate) fn request_end_title(event: &RequestEvent) -> Option<String> {
    let word = outcome_word(event)?;
    Some(headline(&format!("{word}: {}", request_title(event))))
}

/// The answer as a text, or the comment of an approval with edited arguments.
pub(crate) fn response_text(request: &RequestView) -> Option<&str> {
    let response = request.response.as_ref()?;
    let is_edited = response.get("edited_args").is_some();
    let comment = response.get("comment").filter(|_| is_edited);
    comment.unwrap_or(response).as_str()
}

/// `Rejected by ada`
fn outcome_with_actor(event: &RequestEvent) -> Option<String> {
    let word = outcome_word(event)?;
    Some(match acting_person(event) {
        Some(by) => format!("{word} by {by}"),
        None => format!("{word} without a decision"),
    })
}

/// `Rejected by ada.` Watchers read this: it does not quote the answer.
#[must_use]
pub(crate) fn request_end_summary(event: &RequestEvent) -> Option<String> {
    Some(format!("{}.", outcome_with_actor(event)?))
}

/// `Rejected by ada: Not before Monday`. Only the asker reads this, who sees all of the request.
#[must_use]
pub(crate) fn request_end_message(event: &RequestEvent) -> Option<String> {
    let mut message = outcome_with_actor(event)?;
    let answer = response_text(&event.request).map(str::trim);
    match answer.filter(|answer| !answer.is_empty()) {
        Some(answer) => {
            message.push_str(": ");
            message.extend(answer.chars().take(ANSWER_CHARS_MAX));
        }
        None => message.push('.'),
    }
    Some(message)
}

/// The headline for a watcher: `Asked: Deploy 4.2?`, `With nina now: Deploy 4.2?`, or how it ended.
#[must_use]
pub(crate) fn watcher_title(event: &RequestEvent) -> String {
    if let Some(title) = request_end_title(event) {
        return title;
    }
    let title = request_title(event);
    let prefix = match (event.kind, &event.request.assignee) {
        (RequestEventKind::Assigned, Some(name)) => format!("With {name} now"),
        (RequestEventKind::Assigned, None) => "With another person now".to_owned(),
        _ => "Asked".to_owned(),
    };
    headline(&format!("{prefix}: {title}"))
}

/// `ada mentions you: Deploy 4.2?`
#[must_use]
pub fn mention_title(event: &RequestEvent) -> String {
    let by = acting_person(event).unwrap_or("A person");
    headline(&format!("{by} mentions you: {}", request_title(event)))
}

#[must_use]
pub fn mention_message(event: &RequestEvent) -> String {
    let by = acting_person(event).unwrap_or("A person");
    format!("{by} has written your name into the answer to a request. The request shows the text.")
}

/// `Run of outreach failed`
#[must_use]
pub fn run_end_title(end: &RunEnded) -> String {
    let was = if end.status == RunStatus::Cancelled {
        "was "
    } else {
        ""
    };
    headline(&format!("Run of {} {was}{}", end.agent, end.status))
}

/// The message of the run, and its duration.
#[must_use]
pub fn run_end_message(end: &RunEnded) -> String {
    format!("{} It took {}.", end.message.trim_end(), run_duration(end))
}

/// `2 days 4 hours`; whole seconds from one second on.
#[must_use]
pub fn run_duration(end: &RunEnded) -> String {
    let took_ms = match end.took_ms() {
        short @ ..1_000 => short,
        long => long - long % 1_000,
    };
    describe(Duration::from_millis(took_ms))
}

/// Whether a step has created a task that its run does not wait for.
pub(crate) fn is_task(event: &RequestEvent) -> bool {
    event.request.run.is_none() && event.request.task.is_some()
}

/// Whether it is a task whose deadline has passed (S0-T4).
pub(crate) fn is_due_task(event: &RequestEvent) -> bool {
    is_task(event) && event.request.deadline.is_some_and(|due| due <= event.at)
}
