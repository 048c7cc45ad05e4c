//! Rows that hold the state of an aggregate as JSON, beside the columns that it is found by.
//!
//! [`StateRow`] is the only code that reads, loads and saves such rows. A service adds the columns and
//! its queries.

use std::collections::HashSet;
use std::future::Future;
use std::hash::Hash;

use sea_orm::entity::prelude::DateTimeUtc;
use sea_orm::sea_query::{FromValueTuple, IntoValueTuple};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, EntityName, EntityTrait, IdenStatic,
    Iterable, ModelTrait as _, PrimaryKeyToColumn, PrimaryKeyTrait, QueryFilter, QueryOrder,
    QuerySelect, Select, TryGetableMany, Value,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::guard::{PRIOR_VERSION, VERSION, upsert_or_fail};
use crate::rows::upsert_rows_or_fail;
use crate::{
    ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, Transaction, insert_returning, readable,
    upsert_if_version,
};

/// The primary key of a row; a key of several columns is a tuple.
pub type KeyOf<R> = <<R as EntityTrait>::PrimaryKey as PrimaryKeyTrait>::ValueType;

/// The columns that every row with a state has.
#[derive(Debug)]
pub struct StoredState {
    pub version: i64,
    /// The version that the writer had read; 0: there was no row.
    pub prior_version: i64,
    /// JSON.
    pub state: String,
    /// Instant of the commit.
    pub now: DateTimeUtc,
}

/// A state to save if its row still has the version that was read.
#[derive(Debug)]
pub struct ChangedState<'s, S, K> {
    pub state: &'s S,
    /// Returned if another writer was faster.
    pub key: &'s K,
    /// 0: there was no row.
    pub read_version: u64,
}

/// An error that names the table of an entity.
pub trait BrokenRow: EntityName {
    /// A row of this table breaks an invariant.
    fn broken(reason: impl std::fmt::Display) -> StoreError {
        StoreError::broken(Self::default().table_name(), reason)
    }

    /// Reads the word of an enum in a column.
    ///
    /// # Errors
    /// [`StoreError::BrokenRow`] when the enum has no such word.
    fn word<T: DeserializeOwned>(text: String) -> Result<T, StoreError> {
        serde_json::from_value(text.into()).map_err(Self::broken)
    }
}

impl<E: EntityName> BrokenRow for E {}

/// A table with one aggregate a row, guarded by `version` and `prior_version`.
pub trait GuardedTable:
    EntityTrait<
        PrimaryKey: PrimaryKeyTrait<ValueType: Clone + Eq + Hash + Sync>,
        ActiveModel: Send + 'static,
    >
{
}

impl<E> GuardedTable for E where
    E: EntityTrait<
            PrimaryKey: PrimaryKeyTrait<ValueType: Clone + Eq + Hash + Sync>,
            ActiveModel: Send + 'static,
        >
{
}

/// A table whose rows hold states as JSON.
pub trait StateRow: GuardedTable {
    type State: Serialize + DeserializeOwned + Send + Sync;

    /// Columns besides the key that keep what the first writer gave them.
    const CONSTANT: &'static [Self::Column] = &[];

    /// The JSON of a row.
    fn state(row: &Self::Model) -> &str;

    fn version(state: &Self::State) -> u64;

    /// The whole row of a state.
    ///
    /// # Errors
    /// [`StoreError`] when a value does not fit its column.
    fn row(state: &Self::State, stored: StoredState) -> Result<Self::ActiveModel, StoreError>;

    /// Reads the state of a row.
    ///
    /// # Errors
    /// [`StoreError::BrokenRow`] when the JSON is not a state.
    fn read(row: &Self::Model) -> Result<Self::State, StoreError> {
        serde_json::from_str(Self::state(row)).map_err(Self::broken)
    }

    /// Loads the rows with these keys; unknown ones are left out. Decisions and reads must see each
    /// state, so a row that cannot be read is an error.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses or a row cannot be read.
    fn load_states(
        db: &impl ConnectionTrait,
        keys: &[KeyOf<Self>],
    ) -> impl Future<Output = Result<Vec<Self::State>, StoreError>> + Send {
        load_rows::<Self, _, _>(db, keys, |query| query, |row| Self::read(&row))
    }

    /// As [`Self::load_states`], for a decision whose commit must exclude a writer of the row: on Postgres it
    /// locks the rows, in the order of their keys, until the transaction ends.
    ///
    /// # Errors
    /// As [`Self::load_states`].
    fn load_shared(
        db: &impl ConnectionTrait,
        keys: &[KeyOf<Self>],
    ) -> impl Future<Output = Result<Vec<Self::State>, StoreError>> + Send {
        let lock = |query: Select<Self>| {
            let ordered = key_columns::<Self>().fold(query, QueryOrder::order_by_asc);
            ordered.lock_shared()
        };
        load_rows::<Self, _, _>(db, keys, lock, |row| Self::read(&row))
    }

    /// The first row that a query finds.
    ///
    /// # Errors
    /// As [`Self::load_states`].
    fn first(
        db: &impl ConnectionTrait,
        query: Select<Self>,
    ) -> impl Future<Output = Result<Option<Self::State>, StoreError>> + Send {
        async move {
            let row = query.one(db).await?;
            row.as_ref().map(Self::read).transpose()
        }
    }

    /// The first `limit` rows that a query finds. A row that cannot be read is passed over and logged.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses.
    fn page(
        db: &impl ConnectionTrait,
        query: Select<Self>,
        limit: u64,
    ) -> impl Future<Output = Result<Vec<Self::State>, StoreError>> + Send {
        page(db, query, limit, |row| Self::read(&row))
    }

    /// Saves each state if its row still has the version that was read, in one statement for up to
    /// [`ROWS_PER_STATEMENT`] rows. Returns the keys of the others: another writer was faster.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses or a value does not fit.
    fn save<K: Clone + Sync>(
        db: &Transaction,
        changed: &[ChangedState<'_, Self::State, K>],
        now: DateTimeUtc,
    ) -> impl Future<Output = Result<Vec<K>, StoreError>> {
        save_rows::<Self, _, _>(db, changed, Self::CONSTANT, move |state, read_version| {
            active::<Self>(state, read_version, now)
        })
    }

    /// Adds the rows of states that have none; a row that exists is kept as it is.
    ///
    /// # Errors
    /// As [`Self::save`].
    fn add(
        db: &impl ConnectionTrait,
        states: &[Self::State],
        now: DateTimeUtc,
    ) -> impl Future<Output = Result<(), StoreError>> {
        async move {
            for chunk in states.chunks(ROWS_PER_STATEMENT) {
                let rows = chunk.iter().map(|state| active::<Self>(state, 0, now));
                Self::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                    .on_conflict_do_nothing()
                    .exec_without_returning(db)
                    .await?;
            }
            Ok(())
        }
    }
}

/// The first `limit` rows that a query finds. A row that cannot be read is passed over and logged.
///
/// # Errors
/// [`StoreError`] when the database refuses.
pub async fn page<R: EntityTrait, S>(
    db: &impl ConnectionTrait,
    query: Select<R>,
    limit: u64,
    read: impl Fn(R::Model) -> Result<S, StoreError>,
) -> Result<Vec<S>, StoreError> {
    let spare = limit.saturating_add(SPARE_ROWS);
    let rows = query.limit(spare).all(db).await?;
    let name = |row: &R::Model| {
        let key: Vec<_> = key_columns::<R>().map(|key| row.get(key)).collect();
        format!("{key:?} of {}", R::default().table_name())
    };
    Ok(readable(rows, limit, name, read))
}

fn key_columns<R: EntityTrait>() -> impl Iterator<Item = R::Column> {
    R::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column)
}

pub(crate) async fn load_rows<R: GuardedTable, S: Send, C: ConnectionTrait>(
    db: &C,
    keys: &[KeyOf<R>],
    refine: impl Fn(Select<R>) -> Select<R> + Send,
    read: impl Fn(R::Model) -> Result<S, StoreError> + Send,
) -> Result<Vec<S>, StoreError> {
    let mut states = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS_PER_STATEMENT) {
        let query = refine(R::find().filter(with_keys::<R>(chunk)));
        for row in query.all(db).await? {
            states.push(read(row)?);
        }
    }
    Ok(states)
}

/// Saves each state if its row still has the version that was read; returns the keys of the others.
pub(crate) async fn save_rows<R: GuardedTable, S, K: Clone>(
    db: &Transaction,
    changed: &[ChangedState<'_, S, K>],
    constant: &[R::Column],
    row: impl Fn(&S, u64) -> Result<R::ActiveModel, StoreError>,
) -> Result<Vec<K>, StoreError> {
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    let (mut rows, mut keys) = (Vec::new(), Vec::new());
    for one in changed {
        let row = row(one.state, one.read_version)?;
        let key = row.get_primary_key_value();
        let key = key.ok_or_else(|| R::broken("the key is not set"))?;
        keys.push(KeyOf::<R>::from_value_tuple(key));
        rows.push(row);
    }
    let names: Vec<&'static str> = key_columns::<R>().map(|key| key.as_str()).collect();
    let written: Vec<_> = R::Column::iter()
        .map(|column| column.as_str())
        .filter(|name| !names.contains(name) && ![VERSION, PRIOR_VERSION].contains(name))
        .filter(|name| constant.iter().all(|fixed| fixed.as_str() != *name))
        .collect();
    let table = R::default().table_name();
    if db.is_exclusive() {
        // A conflict is then a defect or a change by another program, so that the commit may fail.
        let conflict = upsert_or_fail(table, &names, &written);
        upsert_rows_or_fail(db, rows, &conflict).await?;
        return Ok(Vec::new());
    }
    let conflict = upsert_if_version(table, &names, &written);
    let returning: Vec<_> = key_columns::<R>().collect();
    let won = insert_returning(db, rows, &conflict, &returning).await?;
    let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
    let won = won
        .iter()
        .map(|row| KeyOf::<R>::try_get_many(row, "", &names));
    let won = won
        .collect::<Result<HashSet<_>, _>>()
        .map_err(sea_orm::DbErr::from)?;
    let lost = changed
        .iter()
        .zip(&keys)
        .filter(|(_, key)| !won.contains(key));
    Ok(lost.map(|(one, _)| one.key.clone()).collect())
}

/// `workspace = … AND name IN (…)`, for each workspace: the last column of the key is listed, so that
/// the primary key serves the search on both databases.
fn with_keys<R: GuardedTable>(keys: &[KeyOf<R>]) -> Condition {
    let mut groups: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    for key in keys {
        let mut leading: Vec<Value> = key.clone().into_value_tuple().into_iter().collect();
        let last = leading.pop();
        match groups.iter_mut().find(|(group, _)| *group == leading) {
            Some((_, listed)) => listed.extend(last),
            None => groups.push((leading, last.into_iter().collect())),
        }
    }
    groups
        .into_iter()
        .fold(Condition::any(), |any, (leading, listed)| {
            let mut columns = key_columns::<R>();
            let all = leading.into_iter().zip(columns.by_ref());
            let all = all.fold(Condition::all(), |all, (value, column)| {
                all.add(ColumnTrait::eq(&column, value))
            });
            any.add(columns.fold(all, |all, column| {
                all.add(column.is_in(listed.iter().cloned()))
            }))
        })
}

fn active<R: StateRow>(
    state: &R::State,
    read_version: u64,
    now: DateTimeUtc,
) -> Result<R::ActiveModel, StoreError> {
    let stored = StoredState {
        version: i64::try_from(R::version(state)).map_err(R::broken)?,
        prior_version: i64::try_from(read_version).map_err(R::broken)?,
        state: serde_json::to_string(state).map_err(R::broken)?,
        now,
    };
    R::row(state, stored)
}
