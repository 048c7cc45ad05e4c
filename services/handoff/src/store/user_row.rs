//! Table `users`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{RoleName, UserName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, guarded, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::words::{has_word, words};
use crate::domain::{Key, User};

const TABLE: &str = "users";

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

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

fn read(row: &Model) -> Result<User, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

pub(crate) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    names: &[&UserName],
) -> Result<Vec<User>, StoreError> {
    let mut users = Vec::with_capacity(names.len());
    for chunk in names.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.name.is_in(chunk.iter().map(|name| name.as_str())))
            .all(db)
            .await?;
        for row in &rows {
            users.push(read(row)?);
        }
    }
    Ok(users)
}

/// Users by name, after one.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<User>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.name.gt(after.unwrap_or_default()))
        .order_by_asc(Column::Name)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| row.name.clone(),
        |row| read(&row),
    ))
}

/// The active owners of workspaces; one without any is there with none.
pub(crate) async fn owners(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, BTreeSet<UserName>)>, StoreError> {
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let rows = Entity::find()
        .filter(
            COLUMN
                .workspace
                .is_in(workspaces.iter().map(|one| one.as_str())),
        )
        .filter(COLUMN.is_active_owner.eq(true))
        .select_only()
        .column(Column::Workspace)
        .column(Column::Name)
        .into_tuple::<(String, String)>()
        .all(db)
        .await?;
    let mut found: BTreeMap<Workspace, BTreeSet<UserName>> = workspaces
        .iter()
        .map(|workspace| ((*workspace).clone(), BTreeSet::new()))
        .collect();
    for (workspace, name) in rows {
        let owners = found.entry(workspace.parse().map_err(broken)?);
        owners.or_default().insert(name.parse().map_err(broken)?);
    }
    Ok(found.into_iter().collect())
}

/// The active members of roles.
pub(crate) async fn members(
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
                .add(has_word(Column::Roles, role.as_str()));
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
    let of = |(workspace, role): &(&Workspace, &RoleName)| {
        let word = format!(" {role} ");
        let members = rows
            .iter()
            .filter(|(place, _, roles)| place == workspace.as_str() && roles.contains(&word))
            .map(|(_, name, _)| name.parse().map_err(broken));
        let members = members.collect::<Result<_, StoreError>>()?;
        Ok(((*workspace).clone(), (*role).clone(), members))
    };
    roles.iter().map(of).collect()
}

/// The first user whose requests, or whose role's, are on their way to others.
pub(crate) async fn leaving(
    db: &impl ConnectionTrait,
    after: Option<&(Workspace, UserName)>,
) -> Result<Option<User>, StoreError> {
    let mut later = Condition::all();
    if let Some((workspace, name)) = after {
        let of_workspace = Condition::all()
            .add(COLUMN.workspace.eq(workspace.as_str()))
            .add(COLUMN.name.gt(name.as_str()));
        let behind = Condition::any()
            .add(COLUMN.workspace.gt(workspace.as_str()))
            .add(of_workspace);
        later = later.add(behind);
    }
    let row = Entity::find()
        // In the words of its index.
        .filter(Expr::col(Column::IsLeaving))
        .filter(later)
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Name)
        .one(db)
        .await?;
    row.as_ref().map(read).transpose()
}

/// Whether workspaces have any user.
pub(crate) async fn inhabited(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, bool)>, StoreError> {
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let found: HashSet<String> = Entity::find()
        .filter(
            COLUMN
                .workspace
                .is_in(workspaces.iter().map(|one| one.as_str())),
        )
        .select_only()
        .column(Column::Workspace)
        .distinct()
        .into_tuple::<String>()
        .all(db)
        .await?
        .into_iter()
        .collect();
    let any = |workspace: &Workspace| found.contains(workspace.as_str());
    Ok(workspaces
        .iter()
        .map(|one| ((*one).clone(), any(one)))
        .collect())
}

pub(crate) async fn save(
    db: &impl ConnectionTrait,
    users: &[(&User, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let columns = [
        "is_active_owner",
        "state",
        "updated_at",
        "roles",
        "is_active",
        "is_leaving",
    ];
    let mut losers = Vec::new();
    for chunk in users.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(user, read)| active(user, *read, now));
        let won: HashSet<(String, String)> =
            Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                .on_conflict(guarded(TABLE, &["workspace", "name"], &columns))
                .exec_with_returning_keys(db)
                .await?
                .into_iter()
                .collect();
        let has_lost =
            |user: &User| !won.contains(&(user.workspace.to_string(), user.name.to_string()));
        let lost = chunk.iter().filter(|(user, _)| has_lost(user));
        losers.extend(lost.map(|(one, _)| Key::User(one.workspace.clone(), one.name.clone())));
    }
    Ok(losers)
}

fn active(user: &User, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        workspace: Set(user.workspace.to_string()),
        name: Set(user.name.to_string()),
        version: Set(i64::try_from(user.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        is_active_owner: Set(user.is_active_owner()),
        state: Set(serde_json::to_string(user).map_err(broken)?),
        updated_at: Set(now),
        roles: Set(words(user.roles.iter().map(RoleName::as_str))),
        is_active: Set(user.active),
        is_leaving: Set(user.is_followed()),
    })
}
