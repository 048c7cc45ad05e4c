//! `/contacts`: whom runs are about.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::contact::{Activity, ActivityKind, ContactView};
use holdpoint_contracts::executor::{
    AddActivity, DeleteContact, GetContact, ListActivities, ListContacts, PatchContact, PutContact,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{CommandId, ContactId};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::app::App;
use crate::body::{Body, invalid_field};
use crate::caller::{Caller, PathId, Reader};
use crate::params::{NoParams, Params};
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/contacts", get(list))
        .route(
            "/contacts/{contact}",
            get(show).put(put).patch(patch).delete(forget),
        )
        .route("/contacts/{contact}/activities", get(activities).post(say))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActivityBody {
    kind: ActivityKind,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    text: String,
    #[serde(default, with = "holdpoint_contracts::instant::option")]
    at: Option<DateTime<Utc>>,
}

async fn list(
    State(app): State<App>,
    reader: Reader,
    params: Params,
) -> Result<Json<Page<ContactView>>, ApiError> {
    let params = params.only(&["limit", "cursor", "email"])?;
    if let Some(own) = reader.own_contacts() {
        let Some(contact) = own.cloned() else {
            return Ok(Json(only(None)));
        };
        let contact = app
            .bus
            .query(&reader.workspace, &GetContact { contact })
            .await?;
        return Ok(Json(only(Some(contact))));
    }
    let query = ListContacts {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
        email: params.read_as("email")?,
    };
    Ok(Json(app.bus.query(&reader.workspace, &query).await?))
}

/// A list of one or none.
fn only<T>(item: Option<T>) -> Page<T> {
    Page {
        items: item.into_iter().collect(),
        next_cursor: None,
    }
}

async fn show(
    State(app): State<App>,
    reader: Reader,
    PathId(contact): PathId<ContactId>,
    _: NoParams,
) -> Result<Json<ContactView>, ApiError> {
    reader.sees_contact(&contact)?;
    Ok(Json(
        app.bus
            .query(&reader.workspace, &GetContact { contact })
            .await?,
    ))
}

async fn put(
    State(app): State<App>,
    caller: Caller,
    PathId(contact): PathId<ContactId>,
    _: NoParams,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Ask)?;
    let fields = without_id(body.json()?, &contact)?;
    let answered = app
        .command(&caller, body.key, PutContact { contact, fields })
        .await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// RFC 7386.
async fn patch(
    State(app): State<App>,
    caller: Caller,
    PathId(contact): PathId<ContactId>,
    _: NoParams,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Ask)?;
    let patch = without_id(body.json()?, &contact)?;
    let answered = app
        .command(&caller, body.key, PatchContact { contact, patch })
        .await?;
    Ok(answered.with_status(StatusCode::OK))
}

async fn forget(
    State(app): State<App>,
    caller: Caller,
    PathId(contact): PathId<ContactId>,
    _: NoParams,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    let answered = app
        .command(&caller, None, DeleteContact { contact })
        .await?;
    Ok(answered.respond(|()| StatusCode::NO_CONTENT.into_response()))
}

/// The last ones, newest first.
async fn activities(
    State(app): State<App>,
    reader: Reader,
    PathId(contact): PathId<ContactId>,
    params: Params,
) -> Result<Json<Page<Activity>>, ApiError> {
    reader.sees_contact(&contact)?;
    let limit = params.only(&["limit"])?.limit()?;
    let query = ListActivities { contact, limit };
    Ok(Json(app.bus.query(&reader.workspace, &query).await?))
}

/// What was said to or by the contact; under one key once (S0-AC7).
async fn say(
    State(app): State<App>,
    caller: Caller,
    PathId(contact): PathId<ContactId>,
    _: NoParams,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Ask)?;
    let ActivityBody {
        kind,
        subject,
        text,
        at,
    } = body.json()?;
    let activity = Activity {
        kind,
        subject,
        text,
        at: at.unwrap_or_else(|| app.clock.now()),
    };
    let command = AddActivity {
        contact,
        id: CommandId::fresh().to_string(),
        activity,
        patch: Map::new(),
    };
    let answered = app.command(&caller, body.key, command).await?;
    Ok(answered.with_status(StatusCode::CREATED))
}

/// The id stands in the path; a body may say it again, and nothing else.
fn without_id(
    mut fields: Map<String, Value>,
    contact: &ContactId,
) -> Result<Map<String, Value>, Problem> {
    match fields.shift_remove("id") {
        Some(id) if id != contact.as_str() => Err(invalid_field(
            "/id",
            "an id does not change; it is the one in the path",
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
