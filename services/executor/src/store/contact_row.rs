//! Table `contacts`.

use holdpoint_ids::{ContactId, Workspace};
use holdpoint_store::{StateRow as _, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use serde_json::Value;

use crate::domain::Contact;
use crate::domain::contact::{Erasure, comparable_email};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "contacts")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
    pub deleted_at: Option<DateTimeUtc>,
    pub updated_at: DateTimeUtc,
    pub email: Option<String>,
    pub erasing: bool,
}

state_row!(Contact, |contact, stored| ActiveModel {
    workspace: Set(contact.workspace.to_string()),
    id: Set(contact.id.to_string()),
    version: Set(stored.version),
    prior_version: Set(stored.prior_version),
    state: Set(stored.state),
    deleted_at: Set(contact.deleted.then_some(stored.now)),
    updated_at: Set(stored.now),
    email: Set(contact
        .fields
        .get("email")
        .and_then(Value::as_str)
        .map(comparable_email)),
    erasing: Set(contact.erasure.as_ref().is_some_and(Erasure::is_running)),
});

/// A contact, deleted ones too.
pub(crate) async fn one(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    id: &ContactId,
) -> Result<Option<Contact>, StoreError> {
    let key = (workspace.to_string(), id.to_string());
    Entity::first(db, Entity::find_by_id(key)).await
}

/// The contacts of these keys, deleted ones too.
pub(crate) async fn with_keys(
    db: &impl ConnectionTrait,
    keys: &[(Workspace, ContactId)],
) -> Result<Vec<Contact>, StoreError> {
    let keys = keys
        .iter()
        .map(|(workspace, id)| (workspace.to_string(), id.to_string()));
    let keys: Vec<_> = keys.collect();
    Entity::load_states(db, &keys).await
}

/// Contacts of all workspaces whose erasure is not complete.
pub(crate) async fn erasing(
    db: &impl ConnectionTrait,
    limit: u64,
) -> Result<Vec<Contact>, StoreError> {
    // In the words of its index.
    let query = Entity::find().filter(Expr::col(Column::Erasing));
    let query = query
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Id);
    Entity::page(db, query, limit).await
}
