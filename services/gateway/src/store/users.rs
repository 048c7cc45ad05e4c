//! The read copy of users: kept from the handoff service's numbered facts, never changed otherwise.

pub(super) mod row;

use std::collections::BTreeMap;

use holdpoint_contracts::handoff::{self, UserFact, UserView};
use holdpoint_ids::{RoleName, UserName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, begin_write};
use sea_orm::sea_query::{Alias, Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait,
    PaginatorTrait, QueryFilter,
};

use row::{position, user};

/// What the gateway knows of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) roles: Vec<RoleName>,
    pub(crate) active: bool,
}

/// One user, if the copy has one of that name.
pub(crate) async fn find(
    readers: &DatabaseConnection,
    workspace: &Workspace,
    name: &UserName,
) -> Result<Option<User>, StoreError> {
    let key = (workspace.to_string(), name.to_string());
    let found = user::Entity::find_by_id(key).one(readers).await?;
    found
        .map(|row| {
            let roles = serde_json::from_str(&row.roles)
                .map_err(|error| StoreError::broken("users", error))?;
            let active = row.active;
            Ok(User { roles, active })
        })
        .transpose()
}

/// Whether anybody is known in a workspace.
pub(crate) async fn any_in(
    readers: &DatabaseConnection,
    workspace: &Workspace,
) -> Result<bool, StoreError> {
    let known = user::Entity::find()
        .filter(user::Column::Workspace.eq(workspace.as_str()))
        .count(readers)
        .await?;
    Ok(known > 0)
}

/// Number of the last fact that was applied.
pub(crate) async fn position(readers: &DatabaseConnection) -> Result<u64, StoreError> {
    let found = position::Entity::find_by_id(handoff::SERVICE)
        .one(readers)
        .await?;
    let seq = found.map_or(0, |row| row.seq);
    u64::try_from(seq).map_err(|error| StoreError::broken("fact_positions", error))
}

/// Takes facts over and notes how far it has come, in one transaction. Of two states of one user
/// the one with the higher version stays, in whatever order they come.
pub(crate) async fn apply(
    writer: &DatabaseConnection,
    facts: &[UserFact],
) -> Result<(), StoreError> {
    let Some(last) = facts.iter().map(|fact| fact.seq).max() else {
        return Ok(());
    };
    let tx = begin_write(writer).await?;
    let users = facts.iter().map(|fact| (&fact.workspace, &fact.user));
    upsert(&tx, users).await?;
    let seq = i64::try_from(last).map_err(|error| StoreError::broken("fact_positions", error))?;
    let row = position::ActiveModel {
        source: Set(handoff::SERVICE.to_owned()),
        seq: Set(seq),
    };
    let higher = newer("fact_positions", "seq");
    let on_conflict = OnConflict::column(position::Column::Source)
        .update_column(position::Column::Seq)
        .action_and_where(higher)
        .to_owned();
    position::Entity::insert(row)
        .on_conflict(on_conflict)
        .exec_without_returning(&tx)
        .await?;
    Ok(tx.commit().await?)
}

/// What the owner has just said of one user, ahead of its fact.
pub(crate) async fn take(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    user: &UserView,
) -> Result<(), StoreError> {
    upsert(writer, std::iter::once((workspace, user))).await
}

async fn upsert<'a>(
    db: &impl ConnectionTrait,
    users: impl Iterator<Item = (&'a Workspace, &'a UserView)>,
) -> Result<(), StoreError> {
    // Postgres refuses to touch one row twice in a statement.
    let mut newest: BTreeMap<(&Workspace, &UserName), &UserView> = BTreeMap::new();
    for (workspace, user) in users {
        let kept = newest.entry((workspace, &user.name)).or_insert(user);
        if kept.version < user.version {
            *kept = user;
        }
    }
    let rows = newest
        .into_iter()
        .map(|((workspace, _name), user)| as_row(workspace, user))
        .collect::<Result<Vec<_>, _>>()?;
    for chunk in rows.chunks(ROWS_PER_STATEMENT) {
        let on_conflict = OnConflict::columns([user::Column::Workspace, user::Column::Name])
            .update_columns([
                user::Column::Roles,
                user::Column::Active,
                user::Column::Version,
            ])
            .action_and_where(newer("users", "version"))
            .to_owned();
        user::Entity::insert_many(chunk.to_vec())
            .on_conflict(on_conflict)
            .exec_without_returning(db)
            .await?;
    }
    Ok(())
}

fn as_row(workspace: &Workspace, user: &UserView) -> Result<user::ActiveModel, StoreError> {
    let broken = |error: &dyn std::fmt::Display| StoreError::broken("users", error);
    Ok(user::ActiveModel {
        workspace: Set(workspace.to_string()),
        name: Set(user.name.to_string()),
        roles: Set(serde_json::to_string(&user.roles).map_err(|error| broken(&error))?),
        active: Set(user.active),
        version: Set(i64::try_from(user.version).map_err(|error| broken(&error))?),
    })
}

/// The row that is there is behind the one that comes.
fn newer(table: &'static str, column: &'static str) -> Expr {
    let there = Expr::col((Alias::new(table), Alias::new(column)));
    there.lt(Expr::col((Alias::new("excluded"), Alias::new(column))))
}
