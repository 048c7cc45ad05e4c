//! `POST /hooks/inbound/{name}`: the reply of a contact (S0-AC7). It is stored with the contact, and conditions use
//! it when their run wakes. A reply without a contact is kept for a person.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::contact::{
    ACTIVITY_CHARS_MAX, Activity, ActivityKind, MESSAGE_ID_BYTES_MAX, SUBJECT_CHARS_MAX,
    read_message_id,
};
use holdpoint_contracts::executor::{AddActivity, ListContacts};
use holdpoint_contracts::form::plain;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{ContactId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::signature::SignedMessage;
use crate::app::App;
use crate::body::{self, from_json, invalid_field};
use crate::command_outcome::CommandOutcome;
use crate::params::NoParams;
use crate::problem::{ApiError, ApiResult, key_reused};
use crate::store::unmatched_replies::{self, InboundReply, NewReply, Sentiment, Stored};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyBody {
    /// Wins over `in_reply_to`, which wins over `from`. One of them is required.
    contact: Option<ContactId>,
    from: Option<String>,
    /// Of the mail.
    message_id: Option<String>,
    /// Of the mail that it answers, or of all mails of its thread.
    in_reply_to: Option<String>,
    subject: Option<String>,
    text: String,
    sentiment: Option<Sentiment>,
    #[serde(default, with = "holdpoint_contracts::instant::option")]
    at: Option<DateTime<Utc>>,
}

/// Longest `from`, in characters: the longest mail address (RFC 3696).
const FROM_CHARS_MAX: usize = 320;

/// Message-IDs of a thread that count, the newest.
const THREAD_IDS_MAX: usize = 5;

/// How far the clock of a mail may be ahead.
const CLOCK_AHEAD_MAX: TimeDelta = TimeDelta::days(1);

#[derive(Debug, Serialize)]
pub(super) struct Recorded {
    recorded: bool,
    contact: ContactId,
}

impl Recorded {
    pub(super) const fn of(contact: ContactId) -> Self {
        Self {
            recorded: true,
            contact,
        }
    }
}

/// A repeated `message_id` or, without one, `webhook-id` is recorded once and gets the same answer.
pub(super) async fn record_reply(
    State(app): State<App>,
    _: NoParams,
    message: SignedMessage,
) -> ApiResult<Response> {
    let SignedMessage {
        caller,
        hook,
        key,
        bytes,
    } = message;
    let (contact, reply) = read_reply(from_json(&bytes)?, app.clock.now())?;
    let workspace = &caller.workspace;
    let key = match &reply.message_id {
        Some(id) => message_key(workspace, id),
        None => key,
    };
    let unmatched = match unmatched_replies::find_by_key(&app.writer, &key).await? {
        Some((digest, _)) if digest != key.digest => return Err(ApiError(key_reused())),
        Some((_, Stored::Assigned(contact))) => return Ok(recorded(contact)),
        Some((_, Stored::Listed(listed))) => Some(listed.id),
        Some((_, Stored::Removed(_))) | None => None,
    };
    let contact = match contact {
        Some(contact) => Some(contact),
        None => find_contact(&app, workspace, &reply).await?,
    };
    let Some(contact) = contact else {
        let new = NewReply {
            workspace,
            hook: &hook,
            key: &key,
            reply: &reply,
            received_at: app.clock.now(),
        };
        let id = unmatched_replies::add(&app.writer, &new).await?;
        let body = Json(json!({ "recorded": false, "unmatched": id }));
        return Ok((StatusCode::ACCEPTED, body).into_response());
    };
    let command = activity_of(&key, &contact, reply);
    let answered = app.command(&caller, Some(key), command).await;
    let answered = answered.map_err(or_unknown_contact)?;
    if let (Some(id), CommandOutcome::Done(contact)) = (unmatched, &answered) {
        unmatched_replies::close(&app.writer, workspace, id, Some(&contact.id)).await?;
    }
    Ok(answered.respond(|contact| recorded(contact.id)))
}

fn recorded(contact: ContactId) -> Response {
    Json(Recorded::of(contact)).into_response()
}

/// The contact that the program names, and the reply with texts that are bounded and plain.
fn read_reply(
    body: ReplyBody,
    now: DateTime<Utc>,
) -> Result<(Option<ContactId>, InboundReply), Problem> {
    if body.text.trim().is_empty() {
        return Err(invalid_field("/text", "must not be empty"));
    }
    if body.contact.is_none() && body.from.is_none() && body.in_reply_to.is_none() {
        let message = "must be given, or else `from` or `in_reply_to`";
        return Err(invalid_field("/contact", message));
    }
    let subject = body.subject.unwrap_or_default();
    for (name, text, most) in [
        ("text", &body.text, ACTIVITY_CHARS_MAX),
        ("subject", &subject, SUBJECT_CHARS_MAX),
    ] {
        if text.chars().count() > most {
            let detail = format!("`{name}` has more than {most} characters");
            return Err(Problem::new(413, "too_large", detail));
        }
    }
    let is_address =
        |text: &str| text.chars().count() <= FROM_CHARS_MAX && !text.chars().any(char::is_control);
    if body.from.as_deref().is_some_and(|from| !is_address(from)) {
        let message = format!("must have at most {FROM_CHARS_MAX} characters without line breaks");
        return Err(invalid_field("/from", &message));
    }
    let reply = InboundReply {
        from: body.from,
        subject: Some(plain(&subject)).filter(|subject| !subject.is_empty()),
        text: plain(&body.text),
        message_id: read_id(body.message_id.as_deref())?,
        in_reply_to: read_thread(&body.in_reply_to.unwrap_or_default()),
        sentiment: body.sentiment,
        at: read_instant(body.at, now)?,
    };
    Ok((body.contact, reply))
}

/// A provider may send an empty text for a header that the mail does not have.
fn read_id(id: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(id) = id.filter(|id| !id.trim().is_empty()) else {
        return Ok(None);
    };
    let message =
        || format!("must have 1 to {MESSAGE_ID_BYTES_MAX} bytes without control characters");
    let read = read_message_id(id).ok_or_else(|| invalid_field("/message_id", &message()))?;
    Ok(Some(read.to_owned()))
}

/// The last Message-IDs of a header `In-Reply-To` or `References`, separated by spaces. The header is a hint, so other
/// words are ignored.
fn read_thread(header: &str) -> Option<String> {
    let words = header.split(|c: char| c.is_whitespace() || c == '>' || c == '<');
    let ids = words.filter_map(read_message_id);
    let mut last: Vec<_> = ids.filter(|id| id.contains('@')).collect();
    last.drain(..last.len().saturating_sub(THREAD_IDS_MAX));
    (!last.is_empty()).then(|| last.join(" "))
}

fn read_instant(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Result<DateTime<Utc>, Problem> {
    let at = at.unwrap_or(now);
    if (DateTime::UNIX_EPOCH..=now + CLOCK_AHEAD_MAX).contains(&at) {
        Ok(at)
    } else {
        Err(invalid_field("/at", "must be between 1970 and tomorrow"))
    }
}

/// The key of a mail. Providers post it again with other headers and another text, so only its id counts.
fn message_key(workspace: &Workspace, id: &str) -> IdempotencyKey {
    let key = body::scoped(&[workspace.as_str(), "message", id]);
    IdempotencyKey {
        digest: key.clone(),
        key,
    }
}

/// The contact to whom the answered mail was sent, or else the only one with the address.
async fn find_contact(
    app: &App,
    workspace: &Workspace,
    reply: &InboundReply,
) -> Result<Option<ContactId>, Problem> {
    let contacts = async |message_ids: Vec<String>, email: Option<String>| {
        let query = ListContacts {
            limit: 2,
            cursor: None,
            email,
            message_ids,
        };
        let found = app.bus.query(workspace, &query).await?.items.into_iter();
        Ok::<Vec<_>, Problem>(found.map(|contact| contact.id).collect())
    };
    let thread = reply.in_reply_to.as_deref().unwrap_or_default();
    let ids: Vec<_> = thread.split_whitespace().map(str::to_owned).collect();
    if !ids.is_empty()
        && let [contact] = contacts(ids, None).await?.as_slice()
    {
        return Ok(Some(contact.clone()));
    }
    let Some(from) = &reply.from else {
        return Ok(None);
    };
    // If several contacts have the address, a person assigns the reply.
    match contacts(Vec::new(), Some(from.clone())).await?.as_slice() {
        [contact] => Ok(Some(contact.clone())),
        [] | [..] => Ok(None),
    }
}

/// The command that records a reply: it adds an activity, and sets `replied` and `sentiment`.
pub(super) fn activity_of(
    key: &IdempotencyKey,
    contact: &ContactId,
    reply: InboundReply,
) -> AddActivity {
    let mut patch = Map::from_iter([("replied".to_owned(), Value::Bool(true))]);
    let sentiment = reply.sentiment;
    patch.extend(sentiment.map(|sentiment| ("sentiment".to_owned(), json!(sentiment))));
    AddActivity {
        contact: contact.clone(),
        id: key.key.clone(),
        activity: Activity {
            kind: ActivityKind::EmailIn,
            subject: reply.subject,
            text: reply.text,
            at: reply.at,
            message_id: reply.message_id,
        },
        patch,
    }
}

pub(super) fn or_unknown_contact(problem: Problem) -> Problem {
    if problem.status != 404 {
        return problem;
    }
    let detail = format!(
        "{}; create the contact first (`PUT /contacts/{{id}}`)",
        problem.detail
    );
    Problem::new(422, "unknown_contact", detail)
}
