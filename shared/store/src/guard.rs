//! The guarded upsert: of two writers of one row one wins.

use sea_orm::sea_query::{Alias, Expr, ExprTrait, OnConflict};

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
    let column = |name: &'static str| Expr::col((Alias::new(table), Alias::new(name)));
    let excluded = Expr::col((Alias::new("excluded"), Alias::new(PRIOR_VERSION)));
    let written = columns.iter().copied().chain([VERSION, PRIOR_VERSION]);
    OnConflict::columns(keys.iter().map(|key| Alias::new(*key)))
        .update_columns(written.map(Alias::new))
        .action_and_where(column(VERSION).eq(excluded))
        .to_owned()
}
