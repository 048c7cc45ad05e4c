//! Table `contacts`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use chrono::{DateTime, Utc};
use holdpoint_ids::{ContactId, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, guarded, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};
use serde_json::Value;

use crate::domain::{Contact, Key};

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
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("contacts", error)
}

fn read(row: &Model) -> Result<Contact, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

pub(crate) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    ids: &[&ContactId],
) -> Result<Vec<Contact>, StoreError> {
    let mut contacts = Vec::with_capacity(ids.len());
    for chunk in ids.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.id.is_in(chunk.iter().map(|id| id.as_str())))
            .all(db)
            .await?;
        for row in &rows {
            contacts.push(read(row)?);
        }
    }
    Ok(contacts)
}

/// As addresses are compared: in small letters.
fn address(email: &str) -> String {
    email.trim().to_lowercase()
}

/// Contacts by id, after one; only those with a mail address, where one is given.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    (email, after): (Option<&str>, Option<&str>),
    limit: u64,
) -> Result<Vec<Contact>, StoreError> {
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.deleted_at.is_null())
        .filter(COLUMN.id.gt(after.unwrap_or_default()));
    if let Some(email) = email {
        query = query.filter(COLUMN.email.eq(address(email)));
    }
    let rows = query
        .order_by_asc(Column::Id)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| row.id.clone(),
        |row| read(&row),
    ))
}

pub(crate) async fn save(
    db: &impl ConnectionTrait,
    contacts: &[(&Contact, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let columns = ["state", "deleted_at", "updated_at", "email"];
    let mut losers = Vec::new();
    for chunk in contacts.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk
            .iter()
            .map(|(contact, read)| active(contact, *read, now));
        let won = Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
            .on_conflict(guarded("contacts", &["workspace", "id"], &columns))
            .exec_with_returning_keys(db)
            .await?;
        let won: std::collections::HashSet<_> = won.into_iter().collect();
        let lost = chunk.iter().filter(|(contact, _)| {
            !won.contains(&(contact.workspace.to_string(), contact.id.to_string()))
        });
        losers.extend(
            lost.map(|(contact, _)| Key::Contact(contact.workspace.clone(), contact.id.clone())),
        );
    }
    Ok(losers)
}

fn active(contact: &Contact, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    let email = contact.fields.get("email").and_then(Value::as_str);
    Ok(ActiveModel {
        workspace: Set(contact.workspace.to_string()),
        id: Set(contact.id.to_string()),
        version: Set(i64::try_from(contact.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        state: Set(serde_json::to_string(contact).map_err(broken)?),
        deleted_at: Set(contact.deleted.then_some(now)),
        updated_at: Set(now),
        email: Set(email.map(address)),
    })
}
