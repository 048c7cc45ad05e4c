//! What waits for a person: seeing it, act_on_request on it, deciding it, and ask_as_step from a script (M-6).
//!
//! `holdpoint approve "Deploy 4.2?" --to @role.ops --wait && ./deploy` opens a hold that belongs to no
//! run and stays until it is decided; the exit code says how.

mod act_on_request;
mod ask_as_step;

use anyhow::bail;
use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{RequestStatus, RequestView};
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::Page;
use holdpoint_ids::HoldId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClientCommand, Session, instant, list, page_query, show};
use crate::cli::{ApproveArgs, AskArgs, InboxArgs, RequestCommand, ToArgs};
use crate::client::Body;
use crate::exit::{Outcome, Usage};
use crate::output;

/// How long one look at a hold may take at the server.
const LOOK: &str = "30s";

/// What every id of a request begins with.
const HOLD_PREFIX: &str = "hold_";

/// A hold that was opened.
#[derive(Debug, Deserialize)]
struct Opened {
    id: HoldId,
    kind: String,
    deadline: Option<DateTime<Utc>>,
}

impl ClientCommand for RequestCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Inbox(args) => inbox(session, &args).await,
            Self::Approve(args) => approve(session, &args).await,
            Self::Act(acted) => act_on_request::perform(session, acted).await,
            Self::HandOff { message, to } => {
                let asked = json!({ "kind": "handoff", "question": message });
                open(session, asked, &to).await
            }
            Self::Ask(args) if session.is_step() => ask_as_step::ask(session, args).await,
            Self::Ask(AskArgs {
                question,
                options,
                schema,
                link,
                link_label,
                to,
                default,
                step,
            }) => {
                ask_as_step::only_in_a_step(&step)?;
                let mut asked = json!({ "kind": "input", "question": question });
                match (ask_as_step::link(link, link_label), schema) {
                    (Some(link), _) => set(&mut asked, "link", link),
                    (None, Some(schema)) => set(&mut asked, "schema", schema),
                    (None, None) => set(&mut asked, "options", json!(options)),
                }
                if let Some(default) = default {
                    set(&mut asked, "default", read_answer(default));
                }
                open(session, asked, &to).await
            }
            Self::Wait { duration, detach } => {
                let body = json!({ "kind": "timer", "wait": duration });
                let opened: Body<Opened> = session.client.post("holds", &body).await?;
                if detach {
                    return show(session, &opened, |opened| opened.id.to_string());
                }
                until_closed(session, &opened.value).await
            }
        }
    }
}

/// An id or its beginning is approved, a text is asked about: what goes with the other one is refused, for the script
/// that said it would wait for nothing.
async fn approve(session: &Session, args: &ApproveArgs) -> anyhow::Result<Outcome> {
    let ApproveArgs {
        what,
        how,
        comment,
        to,
    } = args;
    let is_id = |what: &String| what.starts_with(HOLD_PREFIX);
    let text = what.iter().find(|one| !is_id(one));
    let of_ids = comment.is_some() || !how.seen.is_empty() || how.all_or_none;
    let wrong = match text {
        Some(text) if what.len() > 1 => Some(format!(
            "`{text}` is no id: several are approved by their ids, and what somebody is to approve is one text in quotes"
        )),
        Some(_) if of_ids => Some(
            "--comment, --version and --all-or-none go with the id of a request that you approve; write all that is to be approved as the text".to_owned(),
        ),
        None if to.opens() => Some(format!(
            "`{}` is a request, which is approved here and now: leave out --wait, --to, --timeout, --on-timeout, --priority, --title, --assign and --policy, or write what is to be approved instead of an id",
            what.first().map_or("", String::as_str)
        )),
        Some(_) | None => None,
    };
    if let Some(wrong) = wrong {
        bail!(Usage(wrong));
    }
    match text {
        None => {
            let said = ("approve", json!({ "comment": comment }));
            act_on_request::decide(session, what, how, said).await
        }
        Some(text) => {
            let asked = json!({ "kind": "approval", "question": text });
            open(session, asked, to).await
        }
    }
}

async fn inbox(session: &Session, args: &InboxArgs) -> anyhow::Result<Outcome> {
    let mut query = page_query(&args.page);
    if !args.all {
        query.push(("status", RequestStatus::Open.as_str().to_owned()));
        query.push(("snoozed", args.snoozed.to_string()));
    }
    query.extend(args.kind.clone().map(|kind| ("kind", kind)));
    query.extend(args.assignee.clone().map(|name| ("assignee", name)));
    query.extend(args.priority.clone().map(|one| ("priority", one)));
    let answer: Body<Page<RequestView>> = session.client.get("requests", &query).await?;
    let heading = [
        "REQUEST", "KIND", "STATUS", "FOR", "QUESTION", "ANSWERS", "UNTIL",
    ];
    list(session, &answer, &heading, |request| {
        let whom = if let Some(name) = &request.assignee {
            format!("@user.{name}")
        } else if request.to.is_empty() {
            "owners".to_owned()
        } else {
            request.to.join(", ")
        };
        vec![
            request.id.to_string(),
            request.kind.to_string(),
            request.status.as_str().to_owned(),
            whom,
            // A task is known by its title, not by what is said about it.
            request
                .task
                .as_ref()
                .map_or_else(|| request.question.clone(), |task| task.title.clone()),
            request.options.join(" | "),
            request.deadline.map(instant).unwrap_or_default(),
        ]
    })
}

/// A form is answered by an object; anything else is a text.
fn read_answer(text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(form @ Value::Object(_)) => form,
        Ok(_) | Err(_) => Value::String(text),
    }
}

fn set(body: &mut Value, name: &str, value: Value) {
    if let Some(fields) = body.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// What is asked, with whom and how long. What happens when time is up is its kind's to say, but for a
/// script that waits: that is told.
fn put_to(mut body: Value, to: &ToArgs) -> Value {
    set(&mut body, "priority", json!(to.priority()));
    let assign = to.assign.as_deref().map(|word| word.replace('-', "_"));
    let more = [
        ("to", (!to.to.is_empty()).then(|| json!(to.to))),
        ("policy", (!to.policy.is_empty()).then(|| json!(to.policy))),
        ("timeout", to.timeout.as_ref().map(|text| json!(text))),
        ("title", to.title.as_ref().map(|text| json!(text))),
        ("assign", assign.map(|word| json!(word))),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            set(&mut body, name, value);
        }
    }
    let on_timeout = to.on_timeout.as_deref();
    if let Some(word) = on_timeout.or(to.wait.then_some("fail")) {
        set(&mut body, "on_timeout", json!(word));
    }
    body
}

async fn open(session: &Session, asked: Value, to: &ToArgs) -> anyhow::Result<Outcome> {
    let body = put_to(asked, to);
    let opened: Body<Opened> = session.client.post("holds", &body).await?;
    if to.wait {
        return until_closed(session, &opened.value).await;
    }
    show(session, &opened, open_until)
}

fn open_until(opened: &Opened) -> String {
    let until = opened.deadline.map(instant).unwrap_or_default();
    format!("{}  {}  open until {until}", opened.id, opened.kind)
}

/// Looks at a hold until it is closed; a lost connection is looked past for a while.
async fn until_closed(session: &Session, opened: &Opened) -> anyhow::Result<Outcome> {
    output::note(&format!(
        "{} is open; waiting (ctrl-c leaves it open)",
        opened.id
    ));
    let path = format!("holds/{}", opened.id);
    let query = [("wait", LOOK.to_owned())];
    loop {
        let hold: Body<RequestView> = session.client.get(&path, &query).await?;
        if hold.value.status.is_open() {
            continue;
        }
        show(session, &hold, closing)?;
        return Ok(exit_of(hold.value.outcome));
    }
}

fn closing(hold: &RequestView) -> String {
    let outcome = hold.outcome.map_or("withdrawn", HoldOutcome::as_str);
    let by = hold
        .decided_by
        .as_deref()
        .map(|by| format!(" by {by}"))
        .unwrap_or_default();
    match &hold.response {
        Some(Value::String(text)) => format!("{outcome}{by}: {text}"),
        Some(Value::Null) | None => format!("{outcome}{by}"),
        Some(other) => format!("{outcome}{by}: {other}"),
    }
}

/// How the process ends: `&& ./deploy` goes on only after a yes.
fn exit_of(outcome: Option<HoldOutcome>) -> Outcome {
    match outcome {
        Some(
            HoldOutcome::Approved
            | HoldOutcome::Answered
            | HoldOutcome::Completed
            | HoldOutcome::TakenOver
            | HoldOutcome::Fired,
        ) => Outcome::Ok,
        Some(HoldOutcome::Rejected) => Outcome::Rejected,
        Some(HoldOutcome::Timeout) => Outcome::TimedOut,
        Some(HoldOutcome::Cancelled) | None => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API, `on_timeout`: nothing said, a hold ends as its kind does; never an approval as a silent no.
    #[test]
    fn what_happens_when_time_is_up_is_the_kinds_to_say_unless_a_script_waits() {
        let to = |wait, on_timeout: Option<&str>| ToArgs {
            to: Vec::new(),
            timeout: None,
            on_timeout: on_timeout.map(str::to_owned),
            priority: None,
            title: None,
            assign: None,
            policy: Vec::new(),
            wait,
        };
        for (wait, said, sent) in [
            (false, None, None),
            (true, None, Some("fail")),
            (false, Some("continue"), Some("continue")),
            (true, Some("escalate"), Some("escalate")),
        ] {
            let body = put_to(json!({ "kind": "approval" }), &to(wait, said));
            assert_eq!(body.get("on_timeout").and_then(Value::as_str), sent);
            assert_eq!(body["kind"], "approval");
            assert_eq!(
                body.get("timeout"),
                None,
                "its policies, or its kind, say how long"
            );
        }
        let said = ToArgs {
            title: Some("Deploy".to_owned()),
            assign: Some("least-loaded".to_owned()),
            policy: vec!["on-call".to_owned()],
            ..to(false, None)
        };
        let body = put_to(json!({}), &said);
        let expected = json!({
            "title": "Deploy", "assign": "least_loaded", "policy": ["on-call"], "priority": "normal",
        });
        assert_eq!(body, expected);
    }

    /// M-6: the exit code says the outcome.
    #[test]
    fn only_a_yes_lets_a_script_go_on() {
        let code = |outcome| exit_of(Some(outcome)).code();
        assert_eq!(code(HoldOutcome::Approved), 0);
        assert_eq!(code(HoldOutcome::Rejected), 4);
        assert_eq!(code(HoldOutcome::Timeout), 5);
        assert_eq!(code(HoldOutcome::Cancelled), 1);
        assert_eq!(exit_of(None).code(), 1);
    }
}
