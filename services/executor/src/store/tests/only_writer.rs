//! The writer of SQLite, which need not wait to learn that a row is as it was read.

use holdpoint_kernel::Store as _;
use holdpoint_store::{Location, StoreError, TableWriter, is_conflict, open_writer};

use super::samples::{agent, contact, library, next, node, now, run, tool};
use super::{Changed, executor, key_of, load_all, prepared};
use crate::domain::Aggregate;

async fn save(
    writer: &TableWriter,
    states: &[Aggregate],
    read_version: u64,
) -> Result<(), StoreError> {
    let keys: Vec<_> = states.iter().map(key_of).collect();
    let changed: Vec<_> = states
        .iter()
        .zip(&keys)
        .map(|(state, key)| Changed {
            key,
            state,
            read_version,
        })
        .collect();
    let tx = writer.begin().await?;
    assert_eq!(executor().save(&tx, &changed, now()).await?, []);
    tx.commit().await
}

/// A row that another program changed fails the commit, and nothing of that commit is stored.
#[tokio::test]
async fn a_changed_row_fails_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(dir.path().join("executor.db"));
    prepared(&location).await.close().await.unwrap();
    let writer = TableWriter::open(&location).await.unwrap();
    let first = [
        Aggregate::Agent(agent()),
        Aggregate::Contact(contact("ada")),
        Aggregate::Run(run()),
        Aggregate::Node(node("node-a")),
        Aggregate::Tool(tool()),
        Aggregate::Library(library()),
    ];
    save(&writer, &first, 0).await.unwrap();
    for state in &first {
        let other = Aggregate::Contact(contact("bob"));
        let both = [other, state.clone()];
        let refused = save(&writer, &both, 0).await.unwrap_err();
        assert!(is_conflict(&refused), "{refused:?}");
    }
    let db = open_writer(&location).await.unwrap();
    let bob = key_of(&Aggregate::Contact(contact("bob")));
    assert!(load_all(&db, &[bob]).await.is_empty());

    save(&writer, &next(&first, "winner"), 1).await.unwrap();
    let keys: Vec<_> = first.iter().map(key_of).collect();
    let after = load_all(&db, &keys).await;
    for state in next(&first, "loser") {
        let refused = save(&writer, &[state], 1).await.unwrap_err();
        assert!(is_conflict(&refused), "{refused:?}");
    }
    assert_eq!(load_all(&db, &keys).await, after);
}
