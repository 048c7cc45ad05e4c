//! Rows that hold the state of an aggregate in columns, guarded by `version` and `prior_version`.
//!
//! [`ColumnRow`] is the only code that loads and saves such rows. A table whose state is JSON is a
//! [`StateRow`](holdpoint_store::StateRow).

use std::collections::HashSet;
use std::hash::Hash;

use chrono::{DateTime, Utc};
use holdpoint_store::{
    BrokenRow as _, ChangedState, KeyOf, ROWS_PER_STATEMENT, StoreError, Transaction,
    insert_returning, upsert_if_version,
};
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{
    ConnectionTrait, DbErr, EntityTrait, IdenStatic as _, Iterable as _, PrimaryKeyToColumn as _,
    PrimaryKeyTrait, QueryFilter as _, TryGetableMany as _,
};

use crate::domain::Key;

/// Columns that the guard writes.
const GUARD: [&str; 2] = ["version", "prior_version"];

/// A table with one aggregate a row.
pub(super) trait ColumnRow:
    EntityTrait<PrimaryKey: PrimaryKeyTrait<ValueType: Clone + Eq + Hash>, ActiveModel: Send + 'static>
{
    type State;

    /// Columns besides the key that keep what the first writer gave them.
    const CONSTANT: &'static [Self::Column] = &[];

    fn key(state: &Self::State) -> Result<KeyOf<Self>, StoreError>;

    fn read(row: Self::Model) -> Result<Self::State, StoreError>;

    fn row(
        state: &Self::State,
        prior_version: i64,
        now: DateTime<Utc>,
    ) -> Result<Self::ActiveModel, StoreError>;

    /// Loads the rows with these keys; unknown ones are left out.
    async fn load_states(
        db: &impl ConnectionTrait,
        keys: &[KeyOf<Self>],
    ) -> Result<Vec<Self::State>, StoreError> {
        let mut states = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(ROWS_PER_STATEMENT) {
            let columns = Self::PrimaryKey::iter().map(|key| Expr::col(key.into_column()));
            let with_keys = Expr::tuple(columns).in_tuples(chunk.iter().cloned());
            for row in Self::find().filter(with_keys).all(db).await? {
                states.push(Self::read(row)?);
            }
        }
        Ok(states)
    }

    /// Saves each state if its row still has the version that was read. Returns the keys of the others: another
    /// writer was faster.
    async fn save(
        db: &Transaction,
        changed: &[ChangedState<'_, Self::State, Key>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        let mut rows = Vec::with_capacity(changed.len());
        for one in changed {
            rows.push(Self::row(
                one.state,
                number::<Self>(one.read_version)?,
                now,
            )?);
        }
        let returning: Vec<_> = Self::PrimaryKey::iter()
            .map(|key| key.into_column())
            .collect();
        let keys: Vec<&'static str> = returning.iter().map(|key| key.as_str()).collect();
        let constant = Self::CONSTANT.iter().map(|column| column.as_str());
        let kept: HashSet<_> = constant.chain(keys.iter().copied()).chain(GUARD).collect();
        let written: Vec<_> = Self::Column::iter()
            .map(|column| column.as_str())
            .filter(|name| !kept.contains(name))
            .collect();
        let conflict = upsert_if_version(Self::default().table_name(), &keys, &written);
        let names: Vec<_> = keys.iter().map(|name| (*name).to_owned()).collect();
        let mut won = HashSet::new();
        for row in insert_returning(db, rows, &conflict, &returning).await? {
            won.insert(KeyOf::<Self>::try_get_many(&row, "", &names).map_err(DbErr::from)?);
        }
        let mut lost = Vec::new();
        for one in changed {
            if !won.contains(&Self::key(one.state)?) {
                lost.push(one.key.clone());
            }
        }
        Ok(lost)
    }
}

/// A number as its column has it.
pub(super) fn number<E: EntityTrait>(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(E::broken)
}
