//! The guarded upserts: of two writers of one row one wins.

use sea_orm::sea_query::{Alias, Expr, ExprTrait, OnConflict};
use sea_orm::sqlx::error::ErrorKind;
use sea_orm::{DbErr, RuntimeErr};

use crate::StoreError;

/// Column of the version that a row is at.
pub(crate) const VERSION: &str = "version";

/// Column of the version that the writer had read.
pub(crate) const PRIOR_VERSION: &str = "prior_version";

/// `ON CONFLICT (keys) DO UPDATE SET columns = excluded… WHERE table.version = excluded.prior_version`.
///
/// A row whose guard does not hold keeps its values and is missing in `RETURNING`: its writer has lost.
/// A new row has prior version 0, so it loses against any row that exists.
#[must_use]
pub fn upsert_if_version(
    table: &'static str,
    keys: &[&'static str],
    columns: &[&'static str],
) -> OnConflict {
    let written = columns.iter().copied().chain([VERSION, PRIOR_VERSION]);
    OnConflict::columns(keys.iter().map(|key| Alias::new(*key)))
        .update_columns(written.map(Alias::new))
        .action_and_where(is_as_read(table))
        .to_owned()
}

/// As [`upsert_if_version`], but a row whose guard does not hold fails the statement: its prior version would
/// become `NULL`, which the column refuses. So the caller need not wait for the rows ([`is_conflict`]).
pub(crate) fn upsert_or_fail(
    table: &'static str,
    keys: &[&'static str],
    columns: &[&'static str],
) -> OnConflict {
    let written = columns.iter().copied().chain([VERSION]);
    OnConflict::columns(keys.iter().map(|key| Alias::new(*key)))
        .update_columns(written.map(Alias::new))
        .value(
            Alias::new(PRIOR_VERSION),
            Expr::case(is_as_read(table), excluded_prior_version()),
        )
        .to_owned()
}

/// Prefix of the unique indexes for which several writers compete.
const CONTENDED: &str = "contended_";

/// Whether a transaction failed because another one was faster: a row did not have the version that its writer had
/// read, a new row exists, or a value of a new row is taken.
#[must_use]
pub fn is_conflict(error: &StoreError) -> bool {
    let error = match error {
        StoreError::Database(
            DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)),
        ) => error,
        StoreError::Conflict { .. } => return true,
        StoreError::Database(_) | StoreError::Folder { .. } | StoreError::BrokenRow { .. } => {
            return false;
        }
    };
    error.as_database_error().is_some_and(|error| {
        let has_changed =
            error.kind() == ErrorKind::NotNullViolation && error.message().ends_with(PRIOR_VERSION);
        let is_taken = |index: &str| index.starts_with(CONTENDED);
        has_changed || error.is_unique_violation() && error.constraint().is_some_and(is_taken)
    })
}

fn is_as_read(table: &'static str) -> Expr {
    let version = Expr::col((Alias::new(table), Alias::new(VERSION)));
    version.eq(excluded_prior_version())
}

fn excluded_prior_version() -> Expr {
    Expr::col((Alias::new("excluded"), Alias::new(PRIOR_VERSION)))
}
