//! Table `contact_activities`: what was said to and by a contact, each thing once.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_contracts::contact::Activity;
use holdpoint_ids::{ContactId, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{QueryOrder, QuerySelect};

use crate::domain::contact::{ACTIVITIES_KEPT, ACTIVITIES_TOLD};
use crate::domain::{Fact, Need};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "contact_activities")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub contact: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub kind: String,
    pub subject: Option<String>,
    pub text: String,
    pub at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

/// Rows of one contact beyond which the oldest go.
const TRIM_FROM: u64 = ACTIVITIES_KEPT + 50;

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("contact_activities", error)
}

pub(crate) fn active(
    workspace: &Workspace,
    contact: &ContactId,
    (id, activity): (&str, &Activity),
) -> ActiveModel {
    ActiveModel {
        workspace: Set(workspace.to_string()),
        contact: Set(contact.to_string()),
        id: Set(id.to_owned()),
        kind: Set(activity.kind.as_str().to_owned()),
        subject: Set(activity.subject.clone()),
        text: Set(activity.text.clone()),
        at: Set(activity.at),
    }
}

/// Adds rows; one that is there already stays as it is. Of contacts that have too many the oldest go.
pub(crate) async fn insert(
    db: &impl ConnectionTrait,
    rows: Vec<ActiveModel>,
) -> Result<(), StoreError> {
    let mut touched: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in &rows {
        if let (Set(workspace), Set(contact)) = (&row.workspace, &row.contact) {
            let contacts = touched.entry(workspace.clone()).or_default();
            contacts.push(contact.clone());
        }
    }
    let known = OnConflict::columns([Column::Workspace, Column::Contact, Column::Id])
        .do_nothing()
        .to_owned();
    insert_rows(db, rows, Some(&known), &[]).await?;
    for (workspace, contacts) in touched {
        for chunk in contacts.chunks(ROWS_PER_STATEMENT) {
            trim(db, &workspace, chunk).await?;
        }
    }
    Ok(())
}

async fn trim(
    db: &impl ConnectionTrait,
    workspace: &str,
    contacts: &[String],
) -> Result<(), StoreError> {
    let full: Vec<String> = Entity::find()
        .select_only()
        .column(Column::Contact)
        .filter(COLUMN.workspace.eq(workspace))
        .filter(COLUMN.contact.is_in(contacts.iter().map(String::as_str)))
        .group_by(Column::Contact)
        .having(Expr::col(Column::Id).count().gt(TRIM_FROM))
        .into_tuple()
        .all(db)
        .await?;
    // Few: one of them has had fifty activities since it was last trimmed.
    for contact in full {
        let oldest: Option<DateTimeUtc> = Entity::find()
            .select_only()
            .column(Column::At)
            .filter(COLUMN.workspace.eq(workspace))
            .filter(COLUMN.contact.eq(contact.as_str()))
            .order_by_desc(Column::At)
            .offset(ACTIVITIES_KEPT)
            .limit(1)
            .into_tuple()
            .one(db)
            .await?;
        if let Some(oldest) = oldest {
            Entity::delete_many()
                .filter(COLUMN.workspace.eq(workspace))
                .filter(COLUMN.contact.eq(contact.as_str()))
                .filter(COLUMN.at.lte(oldest))
                .exec(db)
                .await?;
        }
    }
    Ok(())
}

/// Forgets all of some contacts.
pub(crate) async fn forget(
    db: &impl ConnectionTrait,
    contacts: &[(&Workspace, &ContactId)],
) -> Result<(), StoreError> {
    for (workspace, contact) in contacts {
        Entity::delete_many()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.contact.eq(contact.as_str()))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// The newest of one contact, newest first.
pub(crate) async fn newest(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    contact: &ContactId,
    limit: u64,
) -> Result<Vec<Activity>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.contact.eq(contact.as_str()))
        .order_by_desc(Column::At)
        .order_by_desc(Column::Id)
        .limit(limit)
        .all(db)
        .await?;
    let read = |row: Model| {
        let kind = serde_json::Value::String(row.kind);
        Ok(Activity {
            kind: serde_json::from_value(kind).map_err(broken)?,
            subject: row.subject,
            text: row.text,
            at: row.at,
        })
    };
    rows.into_iter().map(read).collect()
}

/// For decisions: the last ones of each contact, oldest first.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    wanted: &[(&Workspace, &ContactId)],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::with_capacity(wanted.len());
    // One statement a handoff that is opened: those are few.
    for (workspace, contact) in wanted {
        let mut last = newest(db, workspace, contact, ACTIVITIES_TOLD).await?;
        last.reverse();
        let value = serde_json::to_value(last).map_err(broken)?;
        let need = Need::Activities((*workspace).clone(), (*contact).clone());
        found.push((need, Fact::Value(Arc::new(value))));
    }
    Ok(found)
}
