//! `/contacts`: the people and companies that runs are about.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::contact::{Activity, ActivityKind, ContactView, TagChange};
use holdpoint_contracts::erasure::{ErasureView, GetErasure};
use holdpoint_contracts::executor::{
    AddActivity, DeleteContact, GetContact, ListActivities, ListContacts, PatchContact, PutContact,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{CommandId, ContactId};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::app::App;
use crate::auth::may::{Administer, Ask, InPerson, Operate};
use crate::auth::run_reader::RunReader;
use crate::body::invalid_field;
use crate::call::{Call, JsonBody, NoBody};
use crate::params::Params;
use crate::problem::{ApiResult, JsonResult};
use crate::use_cases::erase_contact::erase_contact;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/contacts", get(list))
        .route(
            "/contacts/{contact}",
            get(show).put(put).patch(patch).delete(remove),
        )
        .route("/contacts/{contact}/erase", post(erase))
        .route("/contacts/{contact}/erasure", get(show_erasure))
        .route(
            "/contacts/{contact}/activities",
            get(list_activities).post(add_activity),
        )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActivityBody {
    kind: ActivityKind,
    subject: Option<String>,
    #[serde(default)]
    text: String,
    #[serde(default, with = "holdpoint_contracts::instant::option")]
    at: Option<DateTime<Utc>>,
}

async fn list(reader: RunReader, params: Params) -> JsonResult<Page<ContactView>> {
    let params = params.only(&["limit", "cursor", "email"])?;
    let Some(own) = reader.own_contacts() else {
        let query = ListContacts {
            limit: params.limit()?,
            cursor: params.read_as("cursor")?,
            email: params.read_as("email")?,
            message_ids: Vec::new(),
        };
        return Ok(Json(reader.query(query).await?));
    };
    let mut items = Vec::new();
    if let Some(contact) = own.cloned() {
        items.push(reader.query(GetContact { contact }).await?);
    }
    Ok(Json(items.into()))
}

async fn show(call: Call<RunReader, ContactId>) -> JsonResult<ContactView> {
    let contact = call.id;
    call.caller.require_contact(&contact)?;
    Ok(Json(call.caller.query(GetContact { contact }).await?))
}

type FieldsCall = Call<Ask, ContactId, JsonBody<Map<String, Value>>>;

async fn put(call: FieldsCall) -> ApiResult<impl IntoResponse> {
    let fields = without_id(call.body, &call.id)?;
    let contact = call.id;
    let command = PutContact {
        contact,
        fields,
        merge: false,
        silent: false,
    };
    call.caller.command(call.key, command).await
}

/// RFC 7386.
async fn patch(call: FieldsCall) -> ApiResult<impl IntoResponse> {
    let patch = without_id(call.body, &call.id)?;
    let command = PatchContact {
        contact: call.id,
        patch,
        tags: TagChange::default(),
    };
    call.caller.command(call.key, command).await
}

async fn remove(call: Call<Operate, ContactId>) -> ApiResult<Response> {
    let contact = call.id;
    let outcome = call.caller.command(None, DeleteContact { contact }).await?;
    Ok(outcome.without_content())
}

/// Erases everything about the contact.
async fn erase(call: Call<InPerson<Administer>, ContactId>) -> ApiResult<Response> {
    let (caller, contact) = (call.caller, call.id);
    let erasure = erase_contact(&caller.app, &caller, call.key, contact).await?;
    Ok((StatusCode::ACCEPTED, Json(erasure)).into_response())
}

async fn show_erasure(call: Call<Administer, ContactId>) -> JsonResult<ErasureView> {
    call.caller.query(GetErasure { contact: call.id }).await
}

/// The last activities, newest first.
async fn list_activities(
    call: Call<RunReader, ContactId, NoBody, Params>,
) -> JsonResult<Page<Activity>> {
    let contact = call.id;
    call.caller.require_contact(&contact)?;
    let limit = call.params.only(&["limit"])?.limit()?;
    let query = ListActivities { contact, limit };
    Ok(Json(call.caller.query(query).await?))
}

/// Records something that was said to or by the contact (S0-AC7).
async fn add_activity(call: Call<Ask, ContactId, JsonBody<ActivityBody>>) -> ApiResult<Response> {
    let activity = Activity {
        kind: call.body.kind,
        subject: call.body.subject,
        text: call.body.text,
        at: call.body.at.unwrap_or_else(|| call.caller.app.clock.now()),
        message_id: None,
    };
    let command = AddActivity {
        contact: call.id,
        id: CommandId::fresh().to_string(),
        activity,
        patch: Map::new(),
    };
    let outcome = call.caller.command(call.key, command).await?;
    Ok(outcome.with_status(StatusCode::CREATED))
}

/// The fields without the id. A body may repeat the id of the path.
fn without_id(
    mut fields: Map<String, Value>,
    contact: &ContactId,
) -> Result<Map<String, Value>, Problem> {
    match fields.shift_remove("id") {
        Some(id) if id != contact.as_str() => Err(invalid_field(
            "/id",
            "must be the id of the path; an id cannot change",
        )),
        Some(_) | None => Ok(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_the_path_is_the_only_one() {
        let fields = |id: &str| Map::from_iter([("id".to_owned(), Value::from(id))]);
        let contact = "c1".parse().unwrap();
        assert!(without_id(fields("c1"), &contact).unwrap().is_empty());
        assert_eq!(without_id(fields("c2"), &contact).unwrap_err().status, 422);
    }
}
