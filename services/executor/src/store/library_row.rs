//! Table `libraries`: the templates and calendars of each workspace.

use holdpoint_ids::Workspace;
use holdpoint_store::{StateRow as _, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

use crate::domain::Library;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "libraries")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
}

state_row!(Library, |library, stored| ActiveModel {
    workspace: Set(library.workspace.to_string()),
    version: Set(stored.version),
    prior_version: Set(stored.prior_version),
    state: Set(stored.state),
});

/// The library of a workspace, for a read.
pub(crate) async fn one(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<Option<Library>, StoreError> {
    Entity::first(db, Entity::find_by_id(workspace.to_string())).await
}
