//! Table `run_limits`: the places of agents with `concurrency`, the runs that wait for one, the turns of agents with
//! `rate`, and the starts of agents that start once. Runs without such limits have no row.
//!
//! Three unique indexes decide between replicas. The loser of a race decides again.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_ids::{RunId, Workspace};
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Alias, Asterisk, OnConflict, Query, SelectStatement, UnionType};
use sea_orm::{QueryOrder as _, QuerySelect as _};

use super::run_row;
use crate::domain::need::{Places, QUEUE_SEEN_MAX, STARTS_SEEN_MAX};
use crate::domain::run::LimitRow;
use crate::domain::{Effect, Fact, Need};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "run_limits")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: Uuid,
    pub workspace: String,
    pub once_key: Option<String>,
    /// While the run holds or wants a place.
    pub place_key: Option<String>,
    /// None while it waits.
    pub place: Option<i32>,
    pub wanted_at: Option<DateTimeUtc>,
    pub rate_key: Option<String>,
    /// Of its start among those of the key, from 1.
    pub start_number: Option<i64>,
    pub starts_at: Option<DateTimeUtc>,
}

impl ActiveModelBehavior for ActiveModel {}

/// Keys of one statement: SQLite takes at most 500 parts of a union.
const KEYS_PER_STATEMENT: usize = 100;

/// A queued run with its key.
#[derive(Debug)]
pub(crate) struct QueuedRun {
    pub(crate) key: String,
    pub(crate) workspace: Workspace,
    pub(crate) run: RunId,
}

/// The places of each key. A key without a row has none.
pub(crate) async fn find_places(
    db: &impl ConnectionTrait,
    keys: &[&str],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut all: BTreeMap<String, Places> = BTreeMap::new();
    for chunk in keys.chunks(KEYS_PER_STATEMENT) {
        let taken = Entity::find()
            .filter(COLUMN.place_key.is_in(chunk.iter().copied()))
            .filter(COLUMN.place.is_not_null());
        for row in taken.all(db).await? {
            if let (Some(key), Some(place)) = (row.place_key, row.place) {
                let place = u32::try_from(place).map_err(Entity::broken)?;
                let places = all.entry(key).or_default();
                places.taken.insert(place, RunId::from_uuid(row.run_id));
            }
        }
    }
    for queued in first_queued(db, keys, QUEUE_SEEN_MAX + 1).await? {
        let places = all.entry(queued.key).or_default();
        if places.queue.len() < QUEUE_SEEN_MAX {
            places.queue.push(queued.run);
        } else {
            places.has_more = true;
        }
    }
    let facts = all.into_iter();
    Ok(facts
        .map(|(key, places)| (Need::Places(key), Fact::Places(Arc::new(places))))
        .collect())
}

/// The first runs of each queue, in order.
pub(crate) async fn first_queued(
    db: &impl ConnectionTrait,
    keys: &[impl AsRef<str>],
    limit: usize,
) -> Result<Vec<QueuedRun>, StoreError> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    for chunk in keys.chunks(KEYS_PER_STATEMENT) {
        let parts = chunk.iter().map(|key| first_of(key.as_ref(), limit));
        let Some(query) = union_all(parts) else {
            continue;
        };
        let rows = db
            .query_all_raw(db.get_database_backend().build(&query))
            .await?;
        for row in rows {
            let workspace: String = row.try_get("", "workspace")?;
            let run: Uuid = row.try_get("", "run_id")?;
            found.push(QueuedRun {
                key: row.try_get("", "place_key")?,
                workspace: workspace.parse().map_err(Entity::broken)?,
                run: RunId::from_uuid(run),
            });
        }
    }
    Ok(found)
}

fn first_of(key: &str, limit: u64) -> SelectStatement {
    Query::select()
        .columns([Column::PlaceKey, Column::Workspace, Column::RunId])
        .from(Entity)
        .and_where(Column::PlaceKey.eq(key))
        .and_where(Column::Place.is_null())
        .order_by(Column::WantedAt, sea_orm::Order::Asc)
        .order_by(Column::RunId, sea_orm::Order::Asc)
        .limit(limit)
        .to_owned()
}

/// The newest starts of each key.
pub(crate) async fn find_starts(
    db: &impl ConnectionTrait,
    keys: &[&str],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let limit = u64::try_from(STARTS_SEEN_MAX).unwrap_or(u64::MAX);
    let mut all: BTreeMap<String, Vec<(u64, DateTimeUtc)>> = BTreeMap::new();
    for chunk in keys.chunks(KEYS_PER_STATEMENT) {
        let parts = chunk.iter().map(|key| {
            Query::select()
                .columns([Column::RateKey, Column::StartNumber, Column::StartsAt])
                .from(Entity)
                .and_where(Column::RateKey.eq(*key))
                .order_by(Column::StartNumber, sea_orm::Order::Desc)
                .limit(limit)
                .to_owned()
        });
        let Some(query) = union_all(parts) else {
            continue;
        };
        for row in db
            .query_all_raw(db.get_database_backend().build(&query))
            .await?
        {
            let number: i64 = row.try_get("", "start_number")?;
            let number = u64::try_from(number).map_err(Entity::broken)?;
            let starts = all.entry(row.try_get("", "rate_key")?).or_default();
            starts.push((number, row.try_get("", "starts_at")?));
        }
    }
    let facts = all.into_iter().map(|(key, mut starts)| {
        starts.sort_by(|one, other| other.cmp(one));
        (Need::Starts(key), Fact::Starts(Arc::new(starts)))
    });
    Ok(facts.collect())
}

/// Both databases take an order and a limit in a part of a union only inside a subquery.
fn union_all(parts: impl Iterator<Item = SelectStatement>) -> Option<SelectStatement> {
    let mut parts = parts.map(|part| {
        Query::select()
            .column(Asterisk)
            .from_subquery(part, Alias::new("part"))
            .to_owned()
    });
    let mut all = parts.next()?;
    for part in parts {
        all.union(UnionType::All, part);
    }
    Some(all)
}

/// Keys with a queue, after the given one.
pub(crate) async fn queued_keys(
    db: &impl ConnectionTrait,
    after: &str,
    limit: u64,
) -> Result<Vec<String>, StoreError> {
    let keys = Entity::find()
        .select_only()
        .column(Column::PlaceKey)
        .distinct()
        .filter(COLUMN.place_key.gt(after))
        .filter(COLUMN.place.is_null())
        .order_by_asc(Column::PlaceKey)
        .limit(limit);
    let keys: Vec<Option<String>> = keys.into_tuple().all(db).await?;
    Ok(keys.into_iter().flatten().collect())
}

/// The runs that were started for these contacts or keys.
pub(crate) async fn find_started(
    db: &impl ConnectionTrait,
    keys: &[&str],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find().filter(COLUMN.once_key.is_in(chunk.iter().copied()));
        let rows = rows.all(db).await?;
        if rows.is_empty() {
            continue;
        }
        let ids: Vec<_> = rows
            .iter()
            .map(|row| RunId::from_uuid(row.run_id))
            .collect();
        let runs = run_row::with_ids(db, &ids).await?;
        let mut runs: BTreeMap<_, _> = runs.into_iter().map(|run| (run.id, run)).collect();
        for row in rows {
            let run = runs.remove(&RunId::from_uuid(row.run_id));
            if let (Some(key), Some(run)) = (row.once_key, run) {
                found.push((Need::StartedOnce(key), Fact::StartedRun(Arc::new(run))));
            }
        }
    }
    Ok(found)
}

/// Writes the limits among effects. The last ones of a run count. Free places come first, because the index is checked
/// row by row.
pub(crate) async fn upsert(db: &Transaction, effects: &[Effect]) -> Result<(), StoreError> {
    let mut newest: BTreeMap<RunId, (&LimitRow, &Workspace)> = BTreeMap::new();
    for effect in effects {
        if let Effect::Limits { workspace, row } = effect {
            newest.insert(row.run, (row, workspace));
        }
    }
    if newest.is_empty() {
        return Ok(());
    }
    let mut rows: Vec<_> = newest.into_values().collect();
    // Two replicas take the keys in the same order, so that neither waits for the other.
    rows.sort_by(|(one, _), (other, _)| order_of(one).cmp(&order_of(other)));
    let rows = rows
        .into_iter()
        .map(|(row, workspace)| active(row, workspace));
    let newest = OnConflict::column(Column::RunId)
        .update_columns([
            Column::PlaceKey,
            Column::Place,
            Column::WantedAt,
            Column::RateKey,
            Column::StartNumber,
            Column::StartsAt,
        ])
        .to_owned();
    insert_rows(db, rows.collect::<Result<Vec<_>, _>>()?, Some(&newest)).await
}

fn order_of(row: &LimitRow) -> impl Ord {
    let place = row.place.as_ref();
    let number = place.and_then(|place| place.number);
    let turn = row.start.as_ref().map(|(key, number, _)| (key, *number));
    let key = place.map(|place| &place.key);
    (number.is_some(), &row.once, turn, key, number, row.run)
}

fn active(row: &LimitRow, workspace: &Workspace) -> Result<ActiveModel, StoreError> {
    let place = row.place.as_ref();
    let number = place.and_then(|place| place.number);
    Ok(ActiveModel {
        run_id: Set(row.run.uuid()),
        workspace: Set(workspace.to_string()),
        once_key: Set(row.once.clone()),
        place_key: Set(place.map(|place| place.key.clone())),
        place: Set(number
            .map(i32::try_from)
            .transpose()
            .map_err(Entity::broken)?),
        wanted_at: Set(place.map(|place| place.since)),
        rate_key: Set(row.start.as_ref().map(|(key, ..)| key.clone())),
        start_number: Set(number_of_start(row)?),
        starts_at: Set(row.start.as_ref().map(|(_, _, due)| *due)),
    })
}

fn number_of_start(row: &LimitRow) -> Result<Option<i64>, StoreError> {
    let number = row
        .start
        .as_ref()
        .map(|(_, number, _)| i64::try_from(*number));
    number.transpose().map_err(Entity::broken)
}
