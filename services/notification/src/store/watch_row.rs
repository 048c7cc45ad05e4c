//! Table `watches`.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{WatchStatus, Watched};
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::{BrokenRow as _, ColumnRow, ROWS_PER_STATEMENT, StoreError, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{Condition, PaginatorTrait, QueryOrder, QuerySelect};

use super::event_row::end_of_watched_run;
use super::key_columns::{HoldRow, delete_rows, number};
use crate::domain::{Need, Watch};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "watches")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub person: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub target: String,
    pub since: Option<DateTimeUtc>,
    pub version: i64,
    pub prior_version: i64,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

impl ColumnRow for Entity {
    type State = Watch;

    fn read(row: Model) -> Result<Watch, StoreError> {
        Ok(Watch {
            workspace: row.workspace.parse().map_err(Self::broken)?,
            person: row.person.parse().map_err(Self::broken)?,
            of: row.target.parse().map_err(Self::broken)?,
            since: row.since,
            version: u64::try_from(row.version).map_err(Self::broken)?,
        })
    }

    fn row(
        watch: &Watch,
        prior_version: i64,
        now: DateTime<Utc>,
    ) -> Result<ActiveModel, StoreError> {
        Ok(ActiveModel {
            workspace: Set(watch.workspace.to_string()),
            person: Set(watch.person.to_string()),
            target: Set(watch.of.to_string()),
            since: Set(watch.since),
            version: Set(number::<Self>(watch.version)?),
            prior_version: Set(prior_version),
            updated_at: Set(now),
        })
    }
}

/// A run that has ended is not watched any more; its watch is deleted after a while.
fn watched_by(workspace: &Workspace, person: &UserName) -> Condition {
    Condition::all()
        .add(COLUMN.workspace.eq(workspace.as_str()))
        .add(COLUMN.person.eq(person.as_str()))
        .add(COLUMN.since.is_not_null())
        .add(Expr::not_exists(end_of_watched_run()))
}

/// What a person watches, by id.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
) -> Result<Vec<Watch>, StoreError> {
    let rows = Entity::find()
        .filter(watched_by(workspace, person))
        .order_by_asc(Column::Target)
        .all(db)
        .await?;
    let name = |row: &Model| row.target.clone();
    Ok(readable(rows, u64::MAX, name, Entity::read))
}

pub(super) async fn count(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
) -> Result<u64, StoreError> {
    let found = Entity::find().filter(watched_by(workspace, person));
    Ok(found.count(db).await?)
}

/// Whether a person watches something, and how many people do.
pub(crate) async fn watching(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
    of: &Watched,
) -> Result<WatchStatus, StoreError> {
    let all = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.target.eq(of.to_string()))
        .filter(COLUMN.since.is_not_null());
    let own = all.clone().filter(COLUMN.person.eq(person.as_str()));
    Ok(WatchStatus {
        is_watched: own.count(db).await? > 0,
        watchers: all.count(db).await?,
    })
}

/// The fields of [`Need::Watchers`].
struct Wanted<'n> {
    need: &'n Need,
    of: &'n [Watched],
    after: Option<&'n UserName>,
    limit: usize,
}

/// The watchers that needs ask for. Most targets have none, so one statement a workspace finds the watched
/// targets, and only these are queried for names.
pub(super) async fn watchers(
    db: &impl ConnectionTrait,
    needs: &[Need],
) -> Result<Vec<(Need, Vec<UserName>)>, StoreError> {
    let mut wanted: BTreeMap<&Workspace, Vec<Wanted<'_>>> = BTreeMap::new();
    for need in needs {
        if let Need::Watchers {
            workspace,
            of,
            after,
            limit,
        } = need
        {
            wanted.entry(workspace).or_default().push(Wanted {
                need,
                of,
                after: after.as_ref(),
                limit: *limit,
            });
        }
    }
    let mut found = Vec::new();
    for (workspace, all) in wanted {
        let targets = all.iter().flat_map(|one| one.of).map(Watched::to_string);
        let watched = watched(db, workspace, targets.collect()).await?;
        for one in all {
            let is_watched = |target: &String| watched.contains(target);
            let targets: Vec<_> = one.of.iter().map(Watched::to_string).collect();
            let of: Vec<_> = targets.into_iter().filter(is_watched).collect();
            let names = if of.is_empty() {
                Vec::new()
            } else {
                names(db, workspace, &of, (one.after, one.limit)).await?
            };
            found.push((one.need.clone(), names));
        }
    }
    Ok(found)
}

/// The targets that have a watcher.
async fn watched(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    targets: BTreeSet<String>,
) -> Result<HashSet<String>, StoreError> {
    let targets: Vec<_> = targets.into_iter().collect();
    let mut found = HashSet::new();
    for chunk in targets.chunks(ROWS_PER_STATEMENT) {
        let some = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.target.is_in(chunk))
            .filter(COLUMN.since.is_not_null())
            .select_only()
            .column(Column::Target)
            .distinct()
            .into_tuple::<String>()
            .all(db)
            .await?;
        found.extend(some);
    }
    Ok(found)
}

/// A page of the people who watch any of the targets: each once, by name.
async fn names(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    targets: &[String],
    (after, limit): (Option<&UserName>, usize),
) -> Result<Vec<UserName>, StoreError> {
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.target.is_in(targets))
        .filter(COLUMN.since.is_not_null());
    if let Some(after) = after {
        query = query.filter(COLUMN.person.gt(after.as_str()));
    }
    let names = query
        .select_only()
        .column(Column::Person)
        .distinct()
        .order_by_asc(Column::Person)
        .limit(u64::try_from(limit).unwrap_or(u64::MAX))
        .into_tuple::<String>()
        .all(db)
        .await?;
    let names = names
        .into_iter()
        .map(|name| name.parse().map_err(Entity::broken));
    names.collect()
}

pub(super) async fn delete_ended(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::delete_many()
        .filter(COLUMN.since.is_null())
        .filter(COLUMN.updated_at.lt(before))
        .exec(db)
        .await?;
    Ok(())
}

/// Deletes the watches of deleted requests and runs. The end of a run has a hold id of its run with number 0,
/// and so has a standalone request. Both targets are deleted, because their ids never collide.
pub(super) async fn delete_targets(
    db: &impl ConnectionTrait,
    holds: &[HoldRow],
) -> Result<(), StoreError> {
    let targets = |(workspace, hold): &HoldRow| {
        let run = hold
            .strip_suffix("-0")
            .and_then(|hold| hold.strip_prefix("hold_"));
        let run = run.map(|run| (workspace.clone(), format!("run_{run}")));
        std::iter::once((workspace.clone(), hold.clone())).chain(run)
    };
    let columns = [Column::Workspace, Column::Target];
    delete_rows::<Entity>(db, columns, holds.iter().flat_map(targets)).await
}
