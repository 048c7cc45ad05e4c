//! `/runs/{run}/steps/{step}/blobs/{sha256}`: contents of values that are too large for a snapshot (S1-R9).

use std::io;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{FromRequestParts, Request};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::try_unfold;
use holdpoint_contracts::suspension::{BLOB_CHUNK_MAX, BlobContent, BlobView, PutBlob};
use holdpoint_contracts::{Actor, Envelope, Problem};

use crate::app::App;
use crate::auth::blob_caller::{BlobReader, BlobWriter};
use crate::body::arrived;
use crate::params::{Params, invalid};
use crate::problem::{ApiError, ApiResult, JsonResult};

/// `?offset=0&size=1048577`
pub(super) struct ChunkPlace {
    offset: u64,
    /// Of the whole blob.
    size: u64,
}

impl FromRequestParts<App> for ChunkPlace {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        let params = Params::read(&parts.uri)?.only(&["offset", "size"])?;
        let size = params.read_as("size")?;
        Ok(Self {
            offset: params.read_as("offset")?.unwrap_or_default(),
            size: size.ok_or_else(|| {
                invalid("`size` is required: the number of bytes of the whole blob")
            })?,
        })
    }
}

/// Uploads the next chunk. The reply says where the one after it begins.
pub(super) async fn put(
    writer: BlobWriter,
    place: ChunkPlace,
    request: Request,
) -> JsonResult<BlobView> {
    let bytes = arrived(request.into_body()).await?;
    if bytes.len() > BLOB_CHUNK_MAX {
        let count = bytes.len();
        let detail = format!("the chunk has {count} bytes; at most {BLOB_CHUNK_MAX} are allowed");
        return Err(ApiError(Problem::new(413, "too_large", detail)));
    }
    let envelope = Envelope {
        actor: Actor::service("step"),
        assertion: None,
        key: None,
        command: PutBlob {
            run: writer.run,
            token: writer.token,
            sha256: writer.sha256,
            size: place.size,
            offset: place.offset,
            content: BlobContent(bytes.into()),
        },
    };
    Ok(Json(
        writer.app.bus.ask(&writer.workspace, &envelope).await?,
    ))
}

/// The bytes of a complete blob, which are read while they are sent.
pub(super) async fn get(reader: BlobReader, parts: BlobStart) -> ApiResult<Response> {
    let first = reader.read_chunk(parts.offset).await?;
    let (size, offset) = (first.size, parts.offset);
    let rest = size.saturating_sub(offset);
    let chunks = try_unfold((Some(first), offset), move |(chunk, at)| {
        let reader = reader.clone();
        async move {
            let chunk = match chunk {
                Some(chunk) => chunk,
                None if at >= size => return Ok(None),
                None => reader
                    .read_chunk(at)
                    .await
                    .map_err(|ApiError(problem)| io::Error::other(problem.to_string()))?,
            };
            let bytes = Bytes::copy_from_slice(&chunk.content.0);
            let next = at.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            Ok::<_, io::Error>(Some((bytes, (None, next))))
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, rest.to_string()),
    ];
    Ok((headers, HttpBody::from_stream(chunks)).into_response())
}

/// `?offset=524288`
pub(super) struct BlobStart {
    offset: u64,
}

impl FromRequestParts<App> for BlobStart {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        let params = Params::read(&parts.uri)?.only(&["offset"])?;
        let offset = params.read_as("offset")?.unwrap_or_default();
        Ok(Self { offset })
    }
}
