//! Pauses of workspaces beside starts, on Postgres.

use std::time::Duration;

use holdpoint_kernel::Store as _;
use holdpoint_store::{ChangedState, StateRow as _, begin_write};
use sea_orm::DatabaseConnection;

use super::executor;
use super::samples::{acme, now};
use crate::domain::{Aggregate, Key};
use crate::store::workspace_row;

/// Mend B-8: a start that found no row of its workspace is over before the workspace is paused, so that the
/// pages of the pause see its run.
pub(in crate::store) async fn wait_for_starts(
    one: &DatabaseConnection,
    other: &DatabaseConnection,
) {
    let acme = acme();
    let key = Key::Workspace(acme.clone());
    let start = begin_write(one).await.unwrap();
    let found = executor()
        .load(&start, std::slice::from_ref(&key))
        .await
        .unwrap();
    assert_eq!(found.len(), 1, "a row that can be locked");
    let pause = async {
        let tx = begin_write(other).await.unwrap();
        let found = executor()
            .load(&tx, std::slice::from_ref(&key))
            .await
            .unwrap();
        let Aggregate::Workspace(scope) = &found[0].1 else {
            panic!("{found:?}");
        };
        let mut next = scope.clone();
        next.version += 1;
        let changed = ChangedState {
            state: &next,
            key: &key,
            read_version: scope.version,
        };
        let losers = workspace_row::Entity::save(&tx, &[changed], now()).await;
        assert_eq!(losers.unwrap(), []);
        tx.commit().await.unwrap();
    };
    let mut pause = std::pin::pin!(pause);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut pause).await;
    assert!(early.is_err(), "the pause went past the start");
    start.commit().await.unwrap();
    pause.await;
}
