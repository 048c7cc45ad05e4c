//! One call of a route: who calls, what the path and the query name, and the body.
//!
//! The parts are read in this order. So a caller without the right learns nothing else, and no body is read for it.

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use axum::extract::{FromRequest, FromRequestParts, Request};
use holdpoint_contracts::IdempotencyKey;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::auth::may::{Demand, May};
use crate::auth::run_reader::{QuestionSource, RunReader};
use crate::body::Body;
use crate::params::NoParams;
use crate::path::{NoId, PathId};
use crate::problem::{ApiError, ApiResult};

/// Who may call a route: a right ([`Demand`]), or a kind of caller.
pub(crate) trait CallerKind {
    type Caller: FromRequestParts<App, Rejection = ApiError> + Send;
}

impl<D: Demand> CallerKind for D {
    type Caller = May<D>;
}

impl CallerKind for RunReader {
    type Caller = Self;
}

impl CallerKind for QuestionSource {
    type Caller = Self;
}

/// A call by a caller `C` with the id `I` in its path, the body `B` and the query `Q`. A route without one of them
/// omits it; an unexpected query is refused.
pub(crate) struct Call<C: CallerKind, I = NoId, B: ReadBody = NoBody, Q = NoParams> {
    pub(crate) caller: C::Caller,
    pub(crate) id: I,
    pub(crate) params: Q,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) body: B::Value,
}

impl<C, I, B, Q> FromRequest<App> for Call<C, I, B, Q>
where
    C: CallerKind,
    I: FromStr<Err: Display> + Send,
    B: ReadBody,
    Q: FromRequestParts<App, Rejection = ApiError> + Send,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let caller = C::Caller::from_request_parts(&mut parts, app).await?;
        let PathId(id) = PathId::from_request_parts(&mut parts, app).await?;
        let params = Q::from_request_parts(&mut parts, app).await?;
        let (key, body) = B::read(Request::from_parts(parts, body), app).await?;
        Ok(Self {
            caller,
            id,
            params,
            key,
            body,
        })
    }
}

/// How a route reads the body of a call.
pub(crate) trait ReadBody {
    type Value: Send;

    /// The body, and the caller's idempotency key with a digest of the request.
    fn read(
        request: Request,
        app: &App,
    ) -> impl Future<Output = ApiResult<(Option<IdempotencyKey>, Self::Value)>> + Send;
}

#[derive(Debug)]
pub(crate) struct NoBody;

/// A body that is a JSON object.
#[derive(Debug)]
pub(crate) struct JsonBody<T, const MAY_BE_EMPTY: bool = false>(PhantomData<T>);

/// A body that is a JSON object or empty, which means `{}`.
pub(crate) type OptionalJson<T> = JsonBody<T, true>;

impl ReadBody for NoBody {
    type Value = ();

    async fn read(_request: Request, _app: &App) -> ApiResult<(Option<IdempotencyKey>, ())> {
        Ok((None, ()))
    }
}

impl ReadBody for Body {
    type Value = Self;

    async fn read(request: Request, app: &App) -> ApiResult<(Option<IdempotencyKey>, Self)> {
        Body::read(request, app).await
    }
}

impl<T: DeserializeOwned + Send, const MAY_BE_EMPTY: bool> ReadBody for JsonBody<T, MAY_BE_EMPTY> {
    type Value = T;

    async fn read(request: Request, app: &App) -> ApiResult<(Option<IdempotencyKey>, T)> {
        let (key, body) = Body::read(request, app).await?;
        Ok((key, body.json(MAY_BE_EMPTY)?))
    }
}
