//! Request events, run ends and contact events as chat messages: JSON for Slack's incoming webhooks and compatible receivers.
//!
//! Buttons link to pages that require a log-in, because the readers of a channel are unknown. An incoming
//! webhook cannot edit a message, so an end is a separate message. The context stays on the page. An answer is
//! quoted only if it was an offered option or the reason of a decision.

use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::notification::{ContactEvent, RequestEvent, RequestEventKind, RunEnded};
use holdpoint_contracts::run::RunStatus;
use serde_json::{Value, json};

use crate::domain::{
    clean, contact_title, line, link, mention_message, outcome_word, request_title, response_text,
    run_duration, run_end_title,
};
use crate::email_template::{asks, then};

/// Slack's limits, in characters.
const HEADER_MAX: usize = 150;
const SECTION_MAX: usize = 2_000;
const CONTEXT_MAX: usize = 1_000;
/// Longest reason or comment that is quoted.
const QUOTE_MAX: usize = 500;

/// The message of a request event; without the address of the installation it has no buttons.
pub(crate) fn message(event: &RequestEvent, base: Option<&str>) -> Value {
    let head = format!("{}: {}", label(event), line(&request_title(event)));
    let said = said(event);
    let mut blocks = vec![
        json!({ "type": "header", "text": plain(&head, HEADER_MAX) }),
        json!({ "type": "section", "text": plain(&said, SECTION_MAX) }),
    ];
    if !event.kind.is_end() && event.kind != RequestEventKind::Mentioned {
        let request = &event.request;
        let body = format!(
            "{} Priority: {}. {}",
            asks(event),
            request.priority.as_str(),
            then(request)
        );
        let body = plain(&body, CONTEXT_MAX);
        blocks.push(json!({ "type": "context", "elements": [body] }));
    }
    if let Some(base) = base {
        let buttons = buttons(event, base);
        blocks.push(json!({ "type": "actions", "elements": buttons }));
    }
    with_text(&head, &blocks)
}

/// The blocks, and the text for readers that cannot show blocks.
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

/// The message of a contact event, for a person's own chat.
pub(crate) fn contact_message(event: &ContactEvent, is_last: bool) -> Value {
    let head = line(&contact_title(event));
    let said = clean(&crate::domain::contact_message(event, is_last));
    let blocks = [
        json!({ "type": "header", "text": plain(&head, HEADER_MAX) }),
        json!({ "type": "section", "text": plain(&said, SECTION_MAX) }),
    ];
    with_text(&head, &blocks)
}

/// The message of a run end. Only the reason of a failure is quoted, because the readers of a channel are
/// unknown.
pub(crate) fn run_end_message(end: &RunEnded, base: Option<&str>) -> Value {
    let head = line(&run_end_title(end));
    let said = match (end.status, &end.by) {
        (RunStatus::Failed, _) => clean(&end.message),
        (RunStatus::Cancelled, Some(by)) => format!("{} has cancelled it.", line(by)),
        (_, _) => "Nothing is left to do.".to_owned(),
    };
    let duration = format!("It took {}.", run_duration(end));
    let mut blocks = vec![
        json!({ "type": "header", "text": plain(&head, HEADER_MAX) }),
        json!({ "type": "section", "text": plain(&said, SECTION_MAX) }),
        json!({ "type": "context", "elements": [plain(&duration, CONTEXT_MAX)] }),
    ];
    if let Some(base) = base {
        let url = format!("{base}/runs/{}", end.run);
        blocks.push(
            json!({ "type": "actions", "elements": [button("open_run", "Look at the run", &url)] }),
        );
    }
    with_text(&head, &blocks)
}

fn buttons(event: &RequestEvent, base: &str) -> Vec<Value> {
    let words = if event.kind.is_end() || event.kind == RequestEventKind::Mentioned {
        "Look at it"
    } else {
        "Look at it and decide"
    };
    let url = format!("{base}{}", link(event.request.id));
    let request = button("open_request", words, &url);
    let run = event.request.run;
    let run = run.map(|run| button("open_run", "Look at the run", &format!("{base}/runs/{run}")));
    std::iter::once(request).chain(run).collect()
}

/// The headline prefix.
fn label(event: &RequestEvent) -> &'static str {
    use holdpoint_contracts::run::HoldKind::{Approval, ChildRun, Handoff, Input, Signal, Timer};
    match (event.kind, event.request.kind) {
        (RequestEventKind::Opened, Approval) => "Approval wanted",
        (RequestEventKind::Opened, Input | Timer | Signal | ChildRun) => "Answer wanted",
        (RequestEventKind::Opened, Handoff) => "Person wanted",
        (RequestEventKind::Assigned, _) => "Reassigned",
        (RequestEventKind::Escalated, _) => "Escalated",
        (RequestEventKind::TakenOver, _) => "Taken over",
        (RequestEventKind::Mentioned, _) => "Mention",
        (
            RequestEventKind::Decided | RequestEventKind::Expired | RequestEventKind::Withdrawn,
            _,
        ) => outcome(event),
    }
}

/// How a request ended.
fn outcome(event: &RequestEvent) -> &'static str {
    let is_takeover = event.request.outcome == Some(HoldOutcome::TakenOver);
    match outcome_word(event) {
        Some(_) if is_takeover && event.kind == RequestEventKind::Decided => "Taken over",
        Some(word) => word,
        None => "Decided",
    }
}

/// The question, or the action and its actor.
fn said(event: &RequestEvent) -> String {
    let by = event.by.as_deref().map(line);
    let by = by.filter(|by| !by.is_empty() && !by.starts_with("service:"));
    let who = by.as_deref().unwrap_or("Holdpoint");
    match event.kind {
        RequestEventKind::Opened | RequestEventKind::Escalated => clean(&event.request.question),
        RequestEventKind::Assigned => match &event.request.assignee {
            Some(now) => format!("{} has it now.", line(now)),
            None => "Another person has it now.".to_owned(),
        },
        RequestEventKind::TakenOver => format!("{who} has taken it over. You need not act."),
        RequestEventKind::Mentioned => clean(&mention_message(event)),
        RequestEventKind::Decided => {
            let done = outcome(event).to_lowercase();
            match quote(&event.request) {
                Some(quote) => format!("{who}: {done}. {quote}"),
                None => format!("{who}: {done}."),
            }
        }
        RequestEventKind::Expired => "It timed out without a decision.".to_owned(),
        RequestEventKind::Withdrawn => format!("{who}: it is not wanted any more."),
    }
}

/// The reason or comment of an approval, or the chosen option.
fn quote(request: &RequestView) -> Option<String> {
    let text = response_text(request)?;
    let is_decision = matches!(
        request.outcome,
        Some(HoldOutcome::Approved | HoldOutcome::Rejected | HoldOutcome::Revised)
    );
    let is_offered = request.options.iter().any(|option| option == text);
    let is_quoted = (is_decision || is_offered) && !text.trim().is_empty();
    is_quoted.then(|| line(text).chars().take(QUOTE_MAX).collect())
}

/// A text without links, mentions and formatting.
fn plain(text: &str, most: usize) -> Value {
    json!({ "type": "plain_text", "text": fit(text, most), "emoji": false })
}

/// Escapes and cuts a text. It is never empty, because Slack refuses an empty text.
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
    use crate::domain::testing::request_event as fact;

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
    fn a_question_has_buttons() {
        let opened = fact(1, RequestEventKind::Opened, &[]);
        let body = message(&opened, BASE);
        assert_eq!(body["text"], "Person wanted: Agent handoff: Ann");
        assert_eq!(body["blocks"][0]["type"], "header");
        let buttons = body["blocks"][3]["elements"].as_array().unwrap();
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
    fn an_end_names_who_decided_what() {
        let mut decided = fact(2, RequestEventKind::Decided, &[]);
        decided.by = Some("ada".to_owned());
        decided.request.outcome = Some(HoldOutcome::Rejected);
        decided.request.response = Some(json!("Too soon"));
        let body = message(&decided, BASE);
        assert_eq!(body["text"], "Rejected: Agent handoff: Ann");
        assert_eq!(body["blocks"][1]["text"]["text"], "ada: rejected. Too soon");
        decided.request.outcome = Some(HoldOutcome::Answered);
        decided.request.response = Some(json!("my password"));
        let body = message(&decided, BASE);
        let said = &body["blocks"][1]["text"]["text"];
        assert_eq!(said, "ada: answered.", "a free answer is not quoted");
        decided.request.options = vec!["my password".to_owned()];
        let body = message(&decided, BASE);
        assert_eq!(
            body["blocks"][1]["text"]["text"],
            "ada: answered. my password"
        );
    }

    /// People, "Must": HTML, control characters and `<!channel>` in every text, however long.
    #[test]
    fn texts_of_users_stay_texts() {
        let evil = "<!channel> <https://evil.example|x> & <script>\r\n\u{0}\u{1b}\u{202e}@here";
        let long = evil.repeat(1_000);
        for kind in RequestEventKind::ALL {
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
            let body = message(&fact, BASE);
            for text in texts(&body) {
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
            let head = body["blocks"][0]["text"]["text"].as_str().unwrap();
            assert!(head.chars().count() <= HEADER_MAX, "{head}");
        }
    }
}
