//! Notifications as mails: text and HTML. Texts of users are escaped and lose invisible characters.

mod answers;

use chrono::{DateTime, Utc};
use holdpoint_auth::Choice;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::notification::{
    ContactEvent, NotificationType, NotificationView, RequestEvent, RunEnded,
};
use maud::{DOCTYPE, Markup, html};

use self::answers::Answers;
use crate::domain::{
    call_summary, clean, contact_message, contact_title, line, link, mention_message,
    mention_title, request_title, run_end_message, run_end_title,
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EmailText {
    pub(crate) subject: String,
    pub(crate) text: String,
    pub(crate) html: String,
}

/// A mail links to the request only, because mails are forged.
const ELSEWHERE: &str = "What is asked for is entered at its owner's own page, and never by mail or in Holdpoint: the request shows where.";

/// The mail of a request, with a link to the request and one to each answer. Without links it says where to
/// decide.
pub(crate) fn request_mail(
    event: &RequestEvent,
    link: impl Fn(Option<Choice>) -> Option<String>,
) -> EmailText {
    let request = &event.request;
    let subject = line(&request_title(event));
    let message = clean(&request.question);
    let (asks, then) = (asks(event), then(request));
    let lookup = link(None);
    let act = match &lookup {
        Some(link) => format!("Look at it and decide, as yourself (for you alone): {link}"),
        None => "Open the inbox of Holdpoint to decide it.".to_owned(),
    };
    let calls: Vec<_> = request.items.iter().map(call_summary).collect();
    let known = known(request);
    let elsewhere = request.link.as_ref().map(|_| ELSEWHERE);
    let answers = Answers::of(request);
    let listed: Vec<_> = known.iter().map(|line| format!("- {line}")).collect();
    let parts = [
        message.clone(),
        calls_text(&calls),
        listed.join("\n"),
        elsewhere.unwrap_or_default().to_owned(),
        answers.text(&link),
        format!("{asks}\n{then}"),
        act.clone(),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let html = html! {
        @if line(&message) != subject { @for part in message.lines() { p { (part) } } }
        @for (head, args) in &calls { p { (head) } ul { @for line in args { li { (line) } } } }
        @if !known.is_empty() { ul { @for line in &known { li { (line) } } } }
        @if let Some(elsewhere) = elsewhere { p { (elsewhere) } }
        (answers.html(&link))
        p { (asks) br; (then) }
        @if let Some(link) = lookup {
            p { a href=(link) { "Look at it and decide" } " (as yourself: this link is for you alone)" }
        } @else {
            p { (act) }
        }
    };
    EmailText {
        html: framed(&subject, &html),
        text: format!("{}\n", parts.join("\n\n")),
        subject,
    }
}

fn calls_text(calls: &[(String, Vec<String>)]) -> String {
    let lines = calls.iter().flat_map(|(head, args)| {
        let args = args.iter().map(|line| format!("- {line}"));
        std::iter::once(head.clone()).chain(args)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn framed(subject: &str, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (subject) }
            }
            body style="font-family: sans-serif; line-height: 1.5; max-width: 40em; overflow-wrap: anywhere" {
                h1 style="font-size: 1.2em" { (subject) }
                (body)
            }
        }
    };
    whole.into_string()
}

/// The mail of a run end; without a base it has no link.
pub(crate) fn run_end_mail(end: &RunEnded, base: Option<&str>) -> EmailText {
    let subject = line(&run_end_title(end));
    let message = clean(&run_end_message(end));
    let why = "You are notified because you follow the run or its agent.";
    let link = base.map(|base| format!("{base}/runs/{}", end.run));
    let lookup = match &link {
        Some(link) => format!("Look at the run: {link}"),
        None => format!("It is run {}.", end.run),
    };
    let html = html! {
        @for part in message.lines() { p { (part) } }
        @if let Some(link) = &link {
            p { a href=(link) { "Look at the run" } }
        } @else {
            p { (lookup) }
        }
        p { (why) }
    };
    EmailText {
        text: format!("{message}\n\n{lookup}\n\n{why}\n"),
        html: framed(&subject, &html),
        subject,
    }
}

/// The mail of a mention. It has no answers to click on, because the person may be no recipient of the request.
pub(crate) fn mention_mail(event: &RequestEvent, base: Option<&str>) -> EmailText {
    let subject = line(&mention_title(event));
    let message = clean(&mention_message(event));
    let url = base.map(|base| format!("{base}{}", link(event.request.id)));
    let lookup = match &url {
        Some(url) => format!("Look at the request: {url}"),
        None => format!("It is request {}.", event.request.id),
    };
    let html = html! {
        p { (message) }
        @if let Some(url) = &url { p { a href=(url) { "Look at the request" } } } @else { p { (lookup) } }
    };
    EmailText {
        text: format!("{message}\n\n{lookup}\n"),
        html: framed(&subject, &html),
        subject,
    }
}

/// The mail of a contact event, to the owner of the contact.
pub(crate) fn contact_mail(event: &ContactEvent, is_last: bool) -> EmailText {
    let subject = line(&contact_title(event));
    let message = clean(&contact_message(event, is_last));
    let why = format!(
        "You are notified because you are the owner of the contact {}.",
        event.contact
    );
    let html = html! { p { (message) } p { (why) } };
    EmailText {
        text: format!("{message}\n\n{why}\n"),
        html: framed(&subject, &html),
        subject,
    }
}

/// Requests and runs that a digest names. More are only counted.
const NAMED: usize = 20;

/// Longest line of a digest, in characters.
const LINE_CHARS_MAX: usize = 200;

/// The digest of open requests and ended runs: a line and a link each, and the number of further ones.
pub(crate) fn digest(open: &[NotificationView], base: Option<&str>) -> EmailText {
    let ended = open.iter().filter(|one| one.ended.is_some()).count();
    let others = open.iter().filter(|one| asks_nothing(one)).count();
    let subject = subject(open.len() - ended - others, ended, others);
    let short = |text: &str| line(text).chars().take(LINE_CHARS_MAX).collect::<String>();
    let named: Vec<_> = open
        .iter()
        .take(NAMED)
        .map(|one| {
            let about = match &one.ended {
                Some(_) => format!("{} Ended {}.", short(&one.message), at(one.at)),
                None if asks_nothing(one) => format!("{} {}.", short(&one.message), at(one.at)),
                None => format!("Priority {}, since {}.", one.priority.as_str(), at(one.at)),
            };
            let link = base.map(|base| format!("{base}{}", one.link));
            let place = match (&link, one.run.filter(|_| one.ended.is_some())) {
                (Some(link), _) => link.clone(),
                (None, Some(run)) => format!("It is run {run}."),
                (None, None) if asks_nothing(one) => format!("It is notification {}.", one.id),
                (None, None) => "Open the inbox of Holdpoint to decide it.".to_owned(),
            };
            (short(&one.title), about, link, place)
        })
        .collect();
    let more = open.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    let mut parts: Vec<String> = named
        .iter()
        .map(|(title, about, _, place)| format!("- {title}\n  {about}\n  {place}"))
        .collect();
    parts.extend(more.clone());
    let html = html! {
        ul {
            @for (title, about, link, _) in &named {
                li {
                    @if let Some(link) = link { a href=(link) { (title) } } @else { (title) }
                    br; (about)
                }
            }
        }
        @if let Some(more) = &more { p { (more) } }
    };
    EmailText {
        html: framed(&subject, &html),
        text: format!("{}\n", parts.join("\n\n")),
        subject,
    }
}

/// Whether a notification asks nothing: it is of a contact, or a mention.
pub(crate) fn asks_nothing(one: &NotificationView) -> bool {
    one.contact.is_some() || one.kind == NotificationType::Mention
}

/// `2 requests wait for you, and 1 run has ended`, perhaps with the number of other notifications
fn subject(waiting: usize, ended: usize, others: usize) -> String {
    let new = match others {
        1 => "1 notification is new".to_owned(),
        count => format!("{count} notifications are new"),
    };
    if waiting + ended == 0 {
        return new;
    }
    let first = requests_and_ends(waiting, ended);
    if others == 0 {
        return first;
    }
    format!("{first}; {new}")
}

fn requests_and_ends(waiting: usize, ended: usize) -> String {
    let waits = match waiting {
        1 => "1 request waits for you".to_owned(),
        count => format!("{count} requests wait for you"),
    };
    let over = match ended {
        1 => "1 run has ended".to_owned(),
        count => format!("{count} runs have ended"),
    };
    match (waiting, ended) {
        (_, 0) => waits,
        (0, _) => format!("{over} that you follow"),
        (_, _) => format!("{waits}, and {over}"),
    }
}

/// The summary of the context, in a few lines.
fn known(request: &RequestView) -> Vec<String> {
    let lines = request.context.as_array().into_iter().flatten();
    lines.filter_map(|one| one.as_str().map(line)).collect()
}

/// The sentence that names the asker.
pub(crate) fn asks(event: &RequestEvent) -> String {
    let request = &event.request;
    match (&request.agent, &request.step, &event.by) {
        (Some(agent), Some(step), _) => format!("Agent {agent} asks, at {}.", line(step)),
        (Some(agent), None, _) => format!("Agent {agent} asks."),
        (None, _, Some(by)) if !by.starts_with("service:") => format!("{} asks.", line(by)),
        (None, _, Some(_) | None) => "A program asks.".to_owned(),
    }
}

/// The sentence that names the deadline and what follows it.
pub(crate) fn then(request: &RequestView) -> String {
    let Some(deadline) = request.deadline else {
        return "This request has no deadline.".to_owned();
    };
    let then = match (request.on_timeout, request.run.is_some()) {
        (OnTimeout::Fail, true) if request.step.is_some() => {
            "then the step fails, and so does the run unless its agent handles that"
        }
        (OnTimeout::Fail, true) => "then the run fails",
        (OnTimeout::Fail, false) => "then it ends without an answer",
        (OnTimeout::Skip, true) => "then the step is skipped and the run goes on",
        (OnTimeout::Skip, false) => "then it ends as skipped",
        (OnTimeout::Default, _) => "then the default answer counts",
        (OnTimeout::Continue, true) => "then the run goes on without you",
        (OnTimeout::Continue, false) => "then it ends, and nothing else happens",
        (OnTimeout::Escalate, _) => "then others are notified, and it stays open",
    };
    format!("It can be decided until {}; {then}.", at(deadline))
}

fn at(instant: DateTime<Utc>) -> String {
    instant.format("%-d %b %Y, %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use holdpoint_contracts::notification::RequestEventKind;
    use holdpoint_contracts::run::HoldKind;

    use super::*;
    use crate::domain::testing::request_event as fact;

    /// S0-T4: who asks, until when, what then, and where to act.
    #[test]
    fn a_mail_names_asker_deadline_and_link() {
        let mut fact = fact(1, RequestEventKind::Opened, &[]);
        fact.request.agent = Some("outreach".parse().unwrap());
        fact.request.context = serde_json::json!(["Recommended action: Call her"]);
        fact.request.deadline = Some("2026-01-03T09:00:00Z".parse().unwrap());
        let words = request_mail(&fact, |_| {
            Some("https://hold.example/tasks/1?action=handoff".to_owned())
        });
        assert_eq!(words.subject, "Agent handoff: Ann");
        for part in [
            "needs your attention for Ann",
            "\n\n- Recommended action: Call her\n\n",
            "Agent outreach asks.",
            "until 3 Jan 2026, 09:00 UTC; then the run goes on without you.",
            "https://hold.example/tasks/1?action=handoff",
        ] {
            assert!(words.text.contains(part), "{part}: {}", words.text);
        }
        assert!(
            words
                .html
                .contains("href=\"https://hold.example/tasks/1?action=handoff\"")
        );
    }

    /// S2-R3: the mail of an approval shows the call that it permits.
    #[test]
    fn a_mail_shows_the_call_to_approve() {
        let mut fact = fact(1, RequestEventKind::Opened, &[]);
        fact.request.kind = HoldKind::Approval;
        fact.request.title = Some("Approve payments.refund".to_owned());
        fact.request.question = "Agent refund wants to call payments.refund (step-02).".to_owned();
        fact.request.items = serde_json::from_value(serde_json::json!([{
            "id": "step-02", "tool": "payments.refund", "digest": "8f43",
            "args": { "order": "o-17", "note": "<b>now</b>" },
        }]))
        .unwrap();
        let words = request_mail(&fact, |_| None);
        assert_eq!(words.subject, "Approve payments.refund");
        let call = "It calls payments.refund with these arguments; the request shows all of them:\n- Order: o-17\n- Note: <b>now</b>\n\n";
        assert!(words.text.contains(call), "{}", words.text);
        assert!(
            words.html.contains("<li>Order: o-17</li>"),
            "{}",
            words.html
        );
        assert!(!words.html.contains("<b>"), "{}", words.html);
        // The readers of a chat channel are unknown.
        let slack = crate::slack::message(&fact, None).to_string();
        assert!(slack.contains("wants to call payments.refund"), "{slack}");
        assert!(!slack.contains("o-17"), "{slack}");
    }

    fn in_a_digest() -> NotificationView {
        NotificationView {
            id: holdpoint_ids::NotificationId::opened(fact(1, RequestEventKind::Opened, &[]).id),
            kind: NotificationType::InputRequested,
            title: "<b>Ship</b>\r\nBcc: eve".to_owned(),
            message: String::new(),
            priority: holdpoint_contracts::hold::Priority::Low,
            action_url: "/tasks/1".to_owned(),
            link: "/requests/1".to_owned(),
            run: None,
            request: None,
            contact: None,
            at: DateTime::UNIX_EPOCH,
            read_at: None,
            decided: None,
            ended: None,
        }
    }

    /// People, deliverable 7: capped, escaped, with a link to each.
    #[test]
    fn a_digest_names_some_and_counts_the_rest() {
        let words = digest(
            &vec![in_a_digest(); NAMED + 3],
            Some("https://hold.example"),
        );
        assert_eq!(words.subject, "23 requests wait for you");
        assert_eq!(
            words
                .text
                .matches("https://hold.example/requests/1")
                .count(),
            NAMED
        );
        for text in [&words.text, &words.html] {
            assert!(text.contains("and 3 more"), "{text}");
        }
        assert!(
            !words.html.contains("<b>") && !words.text.contains('\r'),
            "{words:?}"
        );
    }

    /// S0-T4: how a run ended is a mail with a link to it, and texts of others stay texts.
    #[test]
    fn the_end_of_a_run_is_a_mail() {
        let end: RunEnded = serde_json::from_value(serde_json::json!({
            "run": "run_01920000000070008000000000000001",
            "agent": "outreach",
            "status": "failed",
            "message": "step-02 failed: <b>no</b>\r\nBcc: eve.",
            "started_at": "2026-03-02T09:00:00.000Z",
            "ended_at": "2026-03-02T09:07:00.000Z",
        }))
        .unwrap();
        let mail = run_end_mail(&end, Some("https://hold.example"));
        assert_eq!(mail.subject, "Run of outreach failed");
        assert!(mail.text.contains("It took 7 minutes."), "{}", mail.text);
        let link = "https://hold.example/runs/run_01920000000070008000000000000001";
        for text in [&mail.text, &mail.html] {
            assert!(text.contains(link) && !text.contains('\r'), "{text}");
        }
        assert!(!mail.html.contains("<b>"), "{}", mail.html);
        let slack = crate::slack::run_end_message(&end, None).to_string();
        assert!(
            slack.contains("Run of outreach failed") && !slack.contains("<b>"),
            "{slack}"
        );
        let one = NotificationView {
            ended: Some(end.shown()),
            run: Some(end.run),
            ..in_a_digest()
        };
        let listed = digest(&[one], None).text;
        assert!(!listed.contains("decide"), "nothing is asked: {listed}");
        assert!(
            listed.contains(&format!("It is run {}.", end.run)),
            "{listed}"
        );
        assert_eq!(subject(0, 1, 0), "1 run has ended that you follow");
        assert_eq!(
            subject(2, 3, 0),
            "2 requests wait for you, and 3 runs have ended"
        );
        assert_eq!(subject(0, 0, 1), "1 notification is new");
        assert_eq!(
            subject(1, 0, 2),
            "1 request waits for you; 2 notifications are new"
        );
    }

    /// People, deliverable 3: a mail leads to the request, and never to where a secret is entered.
    #[test]
    fn a_mail_has_no_foreign_link() {
        let mut fact = fact(1, RequestEventKind::Opened, &[]);
        fact.request.link = Some(holdpoint_contracts::link::Link {
            url: "https://vault.example/new".to_owned(),
            label: Some("Open the vault".to_owned()),
        });
        let words = request_mail(&fact, |_| Some("https://hold.example/l/abc".to_owned()));
        for text in [&words.text, &words.html] {
            assert!(text.contains("entered at its owner"), "{text}");
            assert!(text.contains("https://hold.example/l/abc"), "{text}");
            assert!(!text.contains("vault.example"), "{text}");
        }
        let slack = crate::slack::message(&fact, Some("https://hold.example")).to_string();
        assert!(!slack.contains("vault.example"), "{slack}");
    }

    /// People, "Must": HTML and control characters in every text, mail header injection.
    #[test]
    fn texts_of_users_stay_texts() {
        let evil = "<script>x</script>\r\nBcc: eve@example.org\u{0}\u{1b}\u{202e}";
        let mut fact = fact(1, RequestEventKind::Opened, &[]);
        fact.request.title = Some(evil.to_owned());
        fact.request.question = evil.to_owned();
        fact.by = Some(evil.to_owned());
        fact.request.context = serde_json::json!([evil]);
        fact.request.kind = HoldKind::Input;
        fact.request.options = vec![evil.to_owned(), "\" onclick=\"x".to_owned()];
        let words = request_mail(&fact, |_| None);
        assert!(!words.html.contains(" onclick=\"x"), "{words:?}");
        assert!(!words.subject.contains(['\r', '\n', '\0']), "{words:?}");
        assert!(!words.html.contains("<script>"), "{words:?}");
        let unseen = ['\0', '\u{1b}', '\u{202e}', '\r'];
        assert!(!words.text.contains(unseen) && !words.html.contains(unseen));
    }
}
