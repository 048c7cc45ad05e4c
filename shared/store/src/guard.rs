//! The guarded upsert: of two writers of one row one wins.

use sea_orm::sea_query::{Alias, Expr, ExprTrait, OnConflict};

/// Column of the version that a row is at.
const VERSION: &str = "version";

/// Column of the version that its writer had read.
const PRIOR_VERSION: &str = "prior_version";

/// `ON CONFLICT (keys) DO UPDATE SET columns = excluded… WHERE table.version = excluded.prior_version`.
///
/// Rows whose guard does not hold are left alone and are missing in `RETURNING`: their writers have
/// lost. A new row has prior version 0, so that it loses against any row that is there.
#[must_use]
pub fn guarded(table: &'static str, keys: &[&'static str], columns: &[&'static str]) -> OnConflict {
    let column = |name: &'static str| Expr::col((Alias::new(table), Alias::new(name)));
    let excluded = Expr::col((Alias::new("excluded"), Alias::new(PRIOR_VERSION)));
    let written = columns.iter().copied().chain([VERSION, PRIOR_VERSION]);
    OnConflict::columns(keys.iter().map(|key| Alias::new(*key)))
        .update_columns(written.map(Alias::new))
        .action_and_where(column(VERSION).eq(excluded))
        .to_owned()
}
