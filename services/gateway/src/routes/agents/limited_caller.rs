//! How many agents a caller may have compiled at a time.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::app::App;
use crate::auth::may::{Demand, May};
use crate::call::CallerKind;
use crate::concurrency::ConcurrencyPermit;
use crate::problem::ApiError;

/// A caller who may have one more agent compiled. The permit is taken before the body is read, because bodies that
/// wait would fill the memory.
pub(crate) struct LimitedCaller<D> {
    pub(crate) caller: May<D>,
    _permit: ConcurrencyPermit,
}

impl<D: Demand> CallerKind for LimitedCaller<D> {
    type Caller = Self;
}

impl<D: Demand> FromRequestParts<App> for LimitedCaller<D> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = May::from_request_parts(parts, app).await?;
        let user = caller.claims.user.as_str();
        Ok(Self {
            _permit: app.plans.take(&caller.workspace, user)?,
            caller,
        })
    }
}
