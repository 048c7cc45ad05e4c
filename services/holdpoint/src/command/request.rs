//! Requests and standalone holds (M-6).
//!
//! `holdpoint approve "Deploy 4.2?" --to @role.ops --wait && ./deploy` opens a hold that does not
//! belong to a run and waits for the decision; the exit code is the outcome.

mod act_on_request;
mod ask_as_step;

use anyhow::bail;
use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{RequestStatus, RequestView};
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_ids::HoldId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClientCommand, Session, instant, page_query, set_fields};
use crate::cli::{ApproveArgs, AskArgs, HoldOptions, InboxArgs, RequestCommand};
use crate::client::Body;
use crate::exit::{ExitKind, Usage};
use crate::output;

/// Longest time that one long poll of a hold takes at the server.
const LONG_POLL: &str = "30s";

/// Prefix of every id of a request.
const HOLD_PREFIX: &str = "hold_";

#[derive(Debug, Deserialize)]
struct OpenedHold {
    id: HoldId,
    kind: String,
    deadline: Option<DateTime<Utc>>,
}

impl ClientCommand for RequestCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Inbox(args) => inbox(session, args).await,
            Self::Approve(args) => approve(session, args).await,
            Self::Act(command) => act_on_request::perform(session, command).await,
            Self::HandOff { message, hold } => {
                let body = json!({ "kind": "handoff", "question": message });
                open(session, body, &hold).await
            }
            Self::Ask(args) if session.is_step() => ask_as_step::ask(session, args).await,
            Self::Ask(args) => ask(session, args).await,
            Self::Wait { duration, detach } => {
                let body = json!({ "kind": "timer", "wait": duration });
                let opened: Body<OpenedHold> = session.client.post("holds", &body).await?;
                if detach {
                    return session.show(&opened, |opened| opened.id.to_string());
                }
                wait_until_closed(session, &opened.value).await
            }
        }
    }
}

async fn ask(session: &Session, args: AskArgs) -> anyhow::Result<ExitKind> {
    ask_as_step::refuse_step_options(&args.step)?;
    let mut body = json!({ "kind": "input", "question": args.question });
    let link = ask_as_step::link(args.link, args.link_label);
    let has_options = link.is_none() && args.schema.is_none();
    let fields = [
        ("options", has_options.then(|| json!(args.options))),
        ("link", link),
        ("schema", args.schema),
        ("default", args.default.map(parse_answer)),
    ];
    set_fields(&mut body, fields);
    open(session, body, &args.hold).await
}

/// Approves requests by id, or opens an approval with a text. Options that only fit the other form are
/// refused: a script that said `--wait` must not continue without an approval.
async fn approve(session: &Session, args: ApproveArgs) -> anyhow::Result<ExitKind> {
    let ApproveArgs {
        ids_or_text,
        options,
        comment,
        hold,
    } = args;
    let is_id = |text: &&String| text.starts_with(HOLD_PREFIX);
    let text = ids_or_text.iter().find(|text| !is_id(text));
    let has_id_option = comment.is_some() || !options.seen.is_empty() || options.all_or_none;
    let error = match text {
        Some(text) if ids_or_text.len() > 1 => Some(format!(
            "`{text}` is not an id of a request; give only ids, or one text in quotes"
        )),
        Some(_) if has_id_option => Some(
            "--comment, --version and --all-or-none need the id of a request; put everything that the \
             approvers must know into the text"
                .to_owned(),
        ),
        None if hold.is_set() => Some(format!(
            "`{}` is a request, which you approve now; omit --wait, --to, --timeout, --on-timeout, \
             --priority, --title, --assign and --policy, or give a text instead of an id",
            ids_or_text.first().map_or("", String::as_str)
        )),
        Some(_) | None => None,
    };
    if let Some(error) = error {
        bail!(Usage(error));
    }
    if let Some(text) = text {
        let body = json!({ "kind": "approval", "question": text });
        return open(session, body, &hold).await;
    }
    let decision = act_on_request::Action::new("approve", json!({ "comment": comment }));
    act_on_request::decide(session, &ids_or_text, &options, decision).await
}

async fn inbox(session: &Session, args: InboxArgs) -> anyhow::Result<ExitKind> {
    let mut query = page_query(&args.page);
    if !args.all {
        query.push(("status", RequestStatus::Open.as_str().to_owned()));
        query.push(("snoozed", args.snoozed.to_string()));
    }
    query.extend(args.kind.map(|kind| ("kind", kind)));
    query.extend(args.assignee.map(|name| ("assignee", name)));
    query.extend(args.priority.map(|priority| ("priority", priority)));
    let heading = [
        "REQUEST", "KIND", "STATUS", "FOR", "QUESTION", "ANSWERS", "UNTIL",
    ];
    session.list("requests", &query, heading, inbox_row).await
}

fn inbox_row(request: &RequestView) -> [String; 7] {
    let recipients = if let Some(name) = &request.assignee {
        format!("@user.{name}")
    } else if request.to.is_empty() {
        "owners".to_owned()
    } else {
        request.to.join(", ")
    };
    // The title of a task says more than its question.
    let task = request.task.as_ref();
    [
        request.id.to_string(),
        request.kind.to_string(),
        request.status.as_str().to_owned(),
        recipients,
        task.map_or(&request.question, |task| &task.title).clone(),
        request.options.join(" | "),
        request.deadline.map(instant).unwrap_or_default(),
    ]
}

/// A JSON object answers a form; anything else is a text.
fn parse_answer(text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(form @ Value::Object(_)) => form,
        Ok(_) | Err(_) => Value::String(text),
    }
}

/// Adds the options to the body. Without `--on-timeout` the kind of the hold decides what a timeout
/// does, except for a script that waits: it must get an error.
fn with_options(mut body: Value, hold: &HoldOptions) -> Value {
    let assign = hold.assign.as_deref().map(|word| word.replace('-', "_"));
    let on_timeout = hold.on_timeout.as_deref();
    let on_timeout = on_timeout.or(hold.wait.then_some("fail"));
    let fields = [
        ("priority", Some(json!(hold.priority()))),
        ("to", (!hold.to.is_empty()).then(|| json!(hold.to))),
        (
            "policy",
            (!hold.policy.is_empty()).then(|| json!(hold.policy)),
        ),
        ("timeout", hold.timeout.as_deref().map(Value::from)),
        ("title", hold.title.as_deref().map(Value::from)),
        ("assign", assign.map(Value::from)),
        ("on_timeout", on_timeout.map(Value::from)),
    ];
    set_fields(&mut body, fields);
    body
}

async fn open(session: &Session, body: Value, hold: &HoldOptions) -> anyhow::Result<ExitKind> {
    let body = with_options(body, hold);
    let opened: Body<OpenedHold> = session.client.post("holds", &body).await?;
    if hold.wait {
        return wait_until_closed(session, &opened.value).await;
    }
    session.show(&opened, opened_text)
}

fn opened_text(opened: &OpenedHold) -> String {
    let until = opened.deadline.map(instant).unwrap_or_default();
    format!("{}  {}  open until {until}", opened.id, opened.kind)
}

async fn wait_until_closed(session: &Session, opened: &OpenedHold) -> anyhow::Result<ExitKind> {
    let id = opened.id;
    output::note(&format!(
        "{id} is open; waiting (it stays open after ctrl-c)"
    ));
    let (path, query) = (format!("holds/{id}"), [("wait", LONG_POLL.to_owned())]);
    loop {
        let hold: Body<RequestView> = session.client.get(&path, &query).await?;
        if !hold.value.status.is_open() {
            session.show(&hold, closed_text)?;
            return Ok(exit_of(hold.value.outcome));
        }
    }
}

fn closed_text(hold: &RequestView) -> String {
    let outcome = hold.outcome.map_or("withdrawn", HoldOutcome::as_str);
    let by = hold.decided_by.as_deref().map(|by| format!(" by {by}"));
    let by = by.unwrap_or_default();
    match &hold.response {
        Some(Value::String(text)) => format!("{outcome}{by}: {text}"),
        Some(Value::Null) | None => format!("{outcome}{by}"),
        Some(other) => format!("{outcome}{by}: {other}"),
    }
}

/// `&& ./deploy` continues only after a positive outcome.
const fn exit_of(outcome: Option<HoldOutcome>) -> ExitKind {
    match outcome {
        Some(
            HoldOutcome::Approved
            | HoldOutcome::Answered
            | HoldOutcome::Completed
            | HoldOutcome::TakenOver
            | HoldOutcome::Fired,
        ) => ExitKind::Ok,
        Some(HoldOutcome::Rejected) => ExitKind::Rejected,
        Some(HoldOutcome::Timeout) => ExitKind::TimedOut,
        Some(HoldOutcome::Cancelled) | None => ExitKind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API, `on_timeout`: without the option the kind of the hold decides; an approval never becomes a silent no.
    #[test]
    fn the_kind_decides_what_a_timeout_does_unless_a_script_waits() {
        let options = |wait, on_timeout: Option<&str>| HoldOptions {
            to: Vec::new(),
            timeout: None,
            on_timeout: on_timeout.map(str::to_owned),
            priority: None,
            title: None,
            assign: None,
            policy: Vec::new(),
            wait,
        };
        for (wait, given, sent) in [
            (false, None, None),
            (true, None, Some("fail")),
            (false, Some("continue"), Some("continue")),
            (true, Some("escalate"), Some("escalate")),
        ] {
            let body = with_options(json!({ "kind": "approval" }), &options(wait, given));
            assert_eq!(body.get("on_timeout").and_then(Value::as_str), sent);
            assert_eq!(body["kind"], "approval");
            assert_eq!(body.get("timeout"), None, "its policies or its kind decide");
        }
        let given = HoldOptions {
            title: Some("Deploy".to_owned()),
            assign: Some("least-loaded".to_owned()),
            policy: vec!["on-call".to_owned()],
            ..options(false, None)
        };
        let body = with_options(json!({}), &given);
        let expected = json!({
            "title": "Deploy", "assign": "least_loaded", "policy": ["on-call"], "priority": "normal",
        });
        assert_eq!(body, expected);
    }

    /// M-6: the exit code is the outcome.
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
