//! Table `users`.

use std::collections::BTreeSet;

use holdpoint_ids::{RoleName, UserName, Workspace};
use holdpoint_store::{BrokenRow as _, StateRow, StoreError, StoredState};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::list_columns::{has_token, join_tokens};
use super::name_groups::group_names;
use crate::domain::User;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "users")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub version: i64,
    pub prior_version: i64,
    pub is_active_owner: bool,
    pub state: String,
    pub updated_at: DateTimeUtc,
    pub roles: String,
    pub is_active: bool,
    pub is_leaving: bool,
}

impl ActiveModelBehavior for ActiveModel {}

impl StateRow for Entity {
    type State = User;

    fn state(row: &Model) -> &str {
        &row.state
    }

    fn version(user: &User) -> u64 {
        user.version
    }

    fn row(user: &User, stored: StoredState) -> Result<ActiveModel, StoreError> {
        Ok(ActiveModel {
            workspace: Set(user.workspace.to_string()),
            name: Set(user.name.to_string()),
            version: Set(stored.version),
            prior_version: Set(stored.prior_version),
            is_active_owner: Set(user.is_active_owner()),
            state: Set(stored.state),
            updated_at: Set(stored.now),
            roles: Set(join_tokens(user.roles.iter().map(RoleName::as_str))),
            is_active: Set(user.active),
            is_leaving: Set(user.is_followed()),
        })
    }
}

/// Users in the order of their names, after the given name.
pub(crate) async fn list_users(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<User>, StoreError> {
    let query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.name.gt(after.unwrap_or_default()))
        .order_by_asc(Column::Name);
    Entity::page(db, query, limit).await
}

/// The active owners of workspaces. A workspace without any has an empty set.
pub(crate) async fn list_owners(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, BTreeSet<UserName>)>, StoreError> {
    let query = Entity::find()
        .filter(COLUMN.is_active_owner.eq(true))
        .select_only()
        .column(Column::Workspace)
        .column(Column::Name);
    group_names(db, query, Column::Workspace, workspaces).await
}

/// The active members of roles.
pub(crate) async fn list_members(
    db: &impl ConnectionTrait,
    roles: &[(&Workspace, &RoleName)],
) -> Result<Vec<(Workspace, RoleName, BTreeSet<UserName>)>, StoreError> {
    if roles.is_empty() {
        return Ok(Vec::new());
    }
    let any = roles
        .iter()
        .fold(Condition::any(), |any, (workspace, role)| {
            let of_role = Condition::all()
                .add(COLUMN.workspace.eq(workspace.as_str()))
                .add(has_token(Column::Roles, role.as_str()));
            any.add(of_role)
        });
    let rows = Entity::find()
        .filter(COLUMN.is_active.eq(true))
        .filter(any)
        .select_only()
        .column(Column::Workspace)
        .column(Column::Name)
        .column(Column::Roles)
        .into_tuple::<(String, String, String)>()
        .all(db)
        .await?;
    let with_members = |(workspace, role): &(&Workspace, &RoleName)| {
        let token = format!(" {role} ");
        let members = rows
            .iter()
            .filter(|(place, _, roles)| place == workspace.as_str() && roles.contains(&token))
            .map(|(_, name, _)| name.parse().map_err(Entity::broken));
        let members = members.collect::<Result<_, StoreError>>()?;
        Ok(((*workspace).clone(), (*role).clone(), members))
    };
    roles.iter().map(with_members).collect()
}

/// The first user whose requests, or the requests of a lost role, have to be reassigned.
pub(crate) async fn find_leaving(
    db: &impl ConnectionTrait,
    after: Option<&(Workspace, UserName)>,
) -> Result<Option<User>, StoreError> {
    let mut later = Condition::all();
    if let Some((workspace, name)) = after {
        let of_workspace = Condition::all()
            .add(COLUMN.workspace.eq(workspace.as_str()))
            .add(COLUMN.name.gt(name.as_str()));
        let after = Condition::any()
            .add(COLUMN.workspace.gt(workspace.as_str()))
            .add(of_workspace);
        later = later.add(after);
    }
    let query = Entity::find()
        // SQLite uses the partial index only for the same expression as in the index.
        .filter(Expr::col(Column::IsLeaving))
        .filter(later)
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Name);
    Entity::first(db, query).await
}

/// Whether workspaces have any user.
pub(crate) async fn find_inhabited(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, bool)>, StoreError> {
    let query = Entity::find()
        .select_only()
        .column(Column::Workspace)
        .column_as(Column::Name.min(), "name")
        .group_by(Column::Workspace);
    let first = group_names::<_, UserName>(db, query, Column::Workspace, workspaces).await?;
    let is_inhabited = |(workspace, name): (_, BTreeSet<_>)| (workspace, !name.is_empty());
    Ok(first.into_iter().map(is_inhabited).collect())
}
