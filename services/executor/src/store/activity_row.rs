//! Table `contact_activities`: messages to and from a contact, each stored once.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_contracts::contact::{Activity, ActivityKind};
use holdpoint_ids::{ContactId, Workspace};
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::{self, Set};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict, SelectStatement};
use sea_orm::{Condition, QueryOrder, QuerySelect, QueryTrait};

use super::contact_row;
use crate::domain::contact::{ACTIVITIES_KEPT, ACTIVITIES_SHOWN, ContactActivity};
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
    pub message_id: Option<String>,
}

impl ActiveModelBehavior for ActiveModel {}

/// Rows of one contact from which on the oldest are deleted. Trimming in groups of 50 costs less.
const TRIM_FROM: u64 = ACTIVITIES_KEPT + 50;

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
        message_id: Set(activity.message_id.clone()),
    }
}

pub(crate) fn is_of(row: &ActiveModel, workspace: &Workspace, contact: &ContactId) -> bool {
    let has = |value: &ActiveValue<String>, name: &str| matches!(value, Set(one) if one == name);
    has(&row.workspace, workspace.as_str()) && has(&row.contact, contact.as_str())
}

/// Adds rows; an existing row is kept as it is. Deletes the oldest rows of a contact with too many, and
/// all rows of a deleted contact.
async fn insert(db: &Transaction, rows: Vec<ActiveModel>) -> Result<(), StoreError> {
    let mut touched: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in &rows {
        if let (Set(workspace), Set(contact)) = (&row.workspace, &row.contact) {
            let contacts = touched.entry(workspace.clone()).or_default();
            contacts.push(contact.clone());
        }
    }
    let keep_existing = OnConflict::columns([Column::Workspace, Column::Contact, Column::Id])
        .do_nothing()
        .to_owned();
    insert_rows(db, rows, Some(&keep_existing)).await?;
    for (workspace, contacts) in touched {
        for chunk in contacts.chunks(ROWS_PER_STATEMENT) {
            trim(db, &workspace, chunk).await?;
            delete_of_deleted(db, &workspace, chunk).await?;
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
    // There are few: each has had fifty activities since it was last trimmed.
    for contact in full {
        let newest_to_delete: Option<(DateTimeUtc, String)> = Entity::find()
            .select_only()
            .columns([Column::At, Column::Id])
            .filter(COLUMN.workspace.eq(workspace))
            .filter(COLUMN.contact.eq(contact.as_str()))
            .order_by_desc(Column::At)
            .order_by_desc(Column::Id)
            .offset(ACTIVITIES_KEPT)
            .limit(1)
            .into_tuple()
            .one(db)
            .await?;
        // An import gives many activities the same instant, so the id decides too.
        if let Some((at, id)) = newest_to_delete {
            let is_older = Condition::any().add(COLUMN.at.lt(at)).add(
                Condition::all()
                    .add(COLUMN.at.eq(at))
                    .add(COLUMN.id.lte(id)),
            );
            Entity::delete_many()
                .filter(COLUMN.workspace.eq(workspace))
                .filter(COLUMN.contact.eq(contact.as_str()))
                .filter(is_older)
                .exec(db)
                .await?;
        }
    }
    Ok(())
}

/// The result of a mail may arrive after its contact was deleted.
async fn delete_of_deleted(
    db: &impl ConnectionTrait,
    workspace: &str,
    contacts: &[String],
) -> Result<(), StoreError> {
    let deleted = contact_row::Entity::find()
        .select_only()
        .column(contact_row::Column::Id)
        .filter(contact_row::COLUMN.workspace.eq(workspace))
        .filter(contact_row::COLUMN.deleted_at.is_not_null())
        .filter(
            contact_row::COLUMN
                .id
                .is_in(contacts.iter().map(String::as_str)),
        )
        .into_query();
    Entity::delete_many()
        .filter(COLUMN.workspace.eq(workspace))
        .filter(Column::Contact.in_subquery(deleted))
        .exec(db)
        .await?;
    Ok(())
}

/// Deletes all activities of some contacts, then adds rows.
pub(crate) async fn replace(
    db: &Transaction,
    forgotten: &[(&Workspace, &ContactId)],
    rows: Vec<ActiveModel>,
) -> Result<(), StoreError> {
    delete_all(db, forgotten).await?;
    insert(db, rows).await
}

async fn delete_all(
    db: &impl ConnectionTrait,
    contacts: &[(&Workspace, &ContactId)],
) -> Result<(), StoreError> {
    for (workspace, contact) in contacts {
        Entity::delete_many()
            .filter(of_contact(workspace, contact))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Selects the contacts to whom a mail with one of these Message-IDs was sent. A received mail does not count: its
/// sender chose the id.
pub(crate) fn contacts_of_mails(workspace: &Workspace, message_ids: &[String]) -> SelectStatement {
    Entity::find()
        .select_only()
        .column(Column::Contact)
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.message_id.is_in(message_ids.iter().cloned()))
        .filter(COLUMN.kind.eq(ActivityKind::EmailOut.as_str()))
        .into_query()
}

/// The newest activities of a contact, newest first.
pub(crate) async fn newest(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    contact: &ContactId,
    limit: u64,
) -> Result<Vec<Activity>, StoreError> {
    let rows = Entity::find()
        .filter(of_contact(workspace, contact))
        .order_by_desc(Column::At)
        .order_by_desc(Column::Id)
        .limit(limit)
        .all(db)
        .await?;
    let read = |row: Model| {
        Ok(Activity {
            kind: Entity::word(row.kind)?,
            subject: row.subject,
            text: row.text,
            at: row.at,
            message_id: row.message_id,
        })
    };
    rows.into_iter().map(read).collect()
}

/// Kind and Message-ID of the mails to and from a contact, newest first.
pub(crate) async fn mails_of(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    contact: &ContactId,
) -> Result<Vec<(ActivityKind, String)>, StoreError> {
    let rows: Vec<(String, String)> = Entity::find()
        .select_only()
        .columns([Column::Kind, Column::MessageId])
        .filter(of_contact(workspace, contact))
        .filter(COLUMN.message_id.is_not_null())
        .order_by_desc(Column::At)
        .order_by_desc(Column::Id)
        .limit(ACTIVITIES_KEPT)
        .into_tuple()
        .all(db)
        .await?;
    let read = |(kind, id)| Ok((Entity::word(kind)?, id));
    rows.into_iter().map(read).collect()
}

fn of_contact(workspace: &Workspace, contact: &ContactId) -> Condition {
    Condition::all()
        .add(COLUMN.workspace.eq(workspace.as_str()))
        .add(COLUMN.contact.eq(contact.as_str()))
}

/// For decisions: the last activities of each contact, oldest first, and the number of older ones.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    wanted: &[(&Workspace, &ContactId)],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::with_capacity(wanted.len());
    // One statement for each opened handoff: a batch opens few.
    for (workspace, contact) in wanted {
        let mut last = newest(db, workspace, contact, ACTIVITIES_SHOWN).await?;
        last.reverse();
        let newest = last.iter().map(serde_json::to_value);
        let newest: Vec<_> = newest.collect::<Result<_, _>>().map_err(Entity::broken)?;
        let shown = u64::try_from(newest.len()).unwrap_or(u64::MAX);
        let older = if shown < ACTIVITIES_SHOWN {
            0
        } else {
            let all = Entity::find().filter(of_contact(workspace, contact));
            all.count(db).await?.saturating_sub(shown)
        };
        let value =
            serde_json::to_value(ContactActivity { newest, older }).map_err(Entity::broken)?;
        let need = Need::Activities((*workspace).clone(), (*contact).clone());
        found.push((need, Fact::Value(Arc::new(value))));
    }
    Ok(found)
}
