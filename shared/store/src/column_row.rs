//! Rows that hold the state of an aggregate in columns, guarded by `version` and `prior_version`.

use std::future::Future;

use sea_orm::ConnectionTrait;
use sea_orm::entity::prelude::DateTimeUtc;

use crate::state_row::{GuardedTable, load_rows, save_rows};
use crate::{BrokenRow as _, ChangedState, KeyOf, StoreError, Transaction};

/// A table whose rows hold states in columns. [`StateRow`](crate::StateRow) is the one for JSON.
pub trait ColumnRow: GuardedTable {
    type State: Send + Sync;

    /// Columns besides the key that keep what the first writer gave them.
    const CONSTANT: &'static [Self::Column] = &[];

    /// Reads the state of a row.
    ///
    /// # Errors
    /// [`StoreError::BrokenRow`] when a column has no value of the state.
    fn read(row: Self::Model) -> Result<Self::State, StoreError>;

    /// The whole row of a state.
    ///
    /// # Errors
    /// [`StoreError`] when a value does not fit its column.
    fn row(
        state: &Self::State,
        prior_version: i64,
        now: DateTimeUtc,
    ) -> Result<Self::ActiveModel, StoreError>;

    /// Loads the rows with these keys; unknown ones are left out.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses or a row cannot be read.
    fn load_states(
        db: &impl ConnectionTrait,
        keys: &[KeyOf<Self>],
    ) -> impl Future<Output = Result<Vec<Self::State>, StoreError>> + Send {
        load_rows::<Self, _, _>(db, keys, |query| query, Self::read)
    }

    /// Saves each state if its row still has the version that was read. Returns the keys of the others:
    /// another writer was faster.
    ///
    /// # Errors
    /// [`StoreError`] when the database refuses or a value does not fit.
    fn save<K: Clone + Sync>(
        db: &Transaction,
        changed: &[ChangedState<'_, Self::State, K>],
        now: DateTimeUtc,
    ) -> impl Future<Output = Result<Vec<K>, StoreError>> {
        save_rows::<Self, _, _>(db, changed, Self::CONSTANT, move |state, read_version| {
            let prior_version = i64::try_from(read_version).map_err(Self::broken)?;
            Self::row(state, prior_version, now)
        })
    }
}
