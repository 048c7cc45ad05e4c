//! `POST /hooks/inbound/{name}`: the reply of a contact (S0-AC7). It is stored with the contact, and conditions use
//! it when their run wakes.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use holdpoint_contracts::contact::{Activity, ActivityKind};
use holdpoint_contracts::executor::{AddActivity, ListContacts};
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{ContactId, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::signature::SignedMessage;
use crate::app::App;
use crate::auth::caller::Caller;
use crate::body::{self, from_json, invalid_field};
use crate::params::NoParams;
use crate::problem::{ApiError, ApiResult};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyBody {
    /// Either this or `from`.
    contact: Option<ContactId>,
    from: Option<String>,
    /// Of the mail.
    message_id: Option<String>,
    subject: Option<String>,
    text: String,
    sentiment: Option<Sentiment>,
    #[serde(default, with = "holdpoint_contracts::instant::option")]
    at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Sentiment {
    Positive,
    Neutral,
    Negative,
}

/// Longest `message_id`, in characters: a line of a mail (RFC 5322).
const MESSAGE_ID_CHARS_MAX: usize = 998;

/// A repeated `message_id` or, without one, `webhook-id` is recorded once and gets the same answer.
pub(super) async fn record_reply(
    State(app): State<App>,
    _: NoParams,
    message: SignedMessage,
) -> ApiResult<Response> {
    let SignedMessage { caller, key, bytes } = message;
    let reply: ReplyBody = from_json(&bytes)?;
    if reply.text.trim().is_empty() {
        return Err(ApiError(invalid_field("/text", "must not be empty")));
    }
    let key = match &reply.message_id {
        Some(id) => message_key(&caller.workspace, id)?,
        None => key,
    };
    let contact = find_contact(&app, &caller, &reply).await?;
    let mut patch = Map::from_iter([("replied".to_owned(), Value::Bool(true))]);
    patch.extend(
        reply
            .sentiment
            .map(|sentiment| ("sentiment".to_owned(), json!(sentiment))),
    );
    let command = AddActivity {
        contact,
        id: key.key.clone(),
        activity: Activity {
            kind: ActivityKind::EmailIn,
            subject: reply.subject,
            text: reply.text,
            at: reply.at.unwrap_or_else(|| app.clock.now()),
        },
        patch,
    };
    let answered = app.command(&caller, Some(key), command).await;
    let answered = answered.map_err(|problem| match problem.status {
        404 => unknown_contact(&problem.detail),
        _ => problem,
    })?;
    Ok(answered.respond(|contact| {
        Json(json!({ "recorded": true, "contact": contact.id })).into_response()
    }))
}

/// The key of a mail. Providers post it again with other headers and another text, so only its id counts.
fn message_key(workspace: &Workspace, id: &str) -> Result<IdempotencyKey, Problem> {
    let id = id.trim().trim_start_matches('<').trim_end_matches('>');
    let is_valid = (1..=MESSAGE_ID_CHARS_MAX).contains(&id.chars().count());
    if !is_valid || id.chars().any(char::is_control) {
        let message =
            format!("must have 1 to {MESSAGE_ID_CHARS_MAX} characters without line breaks");
        return Err(invalid_field("/message_id", &message));
    }
    let key = body::scoped(&[workspace.as_str(), "message", id]);
    Ok(IdempotencyKey {
        digest: key.clone(),
        key,
    })
}

/// The contact with the id, or the only one with the address.
async fn find_contact(app: &App, caller: &Caller, reply: &ReplyBody) -> Result<ContactId, Problem> {
    let from = match (&reply.contact, &reply.from) {
        (Some(contact), None) => return Ok(contact.clone()),
        (None, Some(from)) => from,
        (Some(_), Some(_)) | (None, None) => {
            return Err(invalid_field(
                "/contact",
                "must be given, or else `from`, but not both",
            ));
        }
    };
    let query = ListContacts {
        limit: 2,
        cursor: None,
        email: Some(from.clone()),
    };
    let mut found = app.bus.query(&caller.workspace, &query).await?.items;
    match (found.pop(), found.is_empty()) {
        (Some(contact), true) => Ok(contact.id),
        (Some(_), false) => Err(Problem::new(
            422,
            "ambiguous_contact",
            "several contacts have this address; send `contact` instead",
        )),
        (None, _) => Err(unknown_contact("no contact has this address")),
    }
}

fn unknown_contact(detail: &str) -> Problem {
    let detail = format!("{detail}; create the contact first (`PUT /contacts/{{id}}`)");
    Problem::new(422, "unknown_contact", detail)
}
