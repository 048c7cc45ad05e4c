//! Table `ends`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, guarded};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::turns::Fanning;
use crate::domain::{End, EndKey, FanOutProgress, Key};

const TABLE: &str = "ends";

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "ends")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub run: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub rev: i64,
    pub version: i64,
    pub prior_version: i64,
    pub fanning: bool,
    pub state: String,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(broken)
}

pub(super) async fn load(
    db: &impl ConnectionTrait,
    keys: &[&EndKey],
) -> Result<Vec<End>, StoreError> {
    let mut ends = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS_PER_STATEMENT) {
        let mut any = Condition::any();
        for key in chunk {
            let one = Condition::all()
                .add(COLUMN.workspace.eq(key.workspace.as_str()))
                .add(COLUMN.run.eq(key.run.to_string()))
                .add(COLUMN.rev.eq(number(key.rev)?));
            any = any.add(one);
        }
        for row in Entity::find().filter(any).all(db).await? {
            ends.push(serde_json::from_str(&row.state).map_err(broken)?);
        }
    }
    Ok(ends)
}

impl Fanning for EndKey {
    async fn fanning(
        db: &impl ConnectionTrait,
        behind: u64,
        limit: u64,
    ) -> Result<Vec<Self>, StoreError> {
        let rows = Entity::find()
            // In the words of its index.
            .filter(Expr::col(Column::Fanning))
            .order_by_asc(Column::CreatedAt)
            .offset(behind)
            .limit(limit)
            .select_only()
            .column(Column::Workspace)
            .column(Column::Run)
            .column(Column::Rev)
            .into_tuple::<(String, String, i64)>()
            .all(db)
            .await?;
        let key = |(workspace, run, rev): (String, String, i64)| {
            Ok(Self {
                workspace: workspace.parse().map_err(broken)?,
                run: run.parse().map_err(broken)?,
                rev: u64::try_from(rev).map_err(broken)?,
            })
        };
        rows.into_iter().map(key).collect()
    }
}

/// Saves them under their guards; returns those that lost.
pub(super) async fn save(
    db: &impl ConnectionTrait,
    ends: &[(&End, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let columns = ["fanning", "state", "updated_at"];
    let mut losers = Vec::new();
    for chunk in ends.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(end, read)| active(end, *read, now));
        let won: HashSet<(String, String, i64)> =
            Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                .on_conflict(guarded(TABLE, &["workspace", "run", "rev"], &columns))
                .exec_with_returning_keys(db)
                .await?
                .into_iter()
                .collect();
        for (end, _) in chunk {
            let key = EndKey::of(&end.workspace, &end.end);
            let row = (
                key.workspace.to_string(),
                key.run.to_string(),
                number(key.rev)?,
            );
            if !won.contains(&row) {
                losers.push(Key::End(key));
            }
        }
    }
    Ok(losers)
}

fn active(end: &End, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    let EndKey {
        workspace,
        run,
        rev,
    } = EndKey::of(&end.workspace, &end.end);
    Ok(ActiveModel {
        workspace: Set(workspace.to_string()),
        run: Set(run.to_string()),
        rev: Set(number(rev)?),
        version: Set(number(end.version)?),
        prior_version: Set(number(read)?),
        fanning: Set(end.fan != FanOutProgress::Done),
        state: Set(serde_json::to_string(end).map_err(broken)?),
        created_at: Set(now),
        updated_at: Set(now),
    })
}

/// Some ends that were told before an instant, by workspace and run.
pub(super) async fn old(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<(String, String)>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.created_at.lt(before))
        .order_by_asc(Column::CreatedAt)
        .limit(limit)
        .select_only()
        .column(Column::Workspace)
        .column(Column::Run)
        .into_tuple();
    Ok(rows.all(db).await?)
}

/// Forgets those that were told before an instant.
pub(super) async fn forget(
    db: &impl ConnectionTrait,
    of: &[(String, String)],
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let key = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Run)]);
    Entity::delete_many()
        .filter(key.in_tuples(of.iter().cloned()))
        .filter(COLUMN.created_at.lt(before))
        .exec(db)
        .await?;
    Ok(())
}
