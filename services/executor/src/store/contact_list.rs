//! Lists of contacts.

use holdpoint_contracts::executor::ListContacts;
use holdpoint_ids::Workspace;
use holdpoint_store::{StateRow as _, StoreError};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::activity_row;
use super::contact_row::{COLUMN, Column, Entity};
use crate::domain::Contact;
use crate::domain::contact::comparable_email;

/// Contacts in the order of their ids, after the cursor, that the other members of the query select.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    wanted: &ListContacts,
) -> Result<Vec<Contact>, StoreError> {
    let after = wanted.cursor.as_deref();
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.deleted_at.is_null())
        .filter(COLUMN.id.gt(after.unwrap_or_default()));
    if let Some(email) = &wanted.email {
        query = query.filter(COLUMN.email.eq(comparable_email(email)));
    }
    if !wanted.message_ids.is_empty() {
        let sent_to = activity_row::contacts_of_mails(workspace, &wanted.message_ids);
        query = query.filter(Column::Id.in_subquery(sent_to));
    }
    Entity::page(db, query.order_by_asc(Column::Id), wanted.limit).await
}
