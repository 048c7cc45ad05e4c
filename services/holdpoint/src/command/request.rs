//! Requests and standalone holds (M-6).
//!
//! `holdpoint approve "Deploy 4.2?" --to @role.ops --wait && ./deploy` opens a hold that does not
//! belong to a run and waits for the decision; the exit code is the outcome.

mod act_on_request;
mod ask_as_step;
mod open_hold;

use anyhow::bail;
use holdpoint_contracts::handoff::{RequestStatus, RequestView};
use serde_json::json;

pub(crate) use self::open_hold::OpenedHold;
use self::open_hold::{open, wait_until_closed};
use super::{ClientCommand, Session, add_options, api_text, cells, instant, page_query};
use crate::cli::requests::{ApproveArgs, AskArgs, InboxArgs, RequestCommand, RequestRefs};
use crate::client::Body;
use crate::exit::{ExitKind, Usage};

/// Prefix of every id of a request.
const HOLD_PREFIX: &str = "hold_";

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
    add_options(&mut body, ask_as_step::form_of_answer(&args));
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
    let is_id_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let text = ids_or_text.iter().find(|text| !is_id(text));
    let has_id_option = comment.is_some() || !options.seen.is_empty() || options.all_or_none;
    let error = match text {
        Some(text) if ids_or_text.len() > 1 => Some(format!(
            "`{text}` is not an id of a request; give only ids, or one text in quotes"
        )),
        // A mistyped id must not become the text of a new approval.
        Some(text) if text.chars().all(is_id_char) => Some(format!(
            "`{text}` is not an id of a request; write the text of a new approval as a sentence"
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
    let refs = RequestRefs {
        requests: ids_or_text,
        options,
    };
    act_on_request::decide(session, &refs, "approve", json!({ "comment": comment })).await
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
    let recipients = if let Some(name) = &it.assignee {
        format!("@user.{name}")
    } else if it.to.is_empty() {
        "owners".to_owned()
    } else {
        api_text(&it.to)
    };
    // The title of a task says more than its question.
    let task = it.task.as_ref();
    let question = task.map_or(&it.question, |task| &task.title);
    let (options, until) = (it.options.join(" | "), it.deadline.map(instant));
    cells![
        it.id, it.kind, it.status, recipients, question, options, until
    ]
}
