//! The caller of a route, with the right that the route demands. A route that names the right in its signature
//! cannot forget to check it, and it is checked before the body is read.

use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use holdpoint_contracts::{Command, IdempotencyKey, Query};

use super::caller::{Bearer, Caller};
use super::token_scope::require_installation_right;
use crate::app::App;
use crate::command_outcome::CommandResult;
use crate::problem::{ApiError, JsonResult};

/// What a route demands of its caller.
pub(crate) trait Demand: Send + Sync {
    const RIGHT: holdpoint_auth::Right;
    /// Refuses a narrowed token ([`Caller::in_person`]).
    const IN_PERSON: bool = false;
    /// The right over all workspaces, on a route outside a workspace (A-L4).
    const OF_INSTALLATION: bool = false;
}

macro_rules! rights {
    ($($right:ident)*) => {$(
        #[derive(Debug)]
        pub(crate) struct $right;

        impl Demand for $right {
            const RIGHT: holdpoint_auth::Right = holdpoint_auth::Right::$right;
        }
    )*};
}
rights!(Look Ask Decide Operate Administer Own);

/// The same with a token that has all rights of its user.
#[derive(Debug)]
pub(crate) struct InPerson<D>(PhantomData<D>);

impl<D: Demand> Demand for InPerson<D> {
    const RIGHT: holdpoint_auth::Right = D::RIGHT;
    const IN_PERSON: bool = true;
}

/// The same over the whole installation.
#[derive(Debug)]
pub(crate) struct Installation<D>(PhantomData<D>);

impl<D: Demand> Demand for Installation<D> {
    const RIGHT: holdpoint_auth::Right = D::RIGHT;
    const OF_INSTALLATION: bool = true;
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
        let caller = if D::OF_INSTALLATION {
            let bearer = Bearer::from_request_parts(parts, app).await?;
            bearer.into_user()?
        } else {
            Caller::from_request_parts(parts, app).await?
        };
        caller.may(D::RIGHT)?;
        if D::OF_INSTALLATION {
            require_installation_right(&caller.claims, D::RIGHT)?;
        }
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
    ) -> CommandResult<C::Reply> {
        Ok(self.app.command(&self.caller, key, command).await?)
    }

    /// See [`App::ask`].
    pub(crate) async fn ask<C: Command + Sync>(
        &self,
        key: Option<IdempotencyKey>,
        command: C,
    ) -> JsonResult<C::Reply> {
        Ok(Json(self.app.ask(&self.caller, key, command).await?))
    }

    /// The reply of the service that owns the data.
    pub(crate) async fn query<Q: Query + Sync>(&self, query: Q) -> JsonResult<Q::Reply> {
        Ok(Json(self.app.bus.query(&self.workspace, &query).await?))
    }

    /// As [`May::query`], for a query that may take long.
    pub(crate) async fn query_within<Q: Query + Sync>(
        &self,
        query: Q,
        timeout: Duration,
    ) -> JsonResult<Q::Reply> {
        let reply = self.app.bus.query_within(&self.workspace, &query, timeout);
        Ok(Json(reply.await?))
    }
}
