//! How many agents a caller may have compiled or rehearsed at a time.

use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::app::App;
use crate::auth::may::{Demand, May};
use crate::call::CallerKind;
use crate::concurrency::{ConcurrencyLimit, ConcurrencyPermit};
use crate::problem::ApiError;

/// The limit that a route has.
pub(crate) trait CallLimit: Send + Sync {
    fn limit(app: &App) -> &ConcurrencyLimit;
}

/// Agents that are compiled.
pub(crate) struct Plans;

impl CallLimit for Plans {
    fn limit(app: &App) -> &ConcurrencyLimit {
        &app.plans
    }
}

/// Agents that are rehearsed.
pub(crate) struct Rehearsals;

impl CallLimit for Rehearsals {
    fn limit(app: &App) -> &ConcurrencyLimit {
        &app.rehearsals
    }
}

/// A caller who may have one more agent compiled or rehearsed. The permit is taken before the body is read, because
/// bodies that wait would fill the memory.
pub(crate) struct LimitedCaller<D, L = Plans> {
    pub(crate) caller: May<D>,
    pub(crate) permit: ConcurrencyPermit,
    _limit: PhantomData<L>,
}

impl<D: Demand, L: CallLimit> CallerKind for LimitedCaller<D, L> {
    type Caller = Self;
}

impl<D: Demand, L: CallLimit> FromRequestParts<App> for LimitedCaller<D, L> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = May::from_request_parts(parts, app).await?;
        let user = caller.claims.user.as_str();
        Ok(Self {
            permit: L::limit(app).take(&caller.workspace, user)?,
            caller,
            _limit: PhantomData,
        })
    }
}
