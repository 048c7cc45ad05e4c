//! `GET /runs/{run}/events`: the history as a page, or live.

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
use crate::auth::run_reader::{RunReader, StreamToken};
use crate::params::{Params, invalid};
use crate::path::PathId;
use crate::problem::{ApiError, ApiResult};
use crate::sse::{last_event_id, wants_stream};

/// The history after a number, which is `after` or the `cursor` of the page before.
pub(super) async fn events(
    State(app): State<App>,
    reader: RunReader,
    PathId(run): PathId<RunId>,
    params: Params,
    headers: HeaderMap,
) -> ApiResult<Response> {
    reader.require_run(run)?;
    let params = params.only(&["after", "cursor", "limit"])?;
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
        let source = live::History {
            app,
            reader,
            run,
            after,
        };
        return Ok(live::stream(source, token, resumed).await?);
    }
    let query = GetHistory { run, after, limit };
    let mut page = app.bus.query(&reader.workspace, &query).await?;
    let (workspace, user) = (&reader.workspace, reader.user());
    page.items = app.redact_items(workspace, user, run, page.items).await;
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
