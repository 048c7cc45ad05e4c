//! What happened to a request, or how a run ended, as a message to a channel of people: JSON as Slack's incoming webhooks
//! take it, and what speaks like them.
//!
//! Its buttons are links to pages that want a log-in: whoever reads a channel is nobody in particular.
//! An incoming webhook cannot change what it has sent, so an end is a message of its own. What helps to
//! decide stays on the page; of an answer only what was offered, and why somebody decided, is told.

use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::notification::{RequestEvent, RequestEventKind, RunEnded};
use holdpoint_contracts::run::RunStatus;
use serde_json::{Value, json};

use crate::domain::{end_title, link, title, took};
use crate::letter::{asks, clean, line, then};

/// Slack's limits, in characters.
const HEADER_MAX: usize = 150;
const SECTION_MAX: usize = 2_000;
const CONTEXT_MAX: usize = 1_000;
/// Longest reason or comment that is quoted.
const QUOTE_MAX: usize = 500;

/// Writes it; without an address of the installation it has no buttons.
pub(crate) fn message(fact: &RequestEvent, base: Option<&str>) -> Value {
    let head = format!("{}: {}", label(fact), line(&title(fact)));
    let said = said(fact);
    let mut blocks = vec![
        json!({ "type": "header", "text": plain(&head, HEADER_MAX) }),
        json!({ "type": "section", "text": plain(&said, SECTION_MAX) }),
    ];
    if !fact.kind.is_end() {
        let request = &fact.request;
        let told = format!(
            "{} Priority: {}. {}",
            asks(fact),
            request.priority.as_str(),
            then(request)
        );
        let told = plain(&told, CONTEXT_MAX);
        blocks.push(json!({ "type": "context", "elements": [told] }));
    }
    if let Some(base) = base {
        let buttons = buttons(fact, base);
        blocks.push(json!({ "type": "actions", "elements": buttons }));
    }
    with_text(&head, &blocks)
}

/// What is shown, and the text where that cannot be.
fn with_text(head: &str, blocks: &[Value]) -> Value {
    json!({
        "text": fit(head, HEADER_MAX),
        "blocks": blocks,
        "mrkdwn": false,
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
    })
}

fn button(action: &str, text: &str, url: &str) -> Value {
    json!({
        "type": "button",
        "action_id": action,
        "text": plain(text, HEADER_MAX),
        "url": url,
    })
}

/// Writes how a run ended. Of what it says only why it failed is told: whoever
/// reads a channel is nobody in particular.
pub(crate) fn ended(end: &RunEnded, base: Option<&str>) -> Value {
    let head = line(&end_title(end));
    let said = match (end.status, &end.by) {
        (RunStatus::Failed, _) => clean(&end.message),
        (RunStatus::Cancelled, Some(by)) => format!("{} has cancelled it.", line(by)),
        (_, _) => "Nothing is left to do.".to_owned(),
    };
    let took = format!("It took {}.", took(end));
    let mut blocks = vec![
        json!({ "type": "header", "text": plain(&head, HEADER_MAX) }),
        json!({ "type": "section", "text": plain(&said, SECTION_MAX) }),
        json!({ "type": "context", "elements": [plain(&took, CONTEXT_MAX)] }),
    ];
    if let Some(base) = base {
        let url = format!("{base}/runs/{}", end.run);
        blocks.push(
            json!({ "type": "actions", "elements": [button("open_run", "Look at the run", &url)] }),
        );
    }
    with_text(&head, &blocks)
}

fn buttons(fact: &RequestEvent, base: &str) -> Vec<Value> {
    let words = if fact.kind.is_end() {
        "Look at it"
    } else {
        "Look at it and decide"
    };
    let url = format!("{base}{}", link(fact.request.id));
    let request = button("open_request", words, &url);
    let run = fact.request.run;
    let run = run.map(|run| button("open_run", "Look at the run", &format!("{base}/runs/{run}")));
    std::iter::once(request).chain(run).collect()
}

/// In two or three words.
fn label(fact: &RequestEvent) -> &'static str {
    use holdpoint_contracts::run::HoldKind::{Approval, Handoff, Input, Timer};
    match (fact.kind, fact.request.kind) {
        (RequestEventKind::Opened, Approval) => "Approval wanted",
        (RequestEventKind::Opened, Input | Timer) => "Answer wanted",
        (RequestEventKind::Opened, Handoff) => "Person wanted",
        (RequestEventKind::Assigned, _) => "Reassigned",
        (RequestEventKind::Escalated, _) => "Escalated",
        (RequestEventKind::TakenOver, _) => "Taken over",
        (RequestEventKind::Decided, _) => outcome(&fact.request),
        (RequestEventKind::Expired, _) => "Time was up",
        (RequestEventKind::Withdrawn, _) => "Withdrawn",
    }
}

fn outcome(request: &RequestView) -> &'static str {
    match request.outcome {
        Some(HoldOutcome::Approved) => "Approved",
        Some(HoldOutcome::Rejected) => "Rejected",
        Some(HoldOutcome::Answered) => "Answered",
        Some(HoldOutcome::Completed) => "Completed",
        Some(HoldOutcome::TakenOver) => "Taken over",
        Some(HoldOutcome::Timeout) => "Time was up",
        Some(HoldOutcome::Cancelled) => "Withdrawn",
        Some(HoldOutcome::Fired) | None => "Decided",
    }
}

/// What is asked; or who did what.
fn said(fact: &RequestEvent) -> String {
    let by = fact.by.as_deref().map(line);
    let by = by.filter(|by| !by.is_empty() && !by.starts_with("service:"));
    let who = by.as_deref().unwrap_or("Holdpoint");
    match fact.kind {
        RequestEventKind::Opened | RequestEventKind::Escalated => clean(&fact.request.question),
        RequestEventKind::Assigned => match &fact.request.assignee {
            Some(now) => format!("{} has it now.", line(now)),
            None => "Somebody else has it now.".to_owned(),
        },
        RequestEventKind::TakenOver => format!("{who} has taken it over: nobody else need look."),
        RequestEventKind::Decided => {
            let done = outcome(&fact.request).to_lowercase();
            let quote = quote(&fact.request);
            quote.map_or_else(
                || format!("{who}: {done}."),
                |quote| format!("{who}: {done}. {quote}"),
            )
        }
        RequestEventKind::Expired => "Nobody decided in time.".to_owned(),
        RequestEventKind::Withdrawn => format!("{who}: it is not wanted any more."),
    }
}

/// The reason or comment of an approval, or which of the options was taken.
fn quote(request: &RequestView) -> Option<String> {
    let text = request.response.as_ref()?.as_str()?;
    let is_decision = matches!(
        request.outcome,
        Some(HoldOutcome::Approved | HoldOutcome::Rejected)
    );
    let is_offered = request.options.iter().any(|option| option == text);
    let is_told = (is_decision || is_offered) && !text.trim().is_empty();
    is_told.then(|| line(text).chars().take(QUOTE_MAX).collect())
}

/// A text that is shown as it is: no links, no mentions, no marks.
fn plain(text: &str, most: usize) -> Value {
    json!({ "type": "plain_text", "text": fit(text, most), "emoji": false })
}

/// Escaped as Slack wants it, and no longer than allowed. Never empty: that is refused.
fn fit(text: &str, most: usize) -> String {
    let mut fitting = String::new();
    let mut length = 0;
    for letter in text.trim().chars() {
        let piece = match letter {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            other => other.to_string(),
        };
        length += piece.chars().count();
        if length >= most {
            fitting.push('…');
            return fitting;
        }
        fitting.push_str(&piece);
    }
    if fitting.is_empty() {
        fitting.push('–');
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tests::fact;

    const BASE: Option<&str> = Some("https://hold.example");

    /// Every text in a message.
    fn texts(message: &Value) -> Vec<String> {
        match message {
            Value::String(text) => vec![text.clone()],
            Value::Array(all) => all.iter().flat_map(texts).collect(),
            Value::Object(all) => all.values().flat_map(texts).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
        }
    }

    /// People, deliverable 7: what is asked, with buttons to pages that want a log-in.
    #[test]
    fn what_is_asked_is_told_with_buttons() {
        let opened = fact(1, RequestEventKind::Opened, &[]);
        let told = message(&opened, BASE);
        assert_eq!(told["text"], "Person wanted: Agent handoff: Ann");
        assert_eq!(told["blocks"][0]["type"], "header");
        let buttons = told["blocks"][3]["elements"].as_array().unwrap();
        let (id, run) = (opened.request.id, opened.request.run.unwrap());
        assert_eq!(
            buttons[0]["url"],
            format!("https://hold.example/requests/{id}")
        );
        assert_eq!(
            buttons[1]["url"],
            format!("https://hold.example/runs/{run}")
        );
        let none = message(&opened, None);
        assert_eq!(none["blocks"].as_array().unwrap().len(), 3);
    }

    /// People, deliverable 7: who decided what.
    #[test]
    fn an_end_says_who_decided_what() {
        let mut decided = fact(2, RequestEventKind::Decided, &[]);
        decided.by = Some("ada".to_owned());
        decided.request.outcome = Some(HoldOutcome::Rejected);
        decided.request.response = Some(json!("Too soon"));
        let told = message(&decided, BASE);
        assert_eq!(told["text"], "Rejected: Agent handoff: Ann");
        assert_eq!(told["blocks"][1]["text"]["text"], "ada: rejected. Too soon");
        decided.request.outcome = Some(HoldOutcome::Answered);
        decided.request.response = Some(json!("my password"));
        let told = message(&decided, BASE);
        let said = &told["blocks"][1]["text"]["text"];
        assert_eq!(
            said, "ada: answered.",
            "what somebody wrote stays where it is"
        );
        decided.request.options = vec!["my password".to_owned()];
        let told = message(&decided, BASE);
        assert_eq!(
            told["blocks"][1]["text"]["text"],
            "ada: answered. my password"
        );
    }

    /// People, "Must": HTML, control characters and `<!channel>` in every text, however long.
    #[test]
    fn nothing_that_somebody_wrote_is_more_than_text() {
        let evil = "<!channel> <https://evil.example|x> & <script>\r\n\u{0}\u{1b}\u{202e}@here";
        let long = evil.repeat(1_000);
        for kind in [
            RequestEventKind::Opened,
            RequestEventKind::Assigned,
            RequestEventKind::Escalated,
            RequestEventKind::TakenOver,
            RequestEventKind::Decided,
            RequestEventKind::Expired,
            RequestEventKind::Withdrawn,
        ] {
            let mut fact = fact(1, kind, &[]);
            fact.by = Some(long.clone());
            fact.request.title = Some(long.clone());
            fact.request.question = long.clone();
            fact.request.assignee = Some(long.clone());
            fact.request.step = Some(long.clone());
            fact.request.agent = Some("outreach".parse().unwrap());
            fact.request.outcome = Some(HoldOutcome::Approved);
            fact.request.response = Some(json!(long));
            fact.request.context = json!([long]);
            let told = message(&fact, BASE);
            for text in texts(&told) {
                assert!(
                    !text.contains(['<', '>', '\0', '\u{1b}', '\u{202e}', '\r']),
                    "{text}"
                );
                assert!(
                    text.chars().count() <= SECTION_MAX + 1,
                    "{kind:?}: {}",
                    text.len()
                );
            }
            let head = told["blocks"][0]["text"]["text"].as_str().unwrap();
            assert!(head.chars().count() <= HEADER_MAX, "{head}");
        }
    }
}
