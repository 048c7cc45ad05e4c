//! A contact has replied (S0-AC7): what they said is added to what is known of them, and conditions see
//! it at the next wake.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::contact::{Activity, ActivityKind};
use holdpoint_contracts::executor::{AddActivity, ListContacts};
use holdpoint_ids::ContactId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::signed::Signed;
use crate::app::App;
use crate::body::{from_json, invalid_field};
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::ApiError;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyBody {
    /// Either this, or `from`.
    #[serde(default)]
    contact: Option<ContactId>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    subject: Option<String>,
    text: String,
    #[serde(default)]
    sentiment: Option<Sentiment>,
    #[serde(default, with = "holdpoint_contracts::instant::option")]
    at: Option<DateTime<Utc>>,
}

/// How a reply sounds.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Sentiment {
    Positive,
    Neutral,
    Negative,
}

/// 200 with the contact; the same `webhook-id` again is done once and answered alike.
pub(super) async fn take(
    State(app): State<App>,
    params: Params,
    signed: Signed,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    let Signed { caller, key, bytes } = signed;
    let reply: ReplyBody = from_json(&bytes)?;
    if reply.text.trim().is_empty() {
        return Err(ApiError(invalid_field("/text", "there is nothing in it")));
    }
    let contact = contact(&app, &caller, &reply).await?;
    let mut patch = Map::from_iter([("replied".to_owned(), Value::Bool(true))]);
    patch.extend(
        reply
            .sentiment
            .map(|sentiment| ("sentiment".to_owned(), json!(sentiment))),
    );
    let command = AddActivity {
        contact: contact.clone(),
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
        404 => unknown(&problem.detail),
        _ => problem,
    })?;
    Ok(answered.respond(|_| Json(json!({ "recorded": true, "contact": contact })).into_response()))
}

/// Who has replied: by id, or the one contact with that address.
async fn contact(app: &App, caller: &Caller, reply: &ReplyBody) -> Result<ContactId, Problem> {
    let from = match (&reply.contact, &reply.from) {
        (Some(contact), None) => return Ok(contact.clone()),
        (None, Some(from)) => from,
        (Some(_), Some(_)) | (None, None) => {
            return Err(invalid_field(
                "/contact",
                "say `contact` or `from`, one of the two",
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
            "several contacts have this address: say which by `contact`",
        )),
        (None, _) => Err(unknown("no contact has this address")),
    }
}

fn unknown(detail: &str) -> Problem {
    let detail = format!("{detail}: add the contact first (`PUT /contacts/{{id}}`)");
    Problem::new(422, "unknown_contact", detail)
}
