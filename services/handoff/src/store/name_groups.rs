//! Names of rows, grouped by workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;

use holdpoint_ids::Workspace;
use holdpoint_store::{BrokenRow, StoreError};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter as _, Select};

/// The names that a query of workspaces and names finds. A workspace without any has an empty set.
pub(super) async fn group_names<E, N>(
    db: &impl ConnectionTrait,
    query: Select<E>,
    workspace: E::Column,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, BTreeSet<N>)>, StoreError>
where
    E: EntityTrait + BrokenRow,
    N: FromStr<Err: Display> + Ord,
{
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let mut found: BTreeMap<_, _> = workspaces
        .iter()
        .map(|workspace| ((*workspace).clone(), BTreeSet::new()))
        .collect();
    let rows = query
        .filter(workspace.is_in(workspaces.iter().map(|one| one.as_str())))
        .into_tuple::<(String, String)>()
        .all(db)
        .await?;
    for (workspace, name) in rows {
        let names: &mut BTreeSet<N> = found
            .entry(workspace.parse().map_err(E::broken)?)
            .or_default();
        names.insert(name.parse().map_err(E::broken)?);
    }
    Ok(found.into_iter().collect())
}
