//! `GET /runs/{run}/events`: the history as a page, or live.

mod live;

use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use holdpoint_contracts::executor::{GetHistory, HistoryPage};
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::RunId;

use crate::auth::run_reader::{RunReader, StreamToken};
use crate::call::{Call, NoBody};
use crate::params::{Params, invalid};
use crate::problem::{ApiError, ApiResult};
use crate::redaction::runs::redact_items;
use crate::sse::{last_event_id, wants_stream};

/// The history after a number, which is `after` or the `cursor` of the page before.
pub(super) async fn events(
    headers: HeaderMap,
    call: Call<RunReader, RunId, NoBody, Params>,
) -> ApiResult<Response> {
    let (reader, run) = (call.caller, call.id);
    reader.require_run(run)?;
    let params = call.params.only(&["after", "cursor", "limit"])?;
    let after = match (params.read_as("after")?, params.read_as("cursor")?) {
        (Some(_), Some(_)) => {
            return Err(ApiError(invalid("expected `after` or `cursor`, not both")));
        }
        (after, cursor) => after.or(cursor).unwrap_or(0),
    };
    let limit = params.limit()?;
    if wants_stream(&headers) {
        let resumed = last_event_id(&headers, "the number of an event")?;
        let token = StreamToken::of(&headers);
        let source = live::History { reader, run, after };
        return live::stream(source, token, resumed).await;
    }
    let query = GetHistory { run, after, limit };
    let mut page = reader.query(query).await?;
    page.items = redact_items(&reader, run, page.items).await;
    Ok(Json(as_page(page)).into_response())
}

fn as_page(page: HistoryPage) -> Page<HistoryItem> {
    let reached = page.items.last().map(|item| item.seq);
    let next_cursor = reached
        .filter(|seq| *seq < page.last_seq)
        .map(|seq| seq.to_string());
    Page {
        items: page.items,
        next_cursor,
    }
}
