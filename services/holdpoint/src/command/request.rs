//! Requests and standalone holds (M-6).
//!
//! `holdpoint approve "Deploy 4.2?" --to @role.ops --wait && ./deploy` opens a hold that does not
//! belong to a run and waits for the decision; the exit code is the outcome.

mod act_on_request;
mod ask_as_step;
mod open_hold;
mod show;

use anyhow::bail;
use holdpoint_contracts::handoff::{RequestStatus, RequestView};
use holdpoint_contracts::tool::START_PLAN;
use serde_json::json;

pub(crate) use self::open_hold::OpenedHold;
use self::open_hold::{open, wait_until_closed};
use super::{ClientCommand, Session, add_options, cells, instant, page_query, short_args};
use crate::cli::requests::{
    ApproveArgs, AskArgs, InboxArgs, RequestCommand, RequestRefs, ShowCommand,
};
use crate::client::Body;
use crate::exit::{ExitKind, Usage};

/// Prefix of every id of a request.
const HOLD_PREFIX: &str = "hold_";

impl ClientCommand for RequestCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Inbox(args) => inbox(session, args).await,
            Self::Request(ShowCommand::Show { request }) => show::show(session, &request).await,
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
    add_options(&mut body, ask_as_step::form_of_answer(&args));
    open(session, body, &args.hold).await
}

/// Approves requests by id, or opens an approval with a text. Options that only fit the other form are
/// refused: a script that said `--wait` must not continue without an approval.
async fn approve(session: &Session, args: ApproveArgs) -> anyhow::Result<ExitKind> {
    if let Some(error) = approve_error(&args) {
        bail!(Usage(error));
    }
    let ApproveArgs {
        ids_or_text,
        options,
        comment,
        args,
        digest,
        hold,
    } = args;
    if let Some(text) = ids_or_text.iter().find(|text| !is_id(text)) {
        let body = json!({ "kind": "approval", "question": text });
        return open(session, body, &hold).await;
    }
    let refs = RequestRefs {
        requests: ids_or_text,
        options,
    };
    let mut body = json!({ "comment": comment });
    add_options(&mut body, json!({ "edited_args": args, "digest": digest }));
    act_on_request::decide(session, &refs, "approve", body).await
}

fn is_id(text: &str) -> bool {
    text.starts_with(HOLD_PREFIX)
}

/// Why these arguments of `approve` do not fit together.
fn approve_error(args: &ApproveArgs) -> Option<String> {
    let ApproveArgs {
        ids_or_text,
        options,
        comment,
        args,
        digest,
        hold,
    } = args;
    let is_of_call = args.is_some() || digest.is_some();
    let has_id_option =
        is_of_call || comment.is_some() || !options.seen.is_empty() || options.all_or_none;
    let is_id_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let text = ids_or_text.iter().find(|text| !is_id(text));
    match text {
        Some(text) if ids_or_text.len() > 1 => Some(format!(
            "`{text}` is not an id of a request; give only ids, or one text in quotes"
        )),
        // A mistyped id must not become the text of a new approval.
        Some(text) if text.chars().all(is_id_char) => Some(format!(
            "`{text}` is not an id of a request; write the text of a new approval as a sentence"
        )),
        Some(_) if has_id_option => Some(
            "--comment, --args, --digest, --version and --all-or-none need the id of a request; put \
             everything that the approvers must know into the text"
                .to_owned(),
        ),
        None if hold.is_set() => Some(format!(
            "`{}` is a request, which you approve now; omit --wait, --to, --timeout, --on-timeout, \
             --priority, --title, --assign and --policy, or give a text instead of an id",
            ids_or_text.first().map_or("", String::as_str)
        )),
        None if is_of_call && ids_or_text.len() > 1 => Some(format!(
            "--args and --digest are about one call; give one id instead of {}",
            ids_or_text.len()
        )),
        Some(_) | None => None,
    }
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

fn inbox_row(it: &RequestView) -> [String; 7] {
    let assignee = it.assignee.as_ref().map(|name| format!("@user.{name}"));
    let recipients = assignee.unwrap_or_else(|| show::recipients(it));
    let question = question_text(it);
    let (options, until) = (it.options.join(" | "), it.deadline.map(instant));
    cells![
        it.id, it.kind, it.status, recipients, question, options, until
    ]
}

/// The call that an approval decides, with its arguments. The title of a task says more than its question.
fn question_text(it: &RequestView) -> String {
    let Some(call) = it.items.first() else {
        let task = it.task.as_ref();
        return task.map_or(&it.question, |task| &task.title).clone();
    };
    if call.tool.as_str() == START_PLAN {
        return it.question.clone();
    }
    format!("Call {} with {}", call.tool, short_args(&call.args))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &[&str]) -> ApproveArgs {
        ApproveArgs {
            ids_or_text: words.iter().map(ToString::to_string).collect(),
            options: crate::cli::requests::DecisionOptions {
                seen: Vec::new(),
                all_or_none: false,
            },
            comment: None,
            args: Some(json!({ "amount": 125 })),
            digest: None,
            hold: crate::cli::requests::HoldOptions::default(),
        }
    }

    /// S2-R4: edited arguments belong to one call.
    #[test]
    fn edited_arguments_need_one_id() {
        assert_eq!(approve_error(&given(&["hold_1"])), None);
        let many = approve_error(&given(&["hold_1", "hold_2"]));
        assert!(many.is_some_and(|error| error.contains("give one id instead of 2")));
        let text = approve_error(&given(&["Deploy 4.2?"]));
        assert!(text.is_some_and(|error| error.contains("--args, --digest")));
    }

    /// S2-R3: the list shows the call, at a bounded length.
    #[test]
    fn an_approval_is_listed_with_its_call() {
        let mut request = json!({
            "id": "hold_0193aaaabbbb7ccc8dddeeeeeeeeeeee-1", "kind": "approval", "status": "open",
            "version": 1, "to": [], "question": "Agent refund wants to call payments.refund.",
            "options": [], "context": null, "on_timeout": "escalate", "actions": [], "late": [],
            "created_at": "2026-01-01T00:00:00Z",
        });
        let text = |request: &serde_json::Value| {
            let view: RequestView = serde_json::from_value(request.clone()).unwrap();
            question_text(&view)
        };
        assert_eq!(
            text(&request),
            "Agent refund wants to call payments.refund."
        );
        let call = |order: &str| {
            json!([{ "id": "step-02", "tool": "payments.refund", "digest": "d",
                "args": { "order": order } }])
        };
        request["items"] = call("o-17");
        assert_eq!(
            text(&request),
            r#"Call payments.refund with {"order":"o-17"}"#
        );
        request["items"] = call(&"ü".repeat(1_000));
        let long = text(&request);
        assert!(long.ends_with('…') && long.chars().count() < 200);
        // The question says how many steps a plan has.
        request["items"][0]["tool"] = json!("start_plan");
        assert_eq!(
            text(&request),
            "Agent refund wants to call payments.refund."
        );
    }
}
