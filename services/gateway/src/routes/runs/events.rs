//! `GET /runs/{run}/events`: history as a page, or live.
//!
//! Live, it subscribes before it reads, and a nudge only makes it read again: what a nudge says is
//! never sent, so a lost one costs a moment and no item.

mod live;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use holdpoint_contracts::executor::{GetHistory, HistoryPage};
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::RunId;

use crate::app::App;
use crate::caller::{PathId, Reader, StreamToken};
use crate::params::{Params, invalid};
use crate::problem::ApiError;
use crate::sse::{last_event_id, wants_stream};

/// History after a number: `after`, or the `cursor` of the page before.
pub(super) async fn events(
    State(app): State<App>,
    reader: Reader,
    PathId(run): PathId<RunId>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    reader.sees(run)?;
    let params = params.only(&["after", "cursor", "limit"])?;
    let after = match (params.read_as("after")?, params.read_as("cursor")?) {
        (Some(_), Some(_)) => return Err(ApiError(invalid("give `after` or `cursor`, not both"))),
        (after, cursor) => after.or(cursor).unwrap_or(0),
    };
    let limit = params.limit()?;
    if wants_stream(&headers) {
        let resumed = last_event_id(&headers, "is the number of an event")?;
        let whose = (reader, StreamToken::of(&headers));
        return Ok(live::stream(app, whose, run, after, resumed).await?);
    }
    let query = GetHistory { run, after, limit };
    let mut page = app.bus.query(&reader.workspace, &query).await?;
    let hidden = app.hidden(&reader.workspace, reader.user(), run).await;
    if let Some(hidden) = hidden {
        page.items = page
            .items
            .into_iter()
            .map(|item| hidden.item(item))
            .collect();
    }
    Ok(Json(as_list(page)).into_response())
}

fn as_list(page: HistoryPage) -> Page<HistoryItem> {
    let reached = page.items.last().map(|item| item.seq);
    let next_cursor = reached
        .filter(|seq| *seq < page.last_seq)
        .map(|seq| seq.to_string());
    Page {
        items: page.items,
        next_cursor,
    }
}
