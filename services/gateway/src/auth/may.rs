//! The caller of a route, with the right that the route demands. A route that names the right in its signature
//! cannot forget to check it, and it is checked before the body is read.

use std::marker::PhantomData;
use std::ops::Deref;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdpoint_contracts::{Command, IdempotencyKey, Query};

use super::caller::Caller;
use crate::app::App;
use crate::command_outcome::CommandOutcome;
use crate::problem::{ApiError, ApiResult};

/// What a route demands of its caller.
pub(crate) trait Demand: Send + Sync {
    const RIGHT: holdpoint_auth::Right;
    /// Refuses a narrowed token ([`Caller::in_person`]).
    const IN_PERSON: bool = false;
}

macro_rules! rights {
    ($($right:ident)*) => {$(
        /// See [`holdpoint_auth::Right`].
        #[derive(Debug)]
        pub(crate) struct $right;

        impl Demand for $right {
            const RIGHT: holdpoint_auth::Right = holdpoint_auth::Right::$right;
        }
    )*};
}
rights!(Look Ask Decide Operate Administer);

/// The same with a token that has all rights of its user.
#[derive(Debug)]
pub(crate) struct InPerson<D>(PhantomData<D>);

impl<D: Demand> Demand for InPerson<D> {
    const RIGHT: holdpoint_auth::Right = D::RIGHT;
    const IN_PERSON: bool = true;
}

/// A caller who may do what the route does.
pub(crate) struct May<D> {
    pub(crate) app: App,
    caller: Caller,
    demand: PhantomData<D>,
}

impl<D: Demand> FromRequestParts<App> for May<D> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        caller.may(D::RIGHT)?;
        if D::IN_PERSON {
            caller.in_person()?;
        }
        Ok(Self {
            app: app.clone(),
            caller,
            demand: PhantomData,
        })
    }
}

impl<D> Deref for May<D> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl<D: Demand> May<D> {
    /// See [`App::command`].
    pub(crate) async fn command<C: Command + Sync>(
        &self,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> ApiResult<CommandOutcome<C::Reply>> {
        Ok(self.app.command(&self.caller, key, command).await?)
    }

    /// See [`App::ask`].
    pub(crate) async fn ask<C: Command + Sync>(
        &self,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> ApiResult<Json<C::Reply>> {
        Ok(Json(self.app.ask(&self.caller, key, command).await?))
    }

    /// The answer of the service that owns the data.
    pub(crate) async fn query<Q: Query + Sync>(&self, query: Q) -> ApiResult<Json<Q::Reply>> {
        Ok(Json(self.app.bus.query(&self.workspace, &query).await?))
    }
}
