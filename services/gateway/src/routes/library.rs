//! `/templates` and `/calendars`: the library of the workspace, which agents use by name.

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use holdpoint_contracts::executor::{
    DeleteLibraryEntry, GetLibraryEntry, LibraryEntryView, LibraryKind, ListLibrary,
    PutLibraryEntry,
};
use holdpoint_contracts::run::Page;
use serde_json::{Map, Value};

use crate::app::App;
use crate::auth::may::{Look, Operate};
use crate::body::invalid_field;
use crate::call::{Call, JsonBody};
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .merge(of_kind("/templates", LibraryKind::Template))
        .merge(of_kind("/calendars", LibraryKind::Calendar))
}

fn of_kind(path: &str, kind: LibraryKind) -> Router<App> {
    let all = get(move |call| list(kind, call)).post(move |call| put(kind, call));
    let one = get(move |call| show(kind, call)).delete(move |call| remove(kind, call));
    Router::new()
        .route(path, all)
        .route(&format!("{path}/{{name}}"), one)
}

async fn list(kind: LibraryKind, call: Call<Look>) -> JsonResult<Page<LibraryEntryView>> {
    call.caller.query(ListLibrary { kind }).await
}

async fn show(kind: LibraryKind, call: Call<Look, String>) -> JsonResult<LibraryEntryView> {
    let name = call.id;
    call.caller.query(GetLibraryEntry { kind, name }).await
}

/// 201 for a new or changed entry, else 200.
async fn put(
    kind: LibraryKind,
    call: Call<Operate, NoId, JsonBody<Map<String, Value>>>,
) -> ApiResult<Response> {
    let mut value = call.body;
    let Some(Value::String(name)) = value.remove("name") else {
        return Err(invalid_field("/name", "must be a text").into());
    };
    let command = PutLibraryEntry {
        kind,
        name,
        value: Value::Object(value),
    };
    let outcome = call.caller.command(call.key, command).await?;
    Ok(outcome.created_if(|entry| entry.changed == Some(true)))
}

async fn remove(kind: LibraryKind, call: Call<Operate, String>) -> ApiResult<Response> {
    let name = call.id;
    let command = DeleteLibraryEntry { kind, name };
    let outcome = call.caller.command(None, command).await?;
    Ok(outcome.without_content())
}
