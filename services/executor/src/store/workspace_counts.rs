//! Counts rows of each workspace, for limits.

use holdpoint_ids::Workspace;
use holdpoint_store::{BrokenRow as _, StoreError, Transaction};
use sea_orm::{ColumnTrait as _, EntityTrait, QueryFilter as _, QuerySelect as _, Select};

use crate::domain::Fact;

/// How many rows of a query each workspace has. A workspace without any is left out.
pub(super) async fn counts_by_workspace<E: EntityTrait>(
    db: &Transaction,
    query: Select<E>,
    column: E::Column,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, Fact)>, StoreError> {
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let names = workspaces.iter().map(|workspace| workspace.as_str());
    let counts = query
        .select_only()
        .column(column)
        .column_as(column.count(), "counted")
        .filter(column.is_in(names))
        .group_by(column);
    let rows: Vec<(String, i64)> = counts.into_tuple().all(db).await?;
    let counts = rows.into_iter().map(|(workspace, count)| {
        let workspace = workspace.parse().map_err(E::broken)?;
        let count = u64::try_from(count).map_err(E::broken)?;
        Ok((workspace, Fact::Count(count)))
    });
    counts.collect()
}
