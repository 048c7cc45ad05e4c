//! Table `contact_fields`: how many contacts of a workspace have a field of a name.

use std::collections::BTreeMap;

use holdpoint_ids::Workspace;
use holdpoint_store::{StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{QueryOrder as _, QuerySelect as _};

use crate::domain::Effect;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "contact_fields")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub contacts: i64,
}

impl ActiveModelBehavior for ActiveModel {}

/// Counts the names that contacts have got or lost.
pub(super) async fn write(db: &Transaction, effects: &[Effect]) -> Result<(), StoreError> {
    // In one order, so that two replicas do not wait for each other.
    let mut changes: BTreeMap<(&Workspace, &str), i64> = BTreeMap::new();
    for effect in effects {
        if let Effect::ContactFields {
            workspace,
            added,
            removed,
        } = effect
        {
            for (names, by) in [(added, 1), (removed, -1)] {
                for name in names {
                    *changes.entry((workspace, name)).or_default() += by;
                }
            }
        }
    }
    changes.retain(|_, by| *by != 0);
    let is_less = changes.values().any(|by| *by < 0);
    let mut workspaces: Vec<_> = changes.keys().map(|(workspace, _)| *workspace).collect();
    workspaces.dedup();
    let rows = changes.iter().map(|((workspace, name), by)| ActiveModel {
        workspace: Set(workspace.to_string()),
        name: Set((*name).to_owned()),
        contacts: Set(*by),
    });
    let table = Expr::col((Entity, Column::Contacts));
    let added = OnConflict::columns([Column::Workspace, Column::Name])
        .value(Column::Contacts, table.add(Expr::cust("excluded.contacts")))
        .to_owned();
    insert_rows(db, rows, Some(&added)).await?;
    if is_less {
        let names = workspaces.iter().map(|workspace| workspace.as_str());
        Entity::delete_many()
            .filter(Column::Workspace.is_in(names))
            .filter(COLUMN.contacts.lte(0))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// The first names of a workspace.
pub(crate) async fn names(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    limit: u64,
) -> Result<Vec<String>, StoreError> {
    let names = Entity::find()
        .select_only()
        .column(Column::Name)
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .order_by_asc(Column::Name)
        .limit(limit);
    Ok(names.into_tuple().all(db).await?)
}
