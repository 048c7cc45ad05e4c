//! How a request ended, as whoever wanted it asked is told: in the application, and nowhere else.

use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::notification::{RequestEvent, RequestEventKind};

use super::fan_out::Audience;
use super::note::{TITLE_CHARS_MAX, title as asked};

/// Longest answer that is quoted, in characters; all of it is at the request.
const SAID_CHARS_MAX: usize = 500;

/// What services are called where people are named.
const SERVICE: &str = "service:";

/// Whoever wanted it asked, but for whoever ended it. That its run has ended, and it with it, is the
/// run's news.
pub(super) fn whom(fact: &RequestEvent) -> Vec<Audience> {
    let by = person(fact);
    if fact.kind == RequestEventKind::Withdrawn && by.is_none() {
        return Vec::new();
    }
    let others = fact.request.asked_by.iter().map(String::as_str);
    let others = others.filter(|name| Some(*name) != by);
    let names = others.filter_map(|name| name.parse().ok());
    names.map(Audience::User).collect()
}

/// Who did it; none: time, or a service.
fn person(fact: &RequestEvent) -> Option<&str> {
    fact.by.as_deref().filter(|by| !by.starts_with(SERVICE))
}

/// `Approved`; none where nothing has ended.
fn how(fact: &RequestEvent) -> Option<&'static str> {
    let how = match (fact.kind, fact.request.outcome) {
        (
            RequestEventKind::Opened
            | RequestEventKind::Assigned
            | RequestEventKind::Escalated
            | RequestEventKind::TakenOver,
            _,
        ) => {
            return None;
        }
        (RequestEventKind::Expired, _)
        | (RequestEventKind::Decided, Some(HoldOutcome::Timeout)) => "Time was up",
        (RequestEventKind::Withdrawn, _)
        | (RequestEventKind::Decided, Some(HoldOutcome::Cancelled)) => "Withdrawn",
        (RequestEventKind::Decided, Some(HoldOutcome::Approved)) => "Approved",
        (RequestEventKind::Decided, Some(HoldOutcome::Rejected)) => "Rejected",
        (RequestEventKind::Decided, Some(HoldOutcome::Answered)) => "Answered",
        (RequestEventKind::Decided, Some(HoldOutcome::Completed | HoldOutcome::TakenOver)) => {
            "Completed"
        }
        (RequestEventKind::Decided, Some(HoldOutcome::Fired) | None) => "Decided",
    };
    Some(how)
}

/// `Approved: Deploy 4.2?`
pub(super) fn title(fact: &RequestEvent) -> Option<String> {
    let title = format!("{}: {}", how(fact)?, asked(fact));
    Some(title.chars().take(TITLE_CHARS_MAX).collect())
}

/// `Rejected by ada`
fn outcome(fact: &RequestEvent) -> Option<String> {
    let how = how(fact)?;
    Some(match person(fact) {
        Some(by) => format!("{how} by {by}"),
        None => format!("{how}, and nobody had decided"),
    })
}

/// `Rejected by ada.`, without what was said.
pub(super) fn short(fact: &RequestEvent) -> Option<String> {
    Some(format!("{}.", outcome(fact)?))
}

/// `Rejected by ada: Not before Monday`. What was said is for whoever wanted it asked, who sees all of
/// the request.
pub(super) fn message(fact: &RequestEvent) -> Option<String> {
    let mut message = outcome(fact)?;
    let said = fact.request.response.as_ref();
    let said = said.and_then(serde_json::Value::as_str).map(str::trim);
    match said.filter(|said| !said.is_empty()) {
        Some(said) => {
            message.push_str(": ");
            message.extend(said.chars().take(SAID_CHARS_MAX));
        }
        None => message.push('.'),
    }
    Some(message)
}
