//! The rows of the user directory: `users`, `user_roles` (of active users) and `sync_cursors`.
//!
//! Only numbered user changes of the handoff service change them. The statements join the caller's transaction.
//! `holdpoint_migrations` creates the tables.

pub mod row;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdpoint_contracts::handoff::{self, UserChange, UserView};
use holdpoint_ids::{RoleName, UserName, Workspace};
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError};
use sea_orm::sea_query::{Alias, Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};

use row::{position, role, user};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: UserName,
    pub email: Option<String>,
    /// In alphabetical order.
    pub roles: Vec<RoleName>,
    pub active: bool,
}

/// Finds a user by name.
///
/// # Errors
/// [`StoreError`]: the database is unavailable or a row cannot be read.
pub async fn find(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    name: &UserName,
) -> Result<Option<User>, StoreError> {
    let found = find_all(db, workspace, std::slice::from_ref(name)).await?;
    Ok(found.into_iter().next())
}

/// Finds users by name; unknown ones are left out.
///
/// # Errors
/// As [`find`].
pub async fn find_all(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    names: &[UserName],
) -> Result<Vec<User>, StoreError> {
    let mut users = Vec::with_capacity(names.len());
    for chunk in names.chunks(ROWS_PER_STATEMENT) {
        let rows = user::Entity::find()
            .filter(user::Column::Workspace.eq(workspace.as_str()))
            .filter(user::Column::Name.is_in(chunk.iter().map(UserName::as_str)))
            .all(db)
            .await?;
        for row in rows {
            users.push(read(row)?);
        }
    }
    Ok(users)
}

/// Finds users of several workspaces; unknown ones are left out.
///
/// # Errors
/// As [`find`].
pub async fn find_keys(
    db: &impl ConnectionTrait,
    keys: &BTreeSet<(Workspace, UserName)>,
) -> Result<HashMap<(Workspace, UserName), User>, StoreError> {
    let keys: Vec<_> = keys.iter().collect();
    let columns = [user::Column::Workspace, user::Column::Name];
    let mut users = HashMap::new();
    for chunk in keys.chunks(ROWS_PER_STATEMENT) {
        let values = chunk.iter();
        let values = values.map(|(workspace, name)| (workspace.as_str(), name.as_str()));
        let rows = user::Entity::find()
            .filter(Expr::tuple(columns.map(Expr::col)).in_tuples(values))
            .all(db)
            .await?;
        for row in rows {
            let workspace = row.workspace.parse().map_err(user::Entity::broken)?;
            let user = read(row)?;
            users.insert((workspace, user.name.clone()), user);
        }
    }
    Ok(users)
}

fn read(row: user::Model) -> Result<User, StoreError> {
    Ok(User {
        name: row.name.parse().map_err(user::Entity::broken)?,
        email: row.email,
        roles: serde_json::from_str(&row.roles).map_err(user::Entity::broken)?,
        active: row.active,
    })
}

/// Active users with a role in the order of names, after `after`, at most `limit`.
///
/// # Errors
/// As [`find`].
pub async fn members(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    role: &RoleName,
    after: Option<&UserName>,
    limit: u64,
) -> Result<Vec<UserName>, StoreError> {
    let names = role::Entity::find()
        .filter(role::Column::Workspace.eq(workspace.as_str()))
        .filter(role::Column::Role.eq(role.as_str()))
        .filter(role::Column::Name.gt(after.map(UserName::as_str).unwrap_or_default()))
        .order_by_asc(role::Column::Name)
        .limit(limit)
        .select_only()
        .column(role::Column::Name)
        .into_tuple::<String>()
        .all(db)
        .await?;
    names
        .into_iter()
        .map(|name| name.parse().map_err(user::Entity::broken))
        .collect()
}

/// Those of these roles that an active user has.
///
/// # Errors
/// As [`find`].
pub async fn staffed_roles(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    roles: &[&RoleName],
) -> Result<BTreeSet<RoleName>, StoreError> {
    let mut staffed = BTreeSet::new();
    for chunk in roles.chunks(ROWS_PER_STATEMENT) {
        let names = role::Entity::find()
            .filter(role::Column::Workspace.eq(workspace.as_str()))
            .filter(role::Column::Role.is_in(chunk.iter().map(|role| role.as_str())))
            .select_only()
            .column(role::Column::Role)
            .distinct()
            .into_tuple::<String>()
            .all(db)
            .await?;
        for name in names {
            staffed.insert(name.parse().map_err(user::Entity::broken)?);
        }
    }
    Ok(staffed)
}

/// The first active users and their roles as texts that address them.
///
/// # Errors
/// As [`find`].
pub async fn recipients(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    limit: u64,
) -> Result<BTreeSet<String>, StoreError> {
    let mut texts = BTreeSet::new();
    for user in active(db, workspace, limit).await? {
        texts.insert(format!("@user.{}", user.name));
        texts.extend(user.roles.iter().map(|role| format!("@role.{role}")));
    }
    Ok(texts)
}

/// The first active users in the order of names.
///
/// # Errors
/// As [`find`].
pub async fn active(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    limit: u64,
) -> Result<Vec<User>, StoreError> {
    let rows = user::Entity::find()
        .filter(user::Column::Workspace.eq(workspace.as_str()))
        .filter(user::Column::Active.eq(true))
        .order_by_asc(user::Column::Name)
        .limit(limit)
        .all(db)
        .await?;
    rows.into_iter().map(read).collect()
}

/// Whether the directory has any user of a workspace.
///
/// # Errors
/// [`StoreError`]: the database is unavailable.
pub async fn any_in(db: &impl ConnectionTrait, workspace: &Workspace) -> Result<bool, StoreError> {
    let known = user::Entity::find()
        .filter(user::Column::Workspace.eq(workspace.as_str()))
        .count(db)
        .await?;
    Ok(known > 0)
}

/// Number of the last change that was applied.
///
/// # Errors
/// As [`find`].
pub async fn position(db: &impl ConnectionTrait) -> Result<u64, StoreError> {
    let found = position::Entity::find_by_id(handoff::SERVICE)
        .one(db)
        .await?;
    let seq = found.map_or(0, |row| row.seq);
    u64::try_from(seq).map_err(position::Entity::broken)
}

/// Applies changes and moves the cursor; must be called within a transaction. Of two states of a user the
/// one with the higher version stays, in whatever order they arrive.
///
/// # Errors
/// [`StoreError`]: the database refuses.
pub async fn apply(db: &impl ConnectionTrait, changes: &[UserChange]) -> Result<(), StoreError> {
    let Some(last) = changes.iter().map(|change| change.seq).max() else {
        return Ok(());
    };
    upsert(db, changes).await?;
    let seq = i64::try_from(last).map_err(position::Entity::broken)?;
    let row = position::ActiveModel {
        source: Set(handoff::SERVICE.to_owned()),
        seq: Set(seq),
    };
    let on_conflict = OnConflict::column(position::Column::Source)
        .update_column(position::Column::Seq)
        .action_and_where(is_older("sync_cursors", "seq"))
        .to_owned();
    position::Entity::insert(row)
        .on_conflict(on_conflict)
        .exec_without_returning(db)
        .await?;
    Ok(())
}

type Newest<'a> = BTreeMap<(&'a Workspace, &'a UserName), &'a UserView>;

async fn upsert(db: &impl ConnectionTrait, changes: &[UserChange]) -> Result<(), StoreError> {
    // Postgres refuses to touch one row twice in a statement.
    let mut newest = Newest::new();
    for UserChange {
        workspace, user, ..
    } in changes
    {
        let kept = newest.entry((workspace, &user.name)).or_insert(user);
        if kept.version < user.version {
            *kept = user;
        }
    }
    let mut taken = BTreeSet::new();
    let rows = newest
        .iter()
        .map(|((workspace, _name), user)| as_row(workspace, user))
        .collect::<Result<Vec<_>, _>>()?;
    for chunk in rows.chunks(ROWS_PER_STATEMENT) {
        let on_conflict = OnConflict::columns([user::Column::Workspace, user::Column::Name])
            .update_columns([
                user::Column::Email,
                user::Column::Roles,
                user::Column::Active,
                user::Column::Version,
            ])
            .action_and_where(is_older("users", "version"))
            .to_owned();
        let keys = user::Entity::insert_many(chunk.to_vec())
            .on_conflict(on_conflict)
            .exec_with_returning_keys(db)
            .await?;
        taken.extend(keys);
    }
    newest.retain(|(workspace, name), _user| {
        taken.contains(&(workspace.to_string(), name.to_string()))
    });
    replace_roles(db, &newest).await
}

/// Replaces the roles of users whose rows were just written.
async fn replace_roles(db: &impl ConnectionTrait, users: &Newest<'_>) -> Result<(), StoreError> {
    let mut names: BTreeMap<&Workspace, Vec<&str>> = BTreeMap::new();
    for (workspace, name) in users.keys() {
        names.entry(workspace).or_default().push(name.as_str());
    }
    for (workspace, names) in names {
        for chunk in names.chunks(ROWS_PER_STATEMENT) {
            role::Entity::delete_many()
                .filter(role::Column::Workspace.eq(workspace.as_str()))
                .filter(role::Column::Name.is_in(chunk.iter().copied()))
                .exec(db)
                .await?;
        }
    }
    let active = users.iter().filter(|(_key, user)| user.active);
    let rows: Vec<_> = active
        .flat_map(|((workspace, name), user)| {
            let roles: BTreeSet<_> = user.roles.iter().collect();
            roles.into_iter().map(move |role| role::ActiveModel {
                workspace: Set(workspace.to_string()),
                role: Set(role.to_string()),
                name: Set(name.to_string()),
            })
        })
        .collect();
    for chunk in rows.chunks(ROWS_PER_STATEMENT) {
        role::Entity::insert_many(chunk.to_vec())
            .exec_without_returning(db)
            .await?;
    }
    Ok(())
}

fn as_row(workspace: &Workspace, user: &UserView) -> Result<user::ActiveModel, StoreError> {
    Ok(user::ActiveModel {
        workspace: Set(workspace.to_string()),
        name: Set(user.name.to_string()),
        email: Set(user.email.clone()),
        roles: Set(serde_json::to_string(&user.roles).map_err(user::Entity::broken)?),
        active: Set(user.active),
        version: Set(i64::try_from(user.version).map_err(user::Entity::broken)?),
    })
}

/// Whether the present row is older than the new one.
fn is_older(table: &'static str, column: &'static str) -> Expr {
    let present = Expr::col((Alias::new(table), Alias::new(column)));
    present.lt(Expr::col((Alias::new("excluded"), Alias::new(column))))
}
