//! Multi-row inserts with cached texts.
//!
//! sea-orm builds a tree and a text for every statement. For 500 rows of ten columns that costs more than
//! the work of the database. The text depends only on the number of rows, so it is cached.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use sea_orm::sea_query::{Expr, OnConflict, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ConnectionTrait, DbBackend, EntityName, EntityTrait, Iterable,
    QueryResult, Statement, Value,
};

use crate::{ROWS_PER_STATEMENT, StoreError, Transaction};

/// More rows than this go in statements of a multiple of it, so that there are few texts. The database
/// prepares each of them once.
const ROW_STEP: usize = 16;

type Column<A> = <<A as ActiveModelTrait>::Entity as EntityTrait>::Column;

/// A text depends on the type of the rows, their number, what follows the values, and the database.
type Key = (TypeId, usize, Tail, bool);

/// What follows the values of an insert. One type of row has at most one conflict clause for each variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Tail {
    Plain,
    /// Fails if a row was changed ([`crate::guard::upsert_or_fail`]).
    Guarded,
    /// Returns so many columns.
    Returning(usize),
}

static TEXTS: RwLock<Option<HashMap<Key, Arc<str>>>> = RwLock::new(None);

/// Inserts rows whose fields are all set. They are written before any later statement. `conflict` must
/// always be the same for one type of row.
///
/// # Errors
/// [`StoreError`] when the database refuses or a field is not set.
pub async fn insert_rows<A: ActiveModelTrait + 'static>(
    db: &Transaction,
    rows: impl IntoIterator<Item = A>,
    conflict: Option<&OnConflict>,
) -> Result<(), StoreError> {
    defer_rows(db, rows.into_iter().collect(), conflict, Tail::Plain).await
}

/// As [`insert_rows`], with the conflict clause of [`crate::guard::upsert_or_fail`].
pub(crate) async fn upsert_rows_or_fail<A: ActiveModelTrait + 'static>(
    db: &Transaction,
    rows: Vec<A>,
    conflict: &OnConflict,
) -> Result<(), StoreError> {
    defer_rows(db, rows, Some(conflict), Tail::Guarded).await
}

async fn defer_rows<A: ActiveModelTrait + 'static>(
    db: &Transaction,
    mut rows: Vec<A>,
    conflict: Option<&OnConflict>,
    tail: Tail,
) -> Result<(), StoreError> {
    while let Some(statement) = next_statement(db, &mut rows, conflict, tail, &[])? {
        db.defer(statement).await?;
    }
    Ok(())
}

/// Inserts rows whose fields are all set, and returns the columns `returning` of those that `conflict`
/// accepts. Both must always be the same for one type of row.
///
/// # Errors
/// [`StoreError`] when the database refuses or a field is not set.
pub async fn insert_returning<A: ActiveModelTrait + 'static>(
    db: &Transaction,
    rows: impl IntoIterator<Item = A>,
    conflict: &OnConflict,
    returning: &[Column<A>],
) -> Result<Vec<QueryResult>, StoreError> {
    let mut rows: Vec<A> = rows.into_iter().collect();
    let mut returned = Vec::new();
    let tail = Tail::Returning(returning.len());
    while let Some(statement) = next_statement(db, &mut rows, Some(conflict), tail, returning)? {
        returned.extend(db.query_all_raw(statement).await?);
    }
    Ok(returned)
}

/// The statement of the first rows; absent after the last row.
fn next_statement<A: ActiveModelTrait + 'static>(
    db: &Transaction,
    rows: &mut Vec<A>,
    conflict: Option<&OnConflict>,
    tail: Tail,
    returning: &[Column<A>],
) -> Result<Option<Statement>, StoreError> {
    if rows.is_empty() {
        return Ok(None);
    }
    let rest = rows.split_off(count(rows.len()));
    let first = std::mem::replace(rows, rest);
    let backend = db.get_database_backend();
    let is_sqlite = backend == DbBackend::Sqlite;
    let key = (TypeId::of::<A>(), first.len(), tail, is_sqlite);
    let text = text::<A>(backend, key, conflict, returning)?;
    let mut values = Vec::with_capacity(first.len() * Column::<A>::iter().count());
    for row in first {
        push(row, &mut values)?;
    }
    Ok(Some(Statement::from_sql_and_values(
        backend, &*text, values,
    )))
}

/// The number of rows in the next statement.
const fn count(rows: usize) -> usize {
    if rows > ROWS_PER_STATEMENT {
        ROWS_PER_STATEMENT
    } else if rows > ROW_STEP {
        rows - rows % ROW_STEP
    } else {
        rows
    }
}

fn push<A: ActiveModelTrait>(mut row: A, values: &mut Vec<Value>) -> Result<(), StoreError> {
    for column in Column::<A>::iter() {
        match row.take(column) {
            ActiveValue::Set(value) | ActiveValue::Unchanged(value) => values.push(value),
            ActiveValue::NotSet => {
                return Err(StoreError::broken(
                    "(insert)",
                    format!("{column:?} is not set"),
                ));
            }
        }
    }
    Ok(())
}

fn text<A: ActiveModelTrait + 'static>(
    backend: DbBackend,
    key: Key,
    conflict: Option<&OnConflict>,
    returning: &[Column<A>],
) -> Result<Arc<str>, StoreError> {
    let known = |texts: &Option<HashMap<Key, Arc<str>>>| texts.as_ref()?.get(&key).cloned();
    if let Some(text) = known(&TEXTS.read().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(text);
    }
    let mut insert = Query::insert();
    insert
        .into_table(A::Entity::default().table_ref())
        .columns(Column::<A>::iter());
    for _ in 0..key.1 {
        // Only the text is used; any value makes a placeholder.
        insert
            .values(Column::<A>::iter().map(|_| Expr::val(0)))
            .map_err(|error| StoreError::broken("(insert)", error))?;
    }
    if let Some(conflict) = conflict {
        insert.on_conflict(conflict.clone());
    }
    if !returning.is_empty() {
        insert.returning(Query::returning().columns(returning.iter().copied()));
    }
    let text: Arc<str> = backend.build(&insert).sql.into();
    let mut texts = TEXTS.write().unwrap_or_else(PoisonError::into_inner);
    texts.get_or_insert_default().insert(key, Arc::clone(&text));
    Ok(text)
}

/// Rows that a page reads beyond its limit, so that as many may be passed over before the page is short.
pub const SPARE_ROWS: u64 = 16;

/// Reads at most `limit` rows of a page. A row that cannot be read affects no other row: it is passed over,
/// and the log has its name (B-2).
pub fn readable<R, T>(
    rows: impl IntoIterator<Item = R>,
    limit: u64,
    name: impl Fn(&R) -> String,
    read: impl Fn(R) -> Result<T, StoreError>,
) -> Vec<T> {
    let read = |row: R| {
        let name = name(&row);
        let unreadable = |error: &StoreError| {
            tracing::error!(row = name, %error, "row cannot be read; it is passed over");
        };
        read(row).inspect_err(unreadable).ok()
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    rows.into_iter().filter_map(read).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row goes in once, in few kinds of statements.
    #[test]
    fn any_number_of_rows_is_split_into_few_kinds_of_statements() {
        let mut kinds = std::collections::BTreeSet::new();
        for rows in 1..=2_000 {
            let mut left = rows;
            let mut statements = 0;
            while left > 0 {
                let taken = count(left);
                assert!(taken > 0 && taken <= ROWS_PER_STATEMENT);
                kinds.insert(taken);
                left -= taken;
                statements += 1;
            }
            assert!(statements <= rows / ROWS_PER_STATEMENT + 2, "{rows}");
        }
        assert!(
            kinds.len() <= ROW_STEP + ROWS_PER_STATEMENT / ROW_STEP + 1,
            "{}",
            kinds.len()
        );
    }
}
